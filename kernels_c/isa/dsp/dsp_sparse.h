/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over weights of int8 of which blocks of four, along a channel's inputs, are zero and not stored.
 *
 * Two weights share a half, 256 * a + b, for the inputs x and y. A panel holds u = x - 127 and v = 256 * y - u, which
 * both fit 16 bits. SXTB16 extracts b, and (256 * a + b) * u + b * v = 256 * (a * u + b * y): so two SMLADs and one
 * SXTB16 add a block's four products, times 256. 127 times the weights a is folded into what the sum begins with.
 * Sums are exact as long as they are below 2^23.
 *
 * Weights of a channel are pairs of blocks, words [pairs][3]: how many bytes of the panel lie between a block and the
 * one before it, as two halves, then the blocks: weights 0 and 1 in one half, 2 and 3 in the other. Where the number of
 * blocks is odd, the first one lies before the pairs, behind a word whose upper half is its gap. */
#ifndef TW_DSP_SPARSE_H
#define TW_DSP_SPARSE_H

#include "dsp_tile.h"

/* Pixels that are summed at once, or one. */
#define TW_SPARSE_PIXELS 4

/* Words of a channel's end: what its doubled sums begin with; the multiplier; the right shift, 1..22, in the low 5 bits,
 * whether a block lies before the pairs, whether the number of these is odd, and from bit 8 on the bytes of weights. */
#define TW_SPARSE_ENDS 3
enum { TW_SPARSE_SHIFT = 31, TW_SPARSE_SINGLE = 32, TW_SPARSE_ODD = 64 };

/* Copies count int8, a multiple of 4, into one of a panel's pixels: per four inputs words [2][pixels], first u, then v,
 * of inputs 0 and 2, and 1 and 3. Returns where the next ones go. pixels: a constant. */
TW_INLINE uint32_t *tw_sparse_widened(uint32_t *TW_RESTRICT to, const int8_t *TW_RESTRICT from, int32_t count,
                                      int pixels) {
#pragma GCC unroll 2
    for (const int8_t *const end = from + count; from != end; from += 4, to += 2 * pixels) {
        const uint32_t four = tw_word(from), u = tw_minus(tw_even(four), 0x007F007FU);
        to[0] = u;
        to[pixels] = tw_minus(four & 0xFF00FF00U, u);
    }
    return to;
}

static TW_NOINLINE uint32_t *tw_sparse_widen4(uint32_t *TW_RESTRICT to, const int8_t *TW_RESTRICT from, int32_t count) {
    return tw_sparse_widened(to, from, count, TW_SPARSE_PIXELS);
}

static TW_NOINLINE uint32_t *tw_sparse_widen1(uint32_t *TW_RESTRICT to, const int8_t *TW_RESTRICT from, int32_t count) {
    return tw_sparse_widened(to, from, count, 1);
}

#if defined(TW_DSP_LOOPS)
/* Four pixels times the block v. */
#define TW_SPARSE_HALF                                                                                                 \
    "ldmia %[x]!, {r4, r5, r6, r8}\n smlad %[s0], %[v], r4, %[s0]\n smlad %[s1], %[v], r5, %[s1]\n"                    \
    "smlad %[s2], %[v], r6, %[s2]\n smlad %[s3], %[v], r8, %[s3]\n"
#define TW_SPARSE_BLOCK4 TW_SPARSE_HALF "sxtb16 %[v], %[v]\n" TW_SPARSE_HALF
/* One pixel times the block v, behind a gap of the word r4. */
#define TW_SPARSE_BLOCK1(v, ror)                                                                                       \
    "uxtah %[x], %[x], r4" ror "\n ldrd r8, r9, [%[x]], #8\n smlad %[sum], " v ", r8, %[sum]\n sxtb16 " v ", " v       \
    "\n smlad %[sum], " v ", r9, %[sum]\n"
#define TW_SPARSE_PAIR1 "ldmia %[w]!, {r4, r5, r6}\n" TW_SPARSE_BLOCK1("r5", "") TW_SPARSE_BLOCK1("r6", ", ror #16")
#else
/* The same: sums[pixels] += a block behind a gap of so many bytes. Returns where the panel goes on. */
TW_INLINE const uint32_t *tw_sparse_block(const uint32_t *x, uint32_t gap, uint32_t v, int32_t *sums, int pixels) {
    x += gap / sizeof *x;
    for (int r = 0; r < pixels; ++r) sums[r] = tw_dual(tw_even(v), x[pixels + r], tw_dual(v, x[r], sums[r]));
    return x + 2 * pixels;
}

TW_INLINE void tw_sparse_sums(const uint32_t *x, const uint32_t *w, const uint32_t *end, int32_t info, int32_t *sums,
                              int pixels) {
    for (int r = 0; r < pixels; ++r) sums[r] = 0;
    if (info & TW_SPARSE_SINGLE) {
        x = tw_sparse_block(x, w[0] >> 16, w[1], sums, pixels);
        w += 2;
    }
    for (; w != end; w += 3) {
        x = tw_sparse_block(x, w[0] & 0xFFFFU, w[1], sums, pixels);
        x = tw_sparse_block(x, w[0] >> 16, w[2], sums, pixels);
    }
}
#endif

/* sums[4]: 256 times the sums of four pixels, over the weights from w to end of a channel. info: its third end. */
TW_INLINE void tw_sparse_sums4(const uint32_t *x, const uint32_t *w, const uint32_t *end, int32_t info, int32_t *sums) {
#if defined(TW_DSP_LOOPS)
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    uint32_t gaps = (uint32_t)info & TW_SPARSE_SINGLE, v;
    TW_DSP_APART(end);
    __asm volatile("cmp %[w], %[end]\n beq 3f\n cmp %[gaps], #0\n beq 1f\n ldrd %[gaps], %[v], [%[w]], #8\n b 2f\n"
                   "1:\n ldrd %[gaps], %[v], [%[w]], #12\n uxtah %[x], %[x], %[gaps]\n" TW_SPARSE_BLOCK4
                   "ldr %[v], [%[w], #-4]\n 2:\n uxtah %[x], %[x], %[gaps], ror #16\n" TW_SPARSE_BLOCK4
                   "cmp %[w], %[end]\n bne 1b\n 3:\n"
                   : [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3), [x] "+r"(x), [w] "+r"(w),
                     [gaps] "+r"(gaps), [v] "=&r"(v)
                   : [end] "r"(end)
                   : "r4", "r5", "r6", "r8", "cc", "memory");
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
#else
    tw_sparse_sums(x, w, end, info, sums, TW_SPARSE_PIXELS);
#endif
}

/* The same for one pixel. */
TW_INLINE void tw_sparse_sums1(const uint32_t *x, const uint32_t *w, const uint32_t *end, int32_t info, int32_t *sums) {
#if defined(TW_DSP_LOOPS)
    int32_t sum = 0;
    TW_DSP_APART(end);
    __asm volatile(
        "cmp %[w], %[end]\n beq 4f\n tst %[info], #32\n beq 1f\n"
        "ldrd r4, r5, [%[w]], #8\n" TW_SPARSE_BLOCK1(
            "r5", ", ror #16") "cmp %[w], %[end]\n beq 4f\n"
                               "1:\n tst %[info], #64\n bne 3f\n" /* the loop of two pairs begins at its half */
                               "2:\n" TW_SPARSE_PAIR1 "3:\n" TW_SPARSE_PAIR1 "cmp %[w], %[end]\n bne 2b\n 4:\n"
        : [sum] "+r"(sum), [x] "+r"(x), [w] "+r"(w)
        : [end] "r"(end), [info] "r"(info)
        : "r4", "r5", "r6", "r8", "r9", "cc", "memory");
    sums[0] = sum;
#else
    tw_sparse_sums(x, w, end, info, sums, 1);
#endif
}

/* y [rows, out], rows 1..pixels, from a panel of pixels, a constant: TW_SPARSE_PIXELS or 1. */
TW_INLINE void tw_sparse_panel(const uint32_t *panel, int8_t *y, int32_t rows, int pixels, const uint32_t *w,
                               const int32_t *ends, int32_t out, int32_t zero) {
    int32_t sums[TW_SPARSE_PIXELS];
    for (const int8_t *const last = y + out; y != last; ++y, ends += TW_SPARSE_ENDS) {
        const int32_t info = ends[2];
        const uint32_t *const behind = (const uint32_t *)(const void *)((const int8_t *)w + ((uint32_t)info >> 8));
        if (pixels == 1)
            tw_sparse_sums1(panel, w, behind, info, sums);
        else
            tw_sparse_sums4(panel, w, behind, info, sums);
        w = behind;
        const int32_t start = ends[0], shift = info & TW_SPARSE_SHIFT;
        const tw_dsp_channel end = {ends[1], tw_rounding(zero, shift), shift};
#pragma GCC unroll 4
        for (int r = 0; r < pixels; ++r) {
            if (r >= rows) break;
            y[r * out] = tw_dsp_output(tw_add(start, sums[r] >> 7), &end);
        }
    }
}

#endif
