/* SPDX-License-Identifier: Apache-2.0 */
/* Helium: windows of one channel whose bytes lie side by side, up to 64 of them; one VMLADAV takes 16. */
#ifndef TW_MVE_PLANE_H
#define TW_MVE_PLANE_H

#include "mve_s8.h"

/* Most vectors of a window. */
#define TW_PLANE_MOST 4

/* A row of outputs: the first window lies at x, the next ones step bytes further; outputs go to y, jump bytes apart.
 * Weight i is w[at[i]], up to whole vectors, where it is 0 beyond the window; memory behind a window can be read. Sums
 * start with ends[0] and are scaled by ends[1] (mult) and ends[2] (shift -31..-1); they stay below 2^30. */
typedef struct {
    const int8_t *x, *w;
    int8_t *y;
    const uint8_t *at;
    const int32_t *ends;
    int32_t step, jump, count, zero;
} tw_plane_row;

#if defined(TW_MVE)
/* Sum a of the window at x. */
#define TW_PLANE_SUM1(a) "vldrb.8 %q[t], [%[x]]\n\tvmladav.s8 %[" a "], %q[t], %q[w0]\n\t"
#define TW_PLANE_SUM2(a) TW_PLANE_SUM1(a) "vldrb.8 %q[t], [%[x], #16]\n\tvmladava.s8 %[" a "], %q[t], %q[w1]\n\t"
#define TW_PLANE_SUM3(a) TW_PLANE_SUM2(a) "vldrb.8 %q[t], [%[x], #32]\n\tvmladava.s8 %[" a "], %q[t], %q[w2]\n\t"
#define TW_PLANE_SUM4(a) TW_PLANE_SUM3(a) "vldrb.8 %q[t], [%[x], #48]\n\tvmladava.s8 %[" a "], %q[t], %q[w3]\n\t"
#define TW_PLANE_NEXT "add %[x], %[x], %[step]\n\t"
/* Four sums. */
#define TW_PLANE_FOUR(SUM)                                                                                             \
    SUM("a")                                                                                                           \
    TW_PLANE_NEXT SUM("b") TW_PLANE_NEXT SUM("c") TW_PLANE_NEXT "vmov %q[s][2], %q[s][0], %[a], %[c]\n\t" SUM("a")     \
        TW_PLANE_NEXT "vmov %q[s][3], %q[s][1], %[b], %[a]\n\t"
/* Their outputs. */
#define TW_PLANE_END                                                                                                   \
    "vadd.i32 %q[s], %q[s], %q[bias]\n\tvqrdmulh.s32 %q[s], %q[s], %[mult]\n\tvqdmlah.s32 %q[s], %q[s], %[one]\n\t"    \
    "vrshl.s32 %q[s], %[shift]\n\tvadd.i32 %q[s], %q[s], %[zero]\n\tvqmovnb.s32 %q[s], %q[s]\n\t"                      \
    "vqmovnb.s16 %q[s], %q[s]\n\tvctp.32 %[left]\n\tsub %[left], %[left], #4\n\tvpst\n\t"                              \
    "vstrbt.32 %q[s], [%[y], %q[to]]\n\tadd %[y], %[y], %[four]\n\t"
#define TW_PLANE_WEIGHTS(i) vldrbq_gather_offset_s8(row->w, vldrbq_u8(row->at + 16 * (i)))
/* A row by windows of so many vectors: four windows a round, of which the last one stores what is left. A function of
 * its own: it takes all registers, and layers share it. */
#define TW_PLANE_ROW(vectors)                                                                                          \
    static TW_NOINLINE void tw_plane_row##vectors(const tw_plane_row *row) {                                           \
        const int8_t *x = row->x;                                                                                      \
        int8_t *y = row->y;                                                                                            \
        int32_t left = row->count, a = (left + 3) / 4, b, c; /* a: first the number of rounds */                       \
        int32x4_t t, s;                                                                                                \
        __asm volatile("dls lr, %[a]\n"                                                                                \
                       "1:\n\t" TW_PLANE_FOUR(TW_PLANE_SUM##vectors) TW_PLANE_END "le lr, 1b"                          \
                       : [x] "+&r"(x), [y] "+&r"(y), [left] "+&r"(left), [a] "+&Te"(a), [b] "=&Te"(b), [c] "=&Te"(c),  \
                         [t] "=&w"(t), [s] "=&w"(s)                                                                    \
                       : [step] "r"(row->step), [four] "r"(4 * row->jump), [bias] "w"(vdupq_n_s32(row->ends[0])),      \
                         [mult] "r"(row->ends[1]), [shift] "r"(row->ends[2]), [zero] "r"(row->zero), [one] "r"(1),     \
                         [to] "w"(vmulq_n_u32(vidupq_n_u32(0, 1), (uint32_t)row->jump)),                               \
                         [w0] "w"(TW_PLANE_WEIGHTS(0)), [w1] "w"(TW_PLANE_WEIGHTS(tw_min(1, vectors - 1))),            \
                         [w2] "w"(TW_PLANE_WEIGHTS(tw_min(2, vectors - 1))), [w3] "w"(TW_PLANE_WEIGHTS(vectors - 1))   \
                       : "lr", TW_PREDICATE, "memory");                                                                \
    }
TW_PLANE_ROW(1)
TW_PLANE_ROW(2)
TW_PLANE_ROW(3)
TW_PLANE_ROW(4)
#endif

/* The row, by windows of so many vectors. */
TW_INLINE void tw_plane_across(const tw_plane_row *row, int32_t vectors) {
#if defined(TW_MVE)
    if (vectors == 1)
        tw_plane_row1(row);
    else if (vectors == 2)
        tw_plane_row2(row);
    else if (vectors == 3)
        tw_plane_row3(row);
    else
        tw_plane_row4(row);
#else
    for (int32_t i = 0; i < row->count; ++i) {
        int32_t sum = row->ends[0];
        for (int32_t k = 0; k < 16 * vectors; ++k) sum += row->x[i * row->step + k] * row->w[row->at[k]];
        const int32_t q = tw_requantize(sum, row->ends[1], row->ends[2]) + row->zero;
        row->y[i * row->jump] = (int8_t)tw_clamp(q, INT8_MIN, INT8_MAX);
    }
#endif
}

/* to[at[i]] = to[at[i] + apart] = from[i], count values. */
TW_INLINE void tw_plane_spread(int8_t *to, const int8_t *from, const uint8_t *at, int32_t apart, int32_t count) {
#if defined(TW_MVE)
    for (; count > 0; count -= 16, from += 16, at += 16) {
        const mve_pred16_t some = vctp8q((uint32_t)count);
        const int8x16_t v = vldrbq_z_s8(from, some);
        const uint8x16_t place = vldrbq_z_u8(at, some);
        vstrbq_scatter_offset_p_s8(to, place, v, some);
        vstrbq_scatter_offset_p_s8(to + apart, place, v, some);
    }
#else
    for (int32_t i = 0; i < count; ++i) to[at[i]] = to[at[i] + apart] = from[i];
#endif
}

/* Copies count bytes that lie from_step apart to places to_step apart; steps are at most 9362. */
TW_INLINE void tw_plane_copy(int8_t *to, int32_t to_step, const int8_t *from, int32_t from_step, int32_t count) {
#if defined(TW_MVE)
    const uint16x8_t i = vidupq_n_u16(0, 1);
    int16x8_t v;
    __asm volatile("wlstp.16 lr, %[count], 2f\n"
                   "1:\n\tvldrb.u16 %q[v], [%[from], %q[x]]\n\tvstrb.16 %q[v], [%[to], %q[y]]\n\t"
                   "add %[from], %[from], %[x_step]\n\tadd %[to], %[to], %[y_step]\n\tletp lr, 1b\n"
                   "2:"
                   : [from] "+&r"(from), [to] "+&r"(to), [v] "=&w"(v)
                   : [count] "r"(count), [x] "w"(vmulq_n_u16(i, (uint16_t)from_step)),
                     [y] "w"(vmulq_n_u16(i, (uint16_t)to_step)), [x_step] "r"(8 * from_step), [y_step] "r"(8 * to_step)
                   : "lr", "memory");
#else
    for (int32_t i = 0; i < count; ++i) to[i * to_step] = from[i * from_step];
#endif
}

#endif
