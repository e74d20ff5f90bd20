/* SPDX-License-Identifier: Apache-2.0 */
/* SVDF of int8 for computers: the newest features are a layer over 16 lanes, the filters over time rows of bytes. */
#ifndef TW_SVDF_WIDE_H
#define TW_SVDF_WIDE_H

#include "../core/dot.h"
#include "../isa/wide/wide.h"

/* in: x [batches, size], features packed [filters / 16][depth4 / 4][16][4]; bias, mult and shift of filters, which are
 * padded to a multiple of 16; time [filters, memory], bias [units]. Zero points are folded into the biases. out: y
 * [batches, units], state [batches, filters, memory], which this call moves by one place. scratch: depth4 bytes, then
 * one for every filter. filters = units * rank, depth4 is size up to a multiple of 4; mult and shift are of outputs. */
typedef struct {
    tw_epilogue_s8 newest, end;
    int32_t batches, size, depth4, units, rank, memory, fast, mult, shift;
} tw_svdf_wide_s8_params;

/* y [units] from all that the filters hold. */
TW_INLINE void tw_svdf_outputs(const tw_svdf_wide_s8_params *p, const int8_t *time, const int32_t *bias,
                               const int8_t *state, int8_t *y) {
    const int32_t held = p->rank * p->memory;
    for (int32_t u = 0; u < p->units; u += TW_LANES) {
        const int32_t count = tw_min(p->units - u, TW_LANES);
        int32_t sums[TW_LANES] = {0};
        int8_t ends[TW_LANES];
        for (int32_t i = 0; i < count; ++i, time += held, state += held)
            sums[i] = tw_dot_s8(bias[u + i], state, time, held, 0);
        TW_VECTOR
        for (int32_t i = 0; i < TW_LANES; ++i)
            ends[i] = tw_epilogue_s8_of(tw_requantize(sums[i], p->mult, p->shift), &p->end);
        memcpy(y + u, ends, (size_t)count);
    }
}

/* The oldest of each filter goes, the newest comes. */
TW_INLINE void tw_svdf_move(int8_t *state, const int8_t *newest, int32_t filters, int32_t memory) {
    memmove(state, state + 1, (size_t)(filters * memory - 1));
    for (int32_t i = 0; i < filters; ++i) state[i * memory + memory - 1] = newest[i];
}

TW_KERNEL(tw_svdf_wide_s8) {
    const tw_svdf_wide_s8_params p = *params;
    const int32_t filters = p.units * p.rank;
    const tw_channels_s8 channels = tw_channels_s8_of(in, 0, p.fast, &p.newest);
    uint8_t *row = (uint8_t *)scratch;
    int8_t *newest = (int8_t *)scratch + p.depth4, *state = (int8_t *)out[1];
    memset(row, 0, (size_t)p.depth4);
    for (int32_t b = 0; b < p.batches; ++b, state += filters * p.memory) {
        tw_bias128(row, (const int8_t *)in[0] + b * p.size, p.size);
        tw_row_s8(row, p.depth4, (const int8_t *)in[1], newest, filters, &channels);
        tw_svdf_move(state, newest, filters, p.memory);
        tw_svdf_outputs(&p, (const int8_t *)in[5], (const int32_t *)in[6], state, (int8_t *)out[0] + b * p.units);
    }
}

#endif
