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
