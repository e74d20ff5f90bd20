/* SPDX-License-Identifier: Apache-2.0 */
/* Products of two int8 matrices that are both computed, on the DSP extension: their values less their zero points as
 * halves, of three rows by two columns at a time.
 *
 * Per four values of a row or a column come the pair (0, 2), then (1, 3). Rows lie in panels of words [k4 / 2][3],
 * columns in panels of words [k4 / 2][2], k4: k rounded up to 4. */
#ifndef TW_DSP_PRODUCT_H
#define TW_DSP_PRODUCT_H

#include "dsp_tile.h"

/* Values that lie apart from one another, n (at least one) of them, and their zero point. */
typedef struct {
    int32_t apart, n, zero;
} tw_dsp_line;

/* The last values of a line, fewer than four, as a word; the rest of it is the zero point. */
TW_INLINE uint32_t tw_dsp_rest(const int8_t *from, const tw_dsp_line *line, int32_t left) {
    int8_t four[4];
    for (int32_t i = 0; i < 4; ++i) four[i] = (int8_t)(i < left ? from[i * line->apart] : line->zero);
    return tw_word(four);
}

/* A line into one row or column of a panel; pitch: the words from one pair to the next. */
static TW_NOINLINE void tw_dsp_widen_line(uint32_t *TW_RESTRICT to, int32_t pitch, const int8_t *TW_RESTRICT from,
                                          const tw_dsp_line *line) {
    const int32_t apart = line->apart;
    const uint32_t zeros = tw_pack((uint32_t)line->zero, (uint32_t)line->zero);
    int32_t left = line->n;
    for (; left >= 4; left -= 4, from += 4 * apart, to += 2 * pitch) {
        if (apart == 1) {
            to[0] = tw_minus(tw_even(tw_word(from)), zeros);
            to[pitch] = tw_minus(tw_odd(tw_word(from)), zeros);
        } else {
            const int8_t *const third = from + 2 * apart;
            to[0] = tw_minus(tw_pack((uint32_t)*from, (uint32_t)*third), zeros);
            to[pitch] = tw_minus(tw_pack((uint32_t)from[apart], (uint32_t)third[apart]), zeros);
        }
    }
    if (left <= 0) return;
    const uint32_t four = tw_dsp_rest(from, line, left);
    to[0] = tw_minus(tw_even(four), zeros);
    to[pitch] = tw_minus(tw_odd(four), zeros);
}

/* sums[2][3] of two columns w over three rows x. words: of a row, even and at least two. */
TW_INLINE void tw_dsp_product(const uint32_t *x, const uint32_t *w, int32_t words, int32_t *sums) {
    const uint32_t *end = w + 2 * words;
    int32_t a0 = 0, a1 = 0, a2 = 0, b0 = 0, b1 = 0, b2 = 0;
#if defined(TW_DSP_LOOPS)
#define TW_DSP_WORD                                                                                                    \
    "ldr %[v], [%[w]], #4\n ldmia %[x]!, {r4, r5, r6}\n"                                                               \
    "smlad %[a0], %[v], r4, %[a0]\n smlad %[a1], %[v], r5, %[a1]\n smlad %[a2], %[v], r6, %[a2]\n"                     \
    "ldr %[v], [%[w]], #4\n"                                                                                           \
    "smlad %[b0], %[v], r4, %[b0]\n smlad %[b1], %[v], r5, %[b1]\n smlad %[b2], %[v], r6, %[b2]\n"
    uint32_t v;
    TW_DSP_APART(end);
    __asm volatile("1:\n" TW_DSP_WORD TW_DSP_WORD "cmp %[w], %[end]\n bne 1b\n"
                   : [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [b0] "+r"(b0), [b1] "+r"(b1), [b2] "+r"(b2),
                     [x] "+r"(x), [w] "+r"(w), [v] "=&r"(v)
                   : [end] "r"(end)
                   : "r4", "r5", "r6", "cc", "memory");
#undef TW_DSP_WORD
#else
    for (; w != end; w += 2, x += TW_DSP_PIXELS) {
        a0 = tw_dual(w[0], x[0], a0), a1 = tw_dual(w[0], x[1], a1), a2 = tw_dual(w[0], x[2], a2);
        b0 = tw_dual(w[1], x[0], b0), b1 = tw_dual(w[1], x[1], b1), b2 = tw_dual(w[1], x[2], b2);
    }
#endif
    sums[0] = a0, sums[1] = a1, sums[2] = a2;
    sums[3] = b0, sums[4] = b1, sums[5] = b2;
}

#endif
