/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, int8, in tiles of four pixels by four channels. */
#ifndef TW_CONV2D_TILES_H
#define TW_CONV2D_TILES_H

#include "../core/window.h"
#include "../isa/tiles/tile_s8.h"

/* in: x, packed weights and the channels' ends (tile_s8.h) for k = k_h * k_w * in_c; padding holds in_zero. out: y. direct:
 * windows inside the image are read where they lie, by rows of taps; others are gathered. scratch: int8 [4][k], unused
 * where all are direct. */
typedef struct {
    tw_window window;
    tw_tiles_end end;
    int32_t mults, in_zero, direct;
} tw_conv2d_tiles_s8_params;

TW_KERNEL(tw_conv2d_tiles_s8) {
    const tw_conv2d_tiles_s8_params p = *params;
    const tw_window *w = &p.window;
    const tw_gather g = {w, w->in_c, p.in_zero, 0};
    const int32_t row = w->k_w * w->in_c, n = w->k_h * row;
    const tw_tiles_taps together = {1, n, 0}, apart = {w->k_h, row, w->dilation_h * w->in_w * w->in_c - row};
    const tw_tiles_channels channels = tw_tiles_channels_of(in, p.mults, &p.end);
    int8_t *y = (int8_t *)out[0], *columns = (int8_t *)scratch;
    tw_pixel at = tw_pixel_first(in[0], 1, w);
    for (int32_t left = tw_window_count(w), count; left > 0; left -= count, y += count * w->out_c) {
        const int8_t *x[TW_TILES_PIXELS];
        const tw_pixel first = at;
        int32_t direct = p.direct;
        count = left < TW_TILES_PIXELS ? 1 : TW_TILES_PIXELS; /* the last pixels one by one */
        for (int32_t i = 0; direct && i < count; ++i, tw_pixel_next(&at, w)) {
            x[i] = (const int8_t *)tw_pixel_corner(&at, w);
            direct = tw_window_whole(&at, w);
        }
        if (!direct) {
            at = first;
            for (int32_t i = 0; i < count; ++i, tw_pixel_next(&at, w)) {
                x[i] = columns + i * n;
                tw_gather_window(columns + i * n, &at, 0, &g);
            }
        }
        tw_tiles_outputs(y, w->out_c, x, count, (const int8_t *)in[1], direct ? &apart : &together, w->out_c,
                         &channels);
    }
}

#endif
