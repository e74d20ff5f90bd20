/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, int8, weights [out_c][k_h][k_w][in_c / groups]. */
#ifndef TW_CONV2D_H
#define TW_CONV2D_H

#include "../core/sums.h"
#include "../core/window.h"

/* Plain C. in: x, w, bias int32 [out_c] with the input zero point folded in (less in_zero times the channel's sum of
 * weights), mult int32 [out_c], shift int8 [out_c]. Padding holds in_zero. out: y. depth: in_c / groups. fast: see
 * tw_channels_s8. scratch: int8 [2][k_h * k_w * depth], unused for a 1x1 kernel. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t depth, in_zero, fast;
} tw_conv2d_s8_params;

/* The window at a pixel: in place if it is one pixel, else gathered to an offset in columns. */
TW_INLINE const int8_t *tw_conv2d_gather_s8(int8_t *columns, int32_t offset, const tw_pixel *at, const tw_gather *g) {
    const tw_window *w = g->window;
    if (w->k_h * w->k_w == 1) return (const int8_t *)tw_pixel_corner(at, w); /* no padding, and no columns */
    tw_gather_window(columns + offset, at, 0, g);
    return columns + offset;
}

/* All outputs of one group; x, w and y point to its first channel. */
TW_INLINE void tw_conv2d_group_s8(const int8_t *x, const int8_t *w, int8_t *y, int8_t *columns,
                                  const tw_channels_s8 *channels, const tw_conv2d_s8_params *p) {
    const tw_window *window = &p->window;
    const tw_gather g = {window, p->depth, p->in_zero, 0};
    const int32_t n = window->k_h * window->k_w * p->depth, group = window->out_c / (window->in_c / p->depth);
    const int8_t *from[TW_TILE_PIXELS];
    int8_t *to[TW_TILE_PIXELS];
    tw_pixel at = tw_pixel_first(x, 1, window);
    for (int32_t left = tw_window_count(window); left > 0; left -= TW_TILE_PIXELS) {
        for (int i = 0; i < TW_TILE_PIXELS; ++i) {
            if (i > 0 && i == left) { /* an odd last pixel counts as two */
                from[i] = from[0];
                to[i] = to[0];
                break;
            }
            from[i] = tw_conv2d_gather_s8(columns, i * n, &at, &g);
            to[i] = y;
            y += window->out_c;
            tw_pixel_next(&at, window);
        }
        tw_outputs_s8(to, from, w, n, group, channels);
    }
}

TW_KERNEL(tw_conv2d_s8) {
    const tw_conv2d_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0], *w = (const int8_t *)in[1];
    int8_t *y = (int8_t *)out[0];
    const int32_t groups = p.window.in_c / p.depth, group = p.window.out_c / groups;
    const int32_t n = p.window.k_h * p.window.k_w * p.depth;
    for (int32_t g = 0; g < groups; ++g) {
        const tw_channels_s8 channels = tw_channels_s8_of(in, g * group, p.fast, &p.end);
        tw_conv2d_group_s8(x + g * p.depth, w + g * group * n, y + g * group, (int8_t *)scratch, &channels, &p);
    }
}

#endif
