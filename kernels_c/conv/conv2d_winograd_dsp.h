/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D of int8 by Winograd's F(2 x 2, 3 x 3) on the DSP extension. */
#ifndef TW_CONV2D_WINOGRAD_DSP_H
#define TW_CONV2D_WINOGRAD_DSP_H

#include "winograd.h"

/* Four inputs of one column, rows apart, transformed: two channels, those of tw_odd or of tw_even. */
typedef struct {
    uint32_t row[4];
} tw_winograd_column;

TW_INLINE tw_winograd_column tw_winograd_column_from(uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3, int32_t odd) {
    const uint32_t d0 = odd ? tw_odd(w0) : tw_even(w0), d1 = odd ? tw_odd(w1) : tw_even(w1);
    const uint32_t d2 = odd ? tw_odd(w2) : tw_even(w2), d3 = odd ? tw_odd(w3) : tw_even(w3);
    const tw_winograd_column c = {{tw_plus(d1, d2), tw_minus(d2, d1), tw_minus(d0, d2), tw_minus(d3, d1)}};
    return c;
}

TW_INLINE tw_winograd_column tw_winograd_column_of(const int8_t *from, int32_t apart, int32_t odd) {
    const uint32_t w0 = tw_word(from), w1 = tw_word(from + apart);
    from += 2 * apart;
    const uint32_t w2 = tw_word(from), w3 = tw_word(from + apart);
    return tw_winograd_column_from(w0, w1, w2, w3, odd);
}

/* Two channels of tiles that lie side by side, transformed, from their first place on; to the next place: place words. */
TW_INLINE void tw_winograd_tiles(uint32_t *to, int32_t place, const int8_t *from, int32_t apart, int32_t pixel,
                                 int32_t tiles, int32_t odd) {
    tw_winograd_column c0 = tw_winograd_column_of(from, apart, odd);
    tw_winograd_column c1 = tw_winograd_column_of(from + pixel, apart, odd);
    for (const uint32_t *const end = to + tiles; to != end; ++to) {
        from += 2 * pixel;
        const tw_winograd_column c2 = tw_winograd_column_of(from, apart, odd);
        uint32_t *at = to;
        TW_UNROLLED for (int i = 0; i < 4; ++i, at += place) *at = tw_minus(c0.row[i], c2.row[i]);
        TW_UNROLLED for (int i = 0; i < 4; ++i, at += place) *at = tw_plus(c1.row[i], c2.row[i]);
        TW_UNROLLED for (int i = 0; i < 4; ++i, at += place) *at = tw_minus(c2.row[i], c1.row[i]);
        const tw_winograd_column c3 = tw_winograd_column_of(from + pixel, apart, odd);
        TW_UNROLLED for (int i = 0; i < 4; ++i, at += place) *at = tw_minus(c3.row[i], c1.row[i]);
        c0 = c2, c1 = c3;
    }
}

/* A tw_winograd_transform: words of two channels, in the order of the packed weights. */
TW_INLINE void tw_winograd_dsp_transform(void *panel, int32_t first, const int8_t *from, int32_t apart, int32_t pixel,
                                         int32_t depth, int32_t tiles) {
    uint32_t *to = (uint32_t *)panel + first;
    const int32_t place = depth / 2 * TW_WINOGRAD_TILES;
    for (const int8_t *const end = from + depth; from != end; from += 4) {
        tw_winograd_tiles(to, place, from, apart, pixel, tiles, 0);
        to += TW_WINOGRAD_TILES;
        tw_winograd_tiles(to, place, from, apart, pixel, tiles, 1);
        to += TW_WINOGRAD_TILES;
    }
}

/* What tw_winograd_sums does, of so many columns. */
TW_INLINE const void *tw_winograd_dsp_columns(const void *panel, const void *weights, int32_t depth, int32_t columns,
                                              int32_t *sums) {
    const int32_t words = depth / 2;
    const uint32_t *v = (const uint32_t *)panel, *u = (const uint32_t *)weights;
    const uint32_t *const last = u + 8 * columns * words;
#if defined(TW_DSP_LOOPS)
    register int32_t a0 __asm("r8"), a1 __asm("r9"), a2 __asm("r10"), b0 __asm("r11"), b1 __asm("r12"), b2 __asm("lr");
#define TW_WINOGRAD_SUMS [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [b0] "+r"(b0), [b1] "+r"(b1), [b2] "+r"(b2)
#if defined(__clang__) /* needs a register for itself */
#define TW_WINOGRAD_WORD                                                                                               \
    "ldr %[w], [%[u]], #4\n ldmia %[v]!, {r4, r5, r6}\n"                                                               \
    "smlad %[a0], %[w], r4, %[a0]\n smlad %[a1], %[w], r5, %[a1]\n smlad %[a2], %[w], r6, %[a2]\n"                     \
    "ldr %[w], [%[u]], #4\n"                                                                                           \
    "smlad %[b0], %[w], r4, %[b0]\n smlad %[b1], %[w], r5, %[b1]\n smlad %[b2], %[w], r6, %[b2]\n"
#define TW_WINOGRAD_TAKEN "r4", "r5", "r6", "cc", "memory"
#else
#define TW_WINOGRAD_WORD                                                                                               \
    "ldrd r3, %[w], [%[u]], #8\n ldmia %[v]!, {r4, r5, r6}\n"                                                          \
    "smlad %[a0], r3, r4, %[a0]\n smlad %[a1], r3, r5, %[a1]\n smlad %[a2], r3, r6, %[a2]\n"                           \
    "smlad %[b0], %[w], r4, %[b0]\n smlad %[b1], %[w], r5, %[b1]\n smlad %[b2], %[w], r6, %[b2]\n"
#define TW_WINOGRAD_TAKEN "r3", "r4", "r5", "r6", "cc", "memory"
#endif
/* The sums of one place go on from those that there are. */
#define TW_WINOGRAD_PLACE()                                                                                            \
    do {                                                                                                               \
        const uint32_t *end = u + 2 * words;                                                                           \
        int32_t w = words & 2; /* then the loop of four words begins at its half */                                    \
        TW_DSP_APART(end);                                                                                             \
        __asm volatile("cmp %[w], #0\n bne 2f\n"                                                                       \
                       "1:\n" TW_WINOGRAD_WORD TW_WINOGRAD_WORD "2:\n" TW_WINOGRAD_WORD TW_WINOGRAD_WORD               \
                       "cmp %[u], %[end]\n bne 1b\n"                                                                   \
                       : TW_WINOGRAD_SUMS, [v] "+r"(v), [u] "+r"(u), [w] "+r"(w)                                       \
                       : [end] "r"(end)                                                                                \
                       : TW_WINOGRAD_TAKEN);                                                                           \
    } while (0)
#define TW_WINOGRAD_MOVE(what, to)                                                                                     \
    __asm volatile(what " %[at], {r8, r9, r10, r11, r12, lr}\n" : TW_WINOGRAD_SUMS : [at] "r"(to) : "memory")
    for (; u != last; sums += 12) {
        int32_t *at = sums;
        a0 = a1 = a2 = b0 = b1 = b2 = 0;
        TW_WINOGRAD_PLACE(); /* row 1 */
        TW_WINOGRAD_MOVE("stmia", sums);
        TW_WINOGRAD_PLACE(); /* row 2; then m1 - m2 = 2 * m1 - (m1 + m2) */
        __asm volatile("ldmia %[at], {r4, r5, r6}\n rsb r4, r8, r4, lsl #1\n rsb r5, r9, r5, lsl #1\n"
                       "rsb r6, r10, r6, lsl #1\n stmia %[at]!, {r4, r5, r6}\n"
                       "ldmia %[at], {r4, r5, r6}\n rsb r4, r11, r4, lsl #1\n rsb r5, r12, r5, lsl #1\n"
                       "rsb r6, lr, r6, lsl #1\n stmia %[at]!, {r4, r5, r6}\n"
                       : TW_WINOGRAD_SUMS, [at] "+r"(at)
                       :
                       : "r4", "r5", "r6", "memory");
        TW_WINOGRAD_PLACE(); /* row 0 */
        TW_WINOGRAD_MOVE("stmia", sums + 6);
        TW_WINOGRAD_MOVE("ldmia", sums);
        TW_WINOGRAD_PLACE(); /* row 3 */
        TW_WINOGRAD_MOVE("stmia", sums);
    }
#undef TW_WINOGRAD_MOVE
#undef TW_WINOGRAD_PLACE
#undef TW_WINOGRAD_TAKEN
#undef TW_WINOGRAD_WORD
#undef TW_WINOGRAD_SUMS
#else
    for (; u != last; sums += 12) {
        int32_t m[4][2][TW_WINOGRAD_TILES];
        for (int i = 0; i < 4; ++i)
            for (int j = 0; j < 2; ++j)
                for (int t = 0; t < TW_WINOGRAD_TILES; ++t) {
                    int32_t sum = 0;
                    for (int32_t k = 0; k < words; ++k)
                        sum = tw_dual(u[2 * (i * words + k) + j], v[TW_WINOGRAD_TILES * (i * words + k) + t], sum);
                    m[i][j][t] = sum;
                }
        u += 8 * words, v += 4 * TW_WINOGRAD_TILES * words;
        for (int j = 0; j < 2; ++j)
            for (int t = 0; t < TW_WINOGRAD_TILES; ++t) {
                int32_t *const to = sums + TW_WINOGRAD_TILES * j + t;
                to[0] = tw_add(tw_subtract(m[0][j][t], m[1][j][t]), m[3][j][t]);
                to[6] = tw_add(tw_add(m[0][j][t], m[1][j][t]), m[2][j][t]);
            }
    }
#endif
    return u;
}

/* A tw_winograd_sums. */
static TW_NOINLINE const void *tw_winograd_dsp_sums(const void *panel, const void *weights, int32_t depth,
                                                    int32_t *sums) {
    return tw_winograd_dsp_columns(panel, weights, depth, 4, sums);
}

/* weights: words [out / 2][16][depth / 2][2]; depth: in_c rounded up to 4. */
typedef tw_winograd_s8_params tw_conv2d_winograd_dsp_s8_params;

TW_KERNEL(tw_conv2d_winograd_dsp_s8) {
    tw_winograd_s8(params, in, out, scratch, tw_winograd_dsp_transform, tw_winograd_dsp_sums);
}

#endif
