/* SPDX-License-Identifier: Apache-2.0 */
/* FULLY_CONNECTED of one batch whose input comes piece by piece, in blocks of four channels. */
#ifndef TW_FULLY_CONNECTED_SUMS_TILES_H
#define TW_FULLY_CONNECTED_SUMS_TILES_H

#include "../core/part.h"
#include "fully_connected_tiles.h"

/* int8. in and out as for tw_fully_connected_tiles_s8, but x [part.count]. scratch: int32 [out rounded up to 4]. */
typedef struct {
    tw_fully_connected_tiles_s8_params all;
    tw_part part;
} tw_fully_connected_sums_tiles_s8_params;

TW_KERNEL(tw_fully_connected_sums_tiles_s8) {
    const tw_fully_connected_tiles_s8_params p = params->all;
    const tw_part part = params->part;
    const tw_tiles_channels channels = tw_tiles_channels_of(in, p.mults, &p.end);
    const int8_t *w = (const int8_t *)in[1] + part.first * TW_TILES_CHANNELS;
    int8_t *y = (int8_t *)out[0];
    int32_t *sums = (int32_t *)scratch;
    for (int32_t c = 0; c < p.out; c += TW_TILES_CHANNELS, w += TW_TILES_CHANNELS * p.depth) {
        int32_t start[TW_TILES_CHANNELS];
        memcpy(start, (part.first == 0 ? channels.bias : sums) + c, sizeof start);
        tw_tiles_pixel(sums + c, (const int8_t *)in[0], w, part.count, start);
    }
    if (part.first + part.count < p.depth) return;
    for (int32_t c = 0; c < p.out; ++c) {
        const tw_tiles_channel channel = tw_tiles_channel_of(c, &channels);
        y[c] = tw_tiles_output(sums[c], &channel, &p.end);
    }
}

#endif
