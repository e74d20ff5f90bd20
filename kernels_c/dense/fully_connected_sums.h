/* SPDX-License-Identifier: Apache-2.0 */
/* FULLY_CONNECTED of one batch whose input comes piece by piece. */
#ifndef TW_FULLY_CONNECTED_SUMS_H
#define TW_FULLY_CONNECTED_SUMS_H

#include "../core/part.h"
#include "fully_connected.h"

/* int8, plain C. in and out as for tw_fully_connected_s8, but x [part.count]. scratch: int32 [out]. */
typedef struct {
    tw_fully_connected_s8_params all;
    tw_part part;
} tw_fully_connected_sums_s8_params;

TW_KERNEL(tw_fully_connected_sums_s8) {
    const tw_fully_connected_s8_params p = params->all;
    const tw_part part = params->part;
    const int8_t *x = (const int8_t *)in[0], *w = (const int8_t *)in[1] + part.first;
    const tw_channels_s8 channels = tw_channels_s8_of(in, 0, p.fast, &p.end);
    const tw_rows rows = tw_rows_of(p.out, TW_TILE);
    int8_t *y = (int8_t *)out[0];
    int32_t *sums = (int32_t *)scratch;
    if (part.first == 0) memcpy(sums, channels.bias, (size_t)p.out * sizeof *sums);
    for (int32_t next = 0; next < p.out; next += rows.step) {
        const int32_t first = tw_min(next, p.out - rows.step);
        int32_t acc[TW_TILE] = {0, 0, 0, 0};
        tw_rows_s8(acc, x, w + first * p.depth, part.count, rows.apart * p.depth);
        for (int32_t c = next; c < first + rows.step; ++c) sums[c] = tw_add(sums[c], acc[c - first]);
    }
    if (part.first + part.count < p.depth) return;
    for (int32_t c = 0; c < p.out; ++c) {
        const int32_t own = p.mults > 1 ? c : 0;
        y[c] = tw_end_s8(sums[c], channels.mult[own], channels.shift[own], &channels);
    }
}

#endif
