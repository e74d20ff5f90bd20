/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products of int16 activations and int8 weights on the DSP extension: what CONV_2D and FULLY_CONNECTED share.
 *
 * Activations are halves as they lie in memory; SXTB16 makes halves of weights. Sums have 32 bits; if a whole sum may
 * not fit, it is added up from chunks in 64 bits. */
#ifndef TW_DSP_TILE_S16_H
#define TW_DSP_TILE_S16_H

#include "dsp.h"
#include "../../core/sums_s16.h"

/* Pixels of a panel: words [words][3], two activations each. */
#define TW_DSP_PIXELS_S16 3

/* Words per two channels: both biases, both multipliers as tw_top takes them. */
#define TW_DSP_ENDS_S16 4

/* A packed matrix, and how its sums become outputs: weights int8 [out / 2][words][2][2], the two channels alternate
 * every two activations; ends: int32 [out / 2][TW_DSP_ENDS_S16]. words: of a pair of channels, even. chunk: words after
 * which sums are added to the total, even. pitch: from the outputs of one pixel to those of the next. */
typedef struct {
    const uint32_t *weights;
    const int32_t *ends;
    int32_t words, chunk, out, pitch;
    tw_limits limits;
} tw_dsp_matrix_s16;

/* Adds to sums [2][3] of two channels over the pixels of a panel. words: number of words of weights, even. A function
 * of its own, in assembly: gcc finds registers for all of it only if there is nothing else, clang never does. */
static TW_NOINLINE void tw_dsp_sums3_s16(const uint32_t *x, const uint32_t *w, int32_t words, int32_t *sums) {
    const uint32_t *const end = w + words;
    int32_t a0 = sums[0], a1 = sums[1], a2 = sums[2], b0 = sums[3], b1 = sums[4], b2 = sums[5];
#if defined(TW_DSP_LOOPS) && !defined(__clang__)
#define TW_DSP_WORD                                                                                                    \
    "ldr %[v], [%[w]], #4\n ldmia %[x]!, {r4, r5, r6}\n sxtb16 %[e], %[v]\n sxtb16 %[v], %[v], ror #8\n"               \
    "smlad %[a0], %[e], r4, %[a0]\n smlad %[a1], %[e], r5, %[a1]\n smlad %[a2], %[e], r6, %[a2]\n"                     \
    "smlad %[b0], %[v], r4, %[b0]\n smlad %[b1], %[v], r5, %[b1]\n smlad %[b2], %[v], r6, %[b2]\n"
    int32_t v = words & 2, e; /* then the loop of four words begins at its half */
    __asm volatile("cmp %[v], #0\n bne 2f\n"
                   "1:\n" TW_DSP_WORD TW_DSP_WORD "2:\n" TW_DSP_WORD TW_DSP_WORD
                   "ldr r4, %[end]\n cmp %[w], r4\n bne 1b\n"
                   : [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [b0] "+r"(b0), [b1] "+r"(b1), [b2] "+r"(b2),
                     [x] "+r"(x), [w] "+r"(w), [v] "+r"(v), [e] "=&r"(e)
                   : [end] "m"(end)
                   : "r4", "r5", "r6", "cc", "memory");
#undef TW_DSP_WORD
#else
    for (; w != end; ++w, x += TW_DSP_PIXELS_S16) {
        const uint32_t even = tw_even(*w), odd = tw_odd(*w);
        a0 = tw_dual(even, x[0], a0), a1 = tw_dual(even, x[1], a1), a2 = tw_dual(even, x[2], a2);
        b0 = tw_dual(odd, x[0], b0), b1 = tw_dual(odd, x[1], b1), b2 = tw_dual(odd, x[2], b2);
    }
#endif
    sums[0] = a0, sums[1] = a1, sums[2] = a2;
    sums[3] = b0, sums[4] = b1, sums[5] = b2;
}

/* The output of a sum, bias included. */
TW_INLINE int16_t tw_dsp_output_s16(int32_t sum, int32_t mult, const tw_limits *limits) {
    return tw_clamp_s16(tw_top(sum, mult), limits->low, limits->high);
}

/* The same in chunks; sums begin as the biases and end as the total, saturated to 32 bits. */
static TW_NOINLINE TW_COLD void tw_dsp_pair3_s16(const uint32_t *x, const uint32_t *w, int32_t *sums,
                                                 const tw_dsp_matrix_s16 *m) {
    int64_t whole[2 * TW_DSP_PIXELS_S16] = {0};
    for (int32_t left = m->words;;) {
        tw_dsp_sums3_s16(x, w, tw_min(left, m->chunk), sums);
        left -= m->chunk;
        if (left <= 0) break;
        x += TW_DSP_PIXELS_S16 * m->chunk, w += m->chunk;
        for (int i = 0; i < 2 * TW_DSP_PIXELS_S16; ++i) whole[i] += sums[i], sums[i] = 0;
    }
    for (int i = 0; i < 2 * TW_DSP_PIXELS_S16; ++i) sums[i] = tw_saturate(whole[i] + sums[i]);
}

/* y [rows, out], rows 1..3, from a panel. If the number of channels is odd, the last pair's second is written first and
 * overwritten. */
TW_INLINE void tw_dsp_panel_s16(const uint32_t *panel, int16_t *y, int32_t rows, const tw_dsp_matrix_s16 *m) {
    const uint32_t *w = m->weights;
    const int32_t *ends = m->ends;
    for (int32_t left = m->out; left > 0; left -= 2, ends += TW_DSP_ENDS_S16, w += m->words, y += 2) {
        const int32_t second = m->out % 2 == 0 || left > 1;
        int32_t sums[] = {ends[0], ends[0], ends[0], ends[1], ends[1], ends[1]};
        int16_t *to = y;
        if (m->chunk >= m->words)
            tw_dsp_sums3_s16(panel, w, m->words, sums);
        else
            tw_dsp_pair3_s16(panel, w, sums, m);
#pragma GCC unroll 3
        for (int r = 0; r < TW_DSP_PIXELS_S16; ++r, to += m->pitch) {
            if (r >= rows) break;
            to[second] = tw_dsp_output_s16(sums[3 + r], ends[3], &m->limits);
            to[0] = tw_dsp_output_s16(sums[r], ends[2], &m->limits);
        }
    }
}

/* The sums of two pairs over words of a pair, an even number: of each pair 256 * B + A in 64 bits, and A, whose
 * products take what SXTB16 gives of the same halves. So the weights of B need no unpacking. */
TW_INLINE void tw_dsp_sums1_s16(const uint32_t *x, const uint32_t *w, int32_t words, int64_t *both, int32_t *first) {
    const uint32_t *const end = w + 2 * words;
    int32_t u0 = 0, u1 = 0;
#if defined(TW_DSP_LOOPS)
#define TW_DSP_TWO(x)                                                                                                  \
    "ldmia %[w]!, {r6, r8}\n smlald %[l0], %[h0], r6, " x "\n smlald %[l1], %[h1], r8, " x "\n"                        \
    "sxtb16 r6, r6\n sxtb16 r8, r8\n smlad %[u0], r6, " x ", %[u0]\n smlad %[u1], r8, " x ", %[u1]\n"
#define TW_DSP_FOUR "ldmia %[x]!, {r4, r5}\n" TW_DSP_TWO("r4") TW_DSP_TWO("r5")
    uint32_t l0 = (uint32_t)words, h0 = 0, l1 = 0, h1 = 0; /* if not a multiple of 4, begin mid-loop */
    __asm volatile("ands r6, %[l0], #2\n mov %[l0], #0\n bne 2f\n 1:\n" TW_DSP_FOUR "2:\n" TW_DSP_FOUR
                   "cmp %[w], %[end]\n bne 1b\n"
                   : [l0] "+r"(l0), [h0] "+r"(h0), [l1] "+r"(l1), [h1] "+r"(h1), [u0] "+r"(u0), [u1] "+r"(u1),
                     [x] "+r"(x), [w] "+r"(w)
                   : [end] "r"(end)
                   : "r4", "r5", "r6", "r8", "cc", "memory");
#undef TW_DSP_TWO
#undef TW_DSP_FOUR
    both[0] = (int64_t)((uint64_t)h0 << 32 | l0), both[1] = (int64_t)((uint64_t)h1 << 32 | l1);
#else
    int64_t t0 = 0, t1 = 0;
    for (; w != end; w += 2, ++x) {
        t0 = tw_dual64(w[0], *x, t0), t1 = tw_dual64(w[1], *x, t1);
        u0 = tw_dual(tw_even(w[0]), *x, u0), u1 = tw_dual(tw_even(w[1]), *x, u1);
    }
    both[0] = t0, both[1] = t1;
#endif
    first[0] = u0, first[1] = u1;
}

#endif
