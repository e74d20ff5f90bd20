/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D of int8 by Winograd's F(2 x 2, 3 x 3) on cores that multiply one value at a time. */
#ifndef TW_CONV2D_WINOGRAD_WORDS_H
#define TW_CONV2D_WINOGRAD_WORDS_H

#include "winograd.h"
#include "../core/sums.h"

/* Four inputs of one column, rows apart, transformed: one channel. */
typedef struct {
    int32_t row[4];
} tw_winograd_line;

TW_INLINE tw_winograd_line tw_winograd_line_of(const int8_t *from, int32_t apart) {
    const int32_t d0 = from[0], d1 = from[apart], d2 = from[2 * apart], d3 = from[3 * apart];
    const tw_winograd_line line = {{d1 + d2, d2 - d1, d0 - d2, d3 - d1}};
    return line;
}

/* A tw_winograd_transform: int16 [16][depth][3]. */
TW_INLINE void tw_winograd_words_transform(void *panel, int32_t first, const int8_t *from, int32_t apart, int32_t pixel,
                                           int32_t depth, int32_t tiles) {
    const int32_t place = depth * TW_WINOGRAD_TILES;
    int16_t *to = (int16_t *)panel + first;
    for (int32_t c = 0; c < depth; ++c, to += TW_WINOGRAD_TILES) {
        const int8_t *at = from + c;
        tw_winograd_line c0 = tw_winograd_line_of(at, apart), c1 = tw_winograd_line_of(at + pixel, apart);
        for (int32_t t = 0; t < tiles; ++t) {
            at += 2 * pixel;
            const tw_winograd_line c2 = tw_winograd_line_of(at, apart);
            int16_t *v = to + t;
            TW_UNROLLED for (int i = 0; i < 4; ++i, v += place) *v = (int16_t)(c0.row[i] - c2.row[i]);
            TW_UNROLLED for (int i = 0; i < 4; ++i, v += place) *v = (int16_t)(c1.row[i] + c2.row[i]);
            TW_UNROLLED for (int i = 0; i < 4; ++i, v += place) *v = (int16_t)(c2.row[i] - c1.row[i]);
            const tw_winograd_line c3 = tw_winograd_line_of(at + pixel, apart);
            TW_UNROLLED for (int i = 0; i < 4; ++i, v += place) *v = (int16_t)(c3.row[i] - c1.row[i]);
            c0 = c2, c1 = c3;
        }
    }
}

/* m[2][3] += the sums of one place: two output channels, the tiles of a panel. */
TW_INLINE void tw_winograd_words_place(const int16_t *v, const int16_t *u, int32_t depth, int32_t *m) {
    int32_t a0 = m[0], a1 = m[1], a2 = m[2], b0 = m[3], b1 = m[4], b2 = m[5];
#if TW_THUMB == 2 && !defined(TW_DSP)
    int32_t n = depth, w, z;
    __asm volatile(
        TW_LOOP("ldrsh %[w], [%[u]], #2\n ldrsh r4, [%[v]], #2\n ldrsh r5, [%[v]], #2\n ldrsh r6, [%[v]], #2\n"
                "ldrsh %[z], [%[u]], #2\n"
                "mla %[a0], %[w], r4, %[a0]\n mla %[a1], %[w], r5, %[a1]\n mla %[a2], %[w], r6, %[a2]\n"
                "mla %[b0], %[z], r4, %[b0]\n mla %[b1], %[z], r5, %[b1]\n mla %[b2], %[z], r6, %[b2]\n")
        : [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [b0] "+r"(b0), [b1] "+r"(b1), [b2] "+r"(b2), [v] "+r"(v),
          [u] "+r"(u), [n] "+r"(n), [w] "=&r"(w), [z] "=&r"(z)
        :
        : "r4", "r5", "r6", "cc", "memory");
#else
    for (; depth > 0; --depth, v += TW_WINOGRAD_TILES, u += 2) {
        a0 = tw_add(a0, u[0] * v[0]), a1 = tw_add(a1, u[0] * v[1]), a2 = tw_add(a2, u[0] * v[2]);
        b0 = tw_add(b0, u[1] * v[0]), b1 = tw_add(b1, u[1] * v[1]), b2 = tw_add(b2, u[1] * v[2]);
    }
#endif
    m[0] = a0, m[1] = a1, m[2] = a2, m[3] = b0, m[4] = b1, m[5] = b2;
}

/* A tw_winograd_sums. */
static TW_NOINLINE const void *tw_winograd_words_sums(const void *panel, const void *weights, int32_t depth,
                                                      int32_t *sums) {
    const int16_t *v = (const int16_t *)panel, *u = (const int16_t *)weights;
    const int32_t tiles = TW_WINOGRAD_TILES * depth, both = 2 * depth;
    for (int column = 0; column < 4; ++column, sums += 12) {
        int32_t *const m = sums + 6;
        memset(m, 0, 6 * sizeof *m);
        tw_winograd_words_place(v, u, depth, m); /* row 1 */
        memcpy(sums, m, 6 * sizeof *m);
        v += tiles, u += both;
        tw_winograd_words_place(v, u, depth, m);                                            /* row 2 */
        for (int i = 0; i < 6; ++i) sums[i] = tw_subtract(tw_shift_left(sums[i], 1), m[i]); /* m1 - m2 */
        v += tiles, u += both;
        tw_winograd_words_place(v, u, depth, m); /* row 0 */
        v += tiles, u += both;
        tw_winograd_words_place(v, u, depth, sums); /* row 3 */
        v += tiles, u += both;
    }
    return u;
}

/* weights: int16 [out / 2][16][depth][2]; depth: in_c. */
typedef tw_winograd_s8_params tw_conv2d_winograd_words_s8_params;

TW_KERNEL(tw_conv2d_winograd_words_s8) {
    tw_winograd_s8(params, in, out, scratch, tw_winograd_words_transform, tw_winograd_words_sums);
}

#endif
