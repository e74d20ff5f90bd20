/* SPDX-License-Identifier: Apache-2.0 */
/* The DSP extension: windows of one channel whose values lie side by side, as int16; one SMLAD takes two of them. */
#ifndef TW_DSP_PLANE_H
#define TW_DSP_PLANE_H

#include "dsp.h"

/* A row of outputs: the first window lies at x, the next ones step bytes further; outputs go to y, jump bytes apart.
 * Windows are words (at least 1) of two values and two weights; rounds of four may read three windows beyond the last.
 * Sums start with ends[0]. With int8, ends and weights are doubled; sums are scaled by ends[1] (mult) and ends[2]
 * (shift to the right, 1..22), as tw_scaled takes them. With int16, tw_top takes ends[1]; zero is a mask of the bits
 * that negative outputs lose: all with RELU, else none. */
typedef struct {
    const int8_t *x, *w;
    int8_t *y;
    const int32_t *ends;
    int32_t step, jump, count, words, zero;
} tw_plane_dsp_row;

/* Four sums, of the windows from x on. In assembly: compilers run out of registers. */
TW_INLINE void tw_plane_dsp_four(const int8_t *x, int32_t *sums, const tw_plane_dsp_row *row) {
    const int32_t step = row->step;
    const int8_t *w = row->w;
    int32_t s0 = row->ends[0], s1 = s0, s2 = s0, s3 = s0;
#if defined(TW_DSP_LOOPS)
#define TW_PLANE_DSP_WORD                                                                                              \
    "ldr %[v], [%[w]], #4\n ldr %[a], [%[x], %[step]]\n smlad %[s1], %[v], %[a], %[s1]\n"                              \
    "ldr %[a], [%[x], %[step], lsl #1]\n smlad %[s2], %[v], %[a], %[s2]\n"                                             \
    "ldr %[a], [%[x], %[third]]\n smlad %[s3], %[v], %[a], %[s3]\n"                                                    \
    "ldr %[a], [%[x]], #4\n smlad %[s0], %[v], %[a], %[s0]\n"
    uint32_t v = (uint32_t)row->words & 1U, a; /* then the loop of two words begins at its half */
    __asm volatile("cmp %[v], #0\n bne 2f\n"
                   "1:\n" TW_PLANE_DSP_WORD "2:\n" TW_PLANE_DSP_WORD "cmp %[w], %[end]\n bne 1b\n"
                   : [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3), [x] "+r"(x), [w] "+r"(w), [v] "+r"(v),
                     [a] "=&r"(a)
                   : [end] "r"(w + 4 * row->words), [step] "r"(step), [third] "r"(3 * step)
                   : "cc", "memory");
#undef TW_PLANE_DSP_WORD
#else
    for (int32_t left = row->words; left > 0; --left, w += 4, x += 4) {
        const uint32_t v = tw_word(w);
        s0 = tw_dual(tw_word(x), v, s0), s1 = tw_dual(tw_word(x + step), v, s1);
        s2 = tw_dual(tw_word(x + 2 * step), v, s2), s3 = tw_dual(tw_word(x + 3 * step), v, s3);
    }
#endif
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
}

TW_INLINE void tw_plane_dsp_output(int8_t *y, int32_t sum, int32_t rounding, const int32_t *ends, int wide) {
    if (wide) {
        const int32_t q = tw_clamp_s16(tw_top(sum, ends[1]), INT16_MIN, INT16_MAX);
        *(int16_t *)(void *)y = (int16_t)(q & ~(q >> 31 & rounding));
    } else
        *y = (int8_t)tw_clamp8(tw_scaled(sum, ends[1], rounding, ends[2]));
}

TW_INLINE void tw_plane_dsp_outputs(const tw_plane_dsp_row *row, int wide) {
    const int32_t ends[3] = {0, row->ends[1], row->ends[2]}, jump = row->jump;
    const int32_t rounding = wide ? row->zero : tw_rounding(row->zero, ends[2]);
    const int8_t *x = row->x;
    int8_t *y = row->y;
    int32_t left = row->count, sums[4];
    for (; left >= 4; left -= 4, x += 4 * row->step) {
        tw_plane_dsp_four(x, sums, row);
#pragma GCC unroll 4
        for (int32_t j = 0; j < 4; ++j, y += jump) tw_plane_dsp_output(y, sums[j], rounding, ends, wide);
    }
    if (left > 0) tw_plane_dsp_four(x, sums, row);
    for (int32_t j = 0; j < left; ++j, y += jump) tw_plane_dsp_output(y, sums[j], rounding, ends, wide);
}

/* Functions of their own, which layers share: they take all registers. */
static TW_NOINLINE void tw_plane_dsp_row_s8(const tw_plane_dsp_row *row) { tw_plane_dsp_outputs(row, 0); }
static TW_NOINLINE void tw_plane_dsp_row_s16(const tw_plane_dsp_row *row) { tw_plane_dsp_outputs(row, 1); }

/* Copies count values, x_step bytes apart, int16 if wide, else int8, to int16 that lie to_step apart. */
TW_INLINE void tw_plane_dsp_copy(int16_t *to, int32_t to_step, const int8_t *x, int32_t x_step, int32_t count,
                                 int wide) {
    for (; count > 1; count -= 2, to += 2 * to_step, x += 2 * x_step) {
        const int8_t *next = x + x_step;
        const int16_t a = wide ? *(const int16_t *)(const void *)x : (int16_t)*x;
        to[to_step] = wide ? *(const int16_t *)(const void *)next : (int16_t)*next;
        to[0] = a;
    }
    if (count > 0) *to = wide ? *(const int16_t *)(const void *)x : (int16_t)*x;
}

#endif
