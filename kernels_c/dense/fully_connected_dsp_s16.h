/* SPDX-License-Identifier: Apache-2.0 */
/* FULLY_CONNECTED, int16 activations and int8 weights, on the DSP extension: four channels at a time. */
#ifndef TW_FULLY_CONNECTED_DSP_S16_H
#define TW_FULLY_CONNECTED_DSP_S16_H

#include "../isa/dsp/dsp_tile_s16.h"

/* in: x [batches, depth]; w, halves 256 * b + a of two channels, words [out / 4][k4 / 4][2][2]: of every four k the
 * first two for both pairs of channels, then the others; bias int32 [out padded to four]; mult int32 [mults], as tw_top
 * takes it; mults: 1, or out padded to four. out: y [batches, out]. k4: depth rounded up to 4. chunk: words of a pair
 * after which sums are added to the total; even. scratch: int16 [k4]; none if depth is k4. */
typedef struct {
    tw_limits limits;
    int32_t batches, depth, k4, chunk, out, mults;
} tw_fully_connected_dsp_s16_params;

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

/* Channels c..c + 3 of one output. Channels beyond the last are written to the first one's place and overwritten there.
 * Returns the weights of the next four. */
TW_INLINE const uint32_t *tw_fully_connected_dsp_four_s16(const int16_t *x, const uint32_t *w, const void *const *in,
                                                          int16_t *y, int32_t c,
                                                          const tw_fully_connected_dsp_s16_params *p) {
    const int32_t *bias = (const int32_t *)in[2] + c, *mult = (const int32_t *)in[3];
    const int32_t count = p->out % 4 == 0 ? 4 : p->out - c;
    int64_t sums[4] = {bias[0], bias[1], bias[2], bias[3]};
    for (int32_t left = p->k4 / 2; left > 0; left -= p->chunk) {
        const int32_t words = tw_min(left, p->chunk);
        int64_t both[2];
        int32_t first[2];
        tw_dsp_sums1_s16((const uint32_t *)(const void *)x, w, words, both, first);
        for (int j = 0; j < 2; ++j) {
            sums[2 * j] += first[j];
            sums[2 * j + 1] += (both[j] - first[j]) >> 8;
        }
        x += 2 * words, w += 2 * words;
    }
    for (int j = 3; j >= 0; --j) {
        const int32_t sum = p->chunk >= p->k4 / 2 ? (int32_t)sums[j] : tw_saturate(sums[j]);
        y[c + (j < count ? j : 0)] = tw_dsp_output_s16(sum, mult[p->mults > 1 ? c + j : 0], &p->limits);
    }
    return w;
}

TW_KERNEL(tw_fully_connected_dsp_s16) {
    const tw_fully_connected_dsp_s16_params p = *params;
    const int16_t *x = (const int16_t *)in[0];
    int16_t *y = (int16_t *)out[0];
    for (int32_t b = 0; b < p.batches; ++b, x += p.depth, y += p.out) {
        const uint32_t *w = (const uint32_t *)in[1];
        const int16_t *row = x;
        if (p.depth != p.k4) row = (const int16_t *)memcpy(scratch, x, 2 * (size_t)p.depth);
        for (int32_t c = 0; c < p.out; c += 4) w = tw_fully_connected_dsp_four_s16(row, w, in, y, c, &p);
    }
}

#endif
