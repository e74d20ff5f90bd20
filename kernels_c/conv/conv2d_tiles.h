/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, int8, in tiles of four pixels by four channels. */
#ifndef TW_CONV2D_TILES_H
#define TW_CONV2D_TILES_H

#include "../core/window.h"
#include "../isa/tiles/tile_s8.h"

/* in: x, packed weights and the channels' ends (tile_s8.h) for k = k_h * k_w * in_c; padding holds in_zero. out: y.
 * scratch: int8 [4][k], unused for a 1x1 kernel. */
typedef struct {
    tw_window window;
    tw_tiles_end end;
    int32_t mults, in_zero;
} tw_conv2d_tiles_s8_params;

TW_KERNEL(tw_conv2d_tiles_s8) {
    const tw_conv2d_tiles_s8_params p = *params;
    const tw_window *w = &p.window;
    const tw_gather g = {w, w->in_c, p.in_zero, 0};
    const int32_t n = w->k_h * w->k_w * w->in_c;
    const tw_tiles_channels channels = tw_tiles_channels_of(in, p.mults, &p.end);
    int8_t *y = (int8_t *)out[0], *columns = (int8_t *)scratch;
    tw_pixel at = tw_pixel_first(in[0], 1, w);
    for (int32_t left = tw_window_count(w), count; left > 0; left -= count, y += count * w->out_c) {
        const int8_t *x[TW_TILES_PIXELS];
        count = left < TW_TILES_PIXELS ? 1 : TW_TILES_PIXELS; /* the last pixels one by one */
        for (int32_t i = 0; i < count; ++i, tw_pixel_next(&at, w)) {
            if (w->k_h * w->k_w == 1) {
                x[i] = (const int8_t *)tw_pixel_corner(&at, w); /* no padding, and nothing to gather */
                continue;
            }
            x[i] = columns + i * n;
            tw_gather_window(columns + i * n, &at, 0, &g);
        }
        tw_tiles_outputs(y, w->out_c, x, count, (const int8_t *)in[1], n, w->out_c, &channels);
    }
}

#endif
