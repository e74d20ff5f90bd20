/* SPDX-License-Identifier: Apache-2.0 */
/* MEAN over height and width of an image that comes row by row. */
#ifndef TW_MEAN_SUMS_H
#define TW_MEAN_SUMS_H

#include "../core/part.h"
#include "mean.h"

/* in: x [part.count] of an image of size elements. out: y [channels]. scratch: int32 [channels]. all: what
 * tw_mean_s8 needs for the same. */
typedef struct {
    tw_mean_s8_params all;
    tw_part part;
    int32_t size, channels;
} tw_mean_sums_s8_params;

TW_KERNEL(tw_mean_sums_s8) {
    const tw_mean_sums_s8_params p = *params;
    int32_t *sums = (int32_t *)scratch;
    int8_t *y = (int8_t *)out[0];
    tw_part_sums_s8((const int8_t *)in[0], p.part, p.channels, sums);
    if (p.part.first + p.part.count < p.size) return;
    for (int32_t c = 0; c < p.channels; ++c) y[c] = (int8_t)tw_clamp(tw_mean_of(&p.all, sums[c]), INT8_MIN, INT8_MAX);
}

#endif
