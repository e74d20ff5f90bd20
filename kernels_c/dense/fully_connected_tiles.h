/* SPDX-License-Identifier: Apache-2.0 */
/* FULLY_CONNECTED of int8, four batches by four channels at a time. */
#ifndef TW_FULLY_CONNECTED_TILES_H
#define TW_FULLY_CONNECTED_TILES_H

#include "../isa/tiles/tile_s8.h"

/* in: x [batches, depth], packed weights and the channels' ends (tile_s8.h). out: y [batches, out]. */
typedef struct {
    tw_tiles_end end;
    int32_t batches, depth, out, mults;
} tw_fully_connected_tiles_s8_params;

TW_KERNEL(tw_fully_connected_tiles_s8) {
    const tw_fully_connected_tiles_s8_params p = *params;
    const tw_tiles_channels channels = tw_tiles_channels_of(in, p.mults, &p.end);
    const tw_tiles_taps taps = {1, p.depth, 0};
    const int8_t *next = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    for (int32_t left = p.batches, count; left > 0; left -= count, y += count * p.out) {
        const int8_t *x[TW_TILES_PIXELS];
        count = left < TW_TILES_PIXELS ? 1 : TW_TILES_PIXELS;
        for (int32_t i = 0; i < count; ++i, next += p.depth) x[i] = next;
        tw_tiles_outputs(y, p.out, x, count, (const int8_t *)in[1], &taps, p.out, &channels);
    }
}

#endif
