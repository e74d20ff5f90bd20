/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, int16 activations and int8 weights [out_c][k_h][k_w][in_c / groups]. */
#ifndef TW_CONV2D_S16_H
#define TW_CONV2D_S16_H

#include "../core/sums_s16.h"
#include "../core/window.h"

/* in: x, w, bias int64 [out_c], mult int32 [out_c], shift int8 [out_c]. out: y. depth: in_c / groups. narrow: see
 * tw_channels_s16. */
typedef struct {
    tw_window window;
    tw_limits limits;
    int32_t depth, narrow;
} tw_conv2d_s16_params;

/* sum plus the products of one channel's taps inside the image. x: the window's corner (it may lie outside) at the
 * group's first channel; w: the channel's weights. */
TW_INLINE int64_t tw_conv2d_sum_s16(int64_t sum, const int16_t *x, const int8_t *w, const tw_inside *inside,
                                    const tw_conv2d_s16_params *p) {
    const tw_window *window = &p->window;
    const int32_t taps = tw_inside_run(inside, p->depth, window), n = taps * p->depth;
    for (int32_t ky = inside->top; ky < inside->bottom; ++ky)
        for (int32_t kx = inside->first; kx < inside->end; kx += taps)
            sum = tw_dot_s16(sum, x + tw_window_tap(ky, kx, window), w + (ky * window->k_w + kx) * p->depth, n);
    return sum;
}

TW_KERNEL(tw_conv2d_s16) {
    const tw_conv2d_s16_params p = *params;
    int16_t *y = (int16_t *)out[0];
    const tw_channels_s16 channels = tw_channels_s16_of(in, p.narrow, &p.limits);
    const int32_t group = p.window.out_c / (p.window.in_c / p.depth), size = p.window.k_h * p.window.k_w * p.depth;
    tw_pixel at = tw_pixel_first(in[0], sizeof *y, &p.window);
    TW_EACH_PIXEL(at, &p.window) {
        const tw_inside inside = tw_inside_of(&at, &p.window);
        const int16_t *x = (const int16_t *)tw_pixel_corner(&at, &p.window);
        const int8_t *w = (const int8_t *)in[1];
        for (int32_t c = 0; c < p.window.out_c; ++c, w += size) {
            const int64_t sum = tw_conv2d_sum_s16(channels.bias[c], x + c / group * p.depth, w, &inside, &p);
            *y++ = tw_end_s16(sum, channels.mult[c], channels.shift[c], &channels);
        }
    }
}

#endif
