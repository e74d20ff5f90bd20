/* SPDX-License-Identifier: Apache-2.0 */
/* AVERAGE_POOL_2D with one window over all of an image that comes row by row. */
#ifndef TW_POOL_2D_SUMS_H
#define TW_POOL_2D_SUMS_H

#include "../core/part.h"
#include "pool_2d.h"

/* in: x [part.count] of an image of size elements. out: y [channels]. scratch: int32 [channels]. */
typedef struct {
    tw_limits limits;
    tw_part part;
    int32_t size, channels;
} tw_average_pool_2d_sums_s8_params;

TW_KERNEL(tw_average_pool_2d_sums_s8) {
    const tw_average_pool_2d_sums_s8_params p = *params;
    const int32_t count = p.size / p.channels;
    const uint32_t reciprocal = (1U << 31) / (uint32_t)count + 1;
    int32_t *sums = (int32_t *)scratch;
    int8_t *y = (int8_t *)out[0];
    tw_part_sums_s8((const int8_t *)in[0], p.part, p.channels, sums);
    if (p.part.first + p.part.count < p.size) return;
    for (int32_t c = 0; c < p.channels; ++c)
        y[c] = (int8_t)tw_clamp(tw_pool_average(sums[c], count, reciprocal), p.limits.low, p.limits.high);
}

#endif
