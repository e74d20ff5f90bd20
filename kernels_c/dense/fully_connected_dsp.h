/* SPDX-License-Identifier: Apache-2.0 */
/* FULLY_CONNECTED on the DSP extension: four channels at a time, so that they share the unpacking of x. */
#ifndef TW_FULLY_CONNECTED_DSP_H
#define TW_FULLY_CONNECTED_DSP_H

#include "../isa/dsp/dsp_tile.h"

/* int8. in: x [batches, depth], packed weights (dsp_tile.h) with two pairs of channels alternating by two words, out
 * padded to four: [out / 4][k4 / 4][2][2]; bias int32 [out padded], doubled, with the input zero point folded in; mult
 * int32 [mults] and right shift int8 [mults], 1..22. mults: 1, or out padded to four. out: y [batches, out]. scratch:
 * int8 [k4], k4: depth rounded up to 4; no scratch if depth is k4. chunk: words of a pair after which the sum of its
 * second channel is read out; even. bytes: whether weights are stored so. */
typedef struct {
    tw_epilogue_s8 end;
    int32_t batches, depth, k4, chunk, out, mults, bytes;
} tw_fully_connected_dsp_s8_params;

/* The end of channel c. ends: multipliers, then right shifts. */
TW_INLINE tw_dsp_channel tw_fully_connected_dsp_end(const void *const *ends, int32_t c, int32_t zero) {
    const int32_t shift = ((const int8_t *)ends[1])[c];
    const tw_dsp_channel channel = {((const int32_t *)ends[0])[c], tw_rounding(zero, shift), shift};
    return channel;
}

/* twice[4] += the doubled sums of four channels over so many words of a pair. Returns where the weights end. */
TW_INLINE const uint32_t *tw_fully_connected_dsp_sums(const int8_t *x, const uint32_t *w, int32_t *twice, int32_t words,
                                                      const tw_fully_connected_dsp_s8_params *p) {
    for (int32_t left = words; left > 0; left -= p->chunk) {
        int32_t both[2], first[2];
        const int32_t now = tw_min(left, p->chunk);
        w = tw_dsp_sums1(x, w, now, p->bytes, both, first);
        for (int j = 0; j < 2; ++j) {
            twice[2 * j] = tw_add(twice[2 * j], tw_shift_left(first[j], 1));
            twice[2 * j + 1] = tw_add(twice[2 * j + 1], tw_dsp_second(both[j], first[j]));
        }
        x += 2 * now;
    }
    return w;
}

/* Channels c..c + 3 of one output. Channels beyond the last are written to the first one's place and overwritten there.
 * all: the scale, if there is only one. */
TW_INLINE const uint32_t *tw_fully_connected_dsp_four(const int8_t *x, const uint32_t *w, const void *const *in,
                                                      int8_t *y, int32_t c, const tw_dsp_channel *all,
                                                      const tw_fully_connected_dsp_s8_params *p) {
    const int32_t *bias = (const int32_t *)in[2] + c;
    const int32_t count = p->out % 4 == 0 ? 4 : p->out - c;
    int32_t twice[4] = {0, 0, 0, 0};
    w = tw_fully_connected_dsp_sums(x, w, twice, p->k4 / 2, p);
    for (int j = 3; j >= 0; --j) {
        const tw_dsp_channel end = p->mults > 1 ? tw_fully_connected_dsp_end(in + 3, c + j, p->end.zero) : *all;
        y[c + (j < count ? j : 0)] = tw_dsp_output(tw_add(bias[j], twice[j]), &end);
    }
    return w;
}

TW_KERNEL(tw_fully_connected_dsp_s8) {
    const tw_fully_connected_dsp_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    const tw_dsp_channel all = tw_fully_connected_dsp_end(in + 3, 0, p.end.zero);
    for (int32_t b = 0; b < p.batches; ++b, x += p.depth, y += p.out) {
        const uint32_t *w = (const uint32_t *)in[1];
        if (p.depth != p.k4) memcpy(scratch, x, (size_t)p.depth);
        for (int32_t c = 0; c < p.out; c += 4)
            w = tw_fully_connected_dsp_four(p.depth != p.k4 ? (const int8_t *)scratch : x, w, in, y, c, &all, &p);
        tw_dsp_activation(y, p.out, p.end.low, p.end.high);
    }
}

/* int8, rows of one or two weights: one SMLAD an output. in: x [batches, depth]; int32 [out][2]: a row's weights as two
 * halves (0 for one that is not there), then its bias, doubled, with the input zero point folded in; mult int32 [mults]
 * and right shift int8 [mults], 1..22. mults: 1 or out. out: y [batches, out]. */
typedef struct {
    tw_epilogue_s8 end;
    int32_t batches, depth, out, mults;
} tw_fully_connected_short_dsp_s8_params;

TW_KERNEL(tw_fully_connected_short_dsp_s8) {
    const tw_fully_connected_short_dsp_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    const tw_dsp_channel all = tw_fully_connected_dsp_end(in + 2, 0, p.end.zero);
    for (int32_t b = 0; b < p.batches; ++b, x += p.depth, y += p.out) {
        const uint32_t twice = tw_pack((uint32_t)(2 * x[0]), p.depth > 1 ? (uint32_t)(2 * x[1]) : 0);
        const int32_t *row = (const int32_t *)in[1];
        for (int32_t c = 0; c < p.out; ++c, row += 2) {
            const tw_dsp_channel end = p.mults > 1 ? tw_fully_connected_dsp_end(in + 2, c, p.end.zero) : all;
            y[c] = tw_dsp_output(tw_dual(twice, (uint32_t)row[0], row[1]), &end);
        }
        tw_dsp_activation(y, p.out, p.end.low, p.end.high);
    }
}

#endif
