/* Int8 matrix products on Helium: tiles of four channels that CONV_2D and FULLY_CONNECTED take their sums from.
 *
 * VMLADAVA sums 16 products into an even-numbered register; a tile holds as many sums as there are of these: four
 * channels of two pixels, or of one where the loop's counter (LR) or other weights leave no more. */
#ifndef TW_MVE_TILE_H
#define TW_MVE_TILE_H

#include "mve.h"

/* Bytes that one VMLADAVA takes of each operand. */
#define TW_MVE_BLOCK 16

/* Sums of four channels over one pixel and over another. */
typedef struct {
    tw_v4 a, b;
} tw_mve_sums;

/* A layer's channels in fours, one after another: biases int32 [4], weights int8 [blocks][4][16], multipliers int32 [4],
 * shifts int8 [4]. Zeros in the padding, so x may hold anything there. shift -31..-1, as tw_v4_scaled takes it. */
typedef struct {
    const int32_t *fours;
    int32_t blocks, out, zero, low, high;
} tw_mve_matrix;

/* Biases and weights of a four times x0 and x1, int8 [16 * blocks] each; moves *fours on to the multipliers. */
TW_INLINE tw_mve_sums tw_mve_tile2(const int8_t *x0, const int8_t *x1, const int32_t **fours, int32_t blocks) {
    tw_mve_sums s;
    const int32_t *f = *fours;
#if defined(TW_MVE)
    int8x16_t w;
    __asm volatile(
        "ldm %[f], {r0, r2, r4, r6}\n\t"
        "ldm %[f]!, {r8, r10, r12, lr}\n"
        "1:\n\t"
        "vldrb.8 %q[a], [%[x0]], #16\n\t"
        "vldrb.8 %q[w], [%[f]], #64\n\t"
        "vmladava.s8 r0, %q[a], %q[w]\n\t"
        "vldrb.8 %q[b], [%[x1]], #16\n\t"
        "vmladava.s8 r8, %q[b], %q[w]\n\t"
        "vldrb.8 %q[w], [%[f], #-48]\n\t"
        "vmladava.s8 r2, %q[a], %q[w]\n\t"
        "vmladava.s8 r10, %q[b], %q[w]\n\t"
        "vldrb.8 %q[w], [%[f], #-32]\n\t"
        "vmladava.s8 r4, %q[a], %q[w]\n\t"
        "vmladava.s8 r12, %q[b], %q[w]\n\t"
        "vldrb.8 %q[w], [%[f], #-16]\n\t"
        "vmladava.s8 r6, %q[a], %q[w]\n\t"
        "vmladava.s8 lr, %q[b], %q[w]\n\t"
        "subs %[n], #1\n\t"
        "bne 1b\n\t"
        "vmov %q[a][2], %q[a][0], r0, r4\n\t"
        "vmov %q[a][3], %q[a][1], r2, r6\n\t"
        "vmov %q[b][2], %q[b][0], r8, r12\n\t"
        "vmov %q[b][3], %q[b][1], r10, lr"
        : [a] "=&w"(s.a), [b] "=&w"(s.b), [w] "=&w"(w), [x0] "+r"(x0), [x1] "+r"(x1), [f] "+r"(f), [n] "+r"(blocks)
        :
        : "r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr", "cc", "memory");
#else
    const int8_t *w = (const int8_t *)(f + 4);
    s.a = s.b = tw_v4_load(f, 4);
    f += 4 + blocks * TW_MVE_BLOCK;
    for (; blocks > 0; --blocks, x0 += TW_MVE_BLOCK, x1 += TW_MVE_BLOCK)
        for (int j = 0; j < 4; ++j)
            for (int i = 0; i < TW_MVE_BLOCK; ++i, ++w) {
                s.a.lane[j] = tw_add(s.a.lane[j], x0[i] * *w);
                s.b.lane[j] = tw_add(s.b.lane[j], x1[i] * *w);
            }
#endif
    *fours = f;
    return s;
}

/* Outputs of two pixels, y0 and y1 [out], from the windows x0 and x1. */
TW_INLINE void tw_mve_pair(const int8_t *x0, const int8_t *x1, int8_t *y0, int8_t *y1, const tw_mve_matrix *m) {
    const int32_t *f = m->fours;
    for (int32_t left = m->out; left > 0; left -= 4, y0 += 4, y1 += 4) {
        const tw_mve_sums s = tw_mve_tile2(x0, x1, &f, m->blocks);
        const tw_v4 mult = tw_v4_load(f, 4), shift = tw_v4_load_s8((const int8_t *)(f + 4), 4);
        tw_v4_store_s8(y0, tw_v4_scaled(s.a, mult, shift), m->zero, m->low, m->high, left);
        tw_v4_store_s8(y1, tw_v4_scaled(s.b, mult, shift), m->zero, m->low, m->high, left);
        f += 5;
    }
}

/* bias [4] + x . rows of w [count] at the given distances from the first. */
TW_INLINE tw_v4 tw_mve_tile1(const int8_t *x, const int8_t *w, const int32_t *rows, int32_t count,
                             const int32_t *bias) {
#if defined(TW_MVE)
    tw_v4 s;
    int8x16_t v;
    __asm volatile("ldm %[rows], {r8, r10, r12}\n\t"
                   "add r8, %[w]\n\t"
                   "add r10, %[w]\n\t"
                   "add r12, %[w]\n\t"
                   "ldm %[bias], {r0, r2, r4, r6}\n\t"
                   "wlstp.8 lr, %[n], 2f\n"
                   "1:\n\t"
                   "vldrb.8 %q[s], [%[x]], #16\n\t"
                   "vldrb.8 %q[v], [%[w]], #16\n\t"
                   "vmladava.s8 r0, %q[s], %q[v]\n\t"
                   "vldrb.8 %q[v], [r8], #16\n\t"
                   "vmladava.s8 r2, %q[s], %q[v]\n\t"
                   "vldrb.8 %q[v], [r10], #16\n\t"
                   "vmladava.s8 r4, %q[s], %q[v]\n\t"
                   "vldrb.8 %q[v], [r12], #16\n\t"
                   "vmladava.s8 r6, %q[s], %q[v]\n\t"
                   "letp lr, 1b\n"
                   "2:\n\t"
                   "vmov %q[s][2], %q[s][0], r0, r4\n\t"
                   "vmov %q[s][3], %q[s][1], r2, r6"
                   : [s] "=&w"(s), [v] "=&w"(v), [x] "+r"(x), [w] "+r"(w)
                   : [n] "r"(count), [bias] "r"(bias), [rows] "r"(rows)
                   : "r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr", "cc", "memory");
    return s;
#else
    tw_v4 s = tw_v4_load(bias, 4);
    for (int j = 0; j < 4; ++j) {
        const int8_t *row = w + (j > 0 ? rows[j - 1] : 0);
        for (int32_t i = 0; i < count; ++i) s.lane[j] = tw_add(s.lane[j], x[i] * row[i]);
    }
    return s;
#endif
}

/* rows (at least one) of count bytes (at least one), at pitches of their own. */
TW_INLINE void tw_mve_rows(int8_t *to, int32_t to_pitch, const int8_t *from, int32_t from_pitch, int32_t rows,
                           int32_t count) {
#if defined(TW_MVE)
    const int32_t moved = (count + 15) & -16;
    int8x16_t v;
    __asm volatile("1:\n\t"
                   "dlstp.8 lr, %[n]\n"
                   "2:\n\t"
                   "vldrb.8 %q[v], [%[from]], #16\n\t"
                   "vstrb.8 %q[v], [%[to]], #16\n\t"
                   "letp lr, 2b\n\t"
                   "add %[from], %[from_step]\n\t"
                   "add %[to], %[to_step]\n\t"
                   "subs %[rows], #1\n\t"
                   "bne 1b"
                   : [v] "=&w"(v), [from] "+r"(from), [to] "+r"(to), [rows] "+r"(rows)
                   : [n] "r"(count), [from_step] "r"(from_pitch - moved), [to_step] "r"(to_pitch - moved)
                   : "lr", "cc", "memory");
#else
    for (; rows > 0; --rows, to += to_pitch, from += from_pitch) memcpy(to, from, (size_t)count);
#endif
}

/* count bytes. */
TW_INLINE void tw_mve_fill(int8_t *to, int32_t value, int32_t count) {
#if defined(TW_MVE)
    __asm volatile("wlstp.8 lr, %[n], 2f\n"
                   "1:\n\t"
                   "vstrb.8 %q[v], [%[to]], #16\n\t"
                   "letp lr, 1b\n"
                   "2:"
                   : [to] "+r"(to)
                   : [n] "r"(count), [v] "w"(vdupq_n_s8((int8_t)value))
                   : "lr", "memory");
#else
    memset(to, value, (size_t)count);
#endif
}

#endif
