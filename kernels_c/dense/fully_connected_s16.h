/* SPDX-License-Identifier: Apache-2.0 */
/* FULLY_CONNECTED, int16 activations and int8 weights: y = x . w^T + bias. */
#ifndef TW_FULLY_CONNECTED_S16_H
#define TW_FULLY_CONNECTED_S16_H

#include "../core/sums_s16.h"

/* in: x [batches, depth], w [out, depth], bias int64 [out], mult int32 [mults], shift int8 [mults]. mults: 1 (per
 * tensor) or out (per channel). out: y [batches, out]. narrow: see tw_channels_s16. */
typedef struct {
    tw_limits limits;
    int32_t batches, depth, out, mults, narrow;
} tw_fully_connected_s16_params;

TW_KERNEL(tw_fully_connected_s16) {
    const tw_fully_connected_s16_params p = *params;
    const int16_t *x = (const int16_t *)in[0];
    const int8_t *w = (const int8_t *)in[1];
    int16_t *y = (int16_t *)out[0];
    const tw_channels_s16 channels = tw_channels_s16_of(in, p.narrow, &p.limits);
    for (int32_t b = 0; b < p.batches; ++b, x += p.depth)
        for (int32_t c = 0; c < p.out; ++c) {
            const int32_t own = p.mults > 1 ? c : 0;
            const int64_t sum = tw_dot_s16(channels.bias[c], x, w + c * p.depth, p.depth);
            *y++ = tw_end_s16(sum, channels.mult[own], channels.shift[own], &channels);
        }
}

#endif
