/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, int8, as TFLM's reference kernel does it: nothing prepared, every tap tested. What the other kernels are
 * measured against. */
#ifndef TW_CONV2D_REFERENCE_H
#define TW_CONV2D_REFERENCE_H

#include "../core/epilogue.h"
#include "../core/window.h"

/* in: x, w [out_c][k_h][k_w][depth], bias int32 [out_c] (no zero point is folded in), mult int32 and shift int8 [out_c].
 * depth: in_c / groups. out: y. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t depth, in_zero;
} tw_conv2d_reference_s8_params;

/* The sum of one channel over a window; w points to its weights, first is its group's first input channel. */
TW_INLINE int32_t tw_conv2d_reference_sum(const tw_pixel *at, const int8_t *w, int32_t first,
                                          const tw_conv2d_reference_s8_params *p) {
    const tw_window *window = &p->window;
    int32_t acc = 0;
    for (int32_t ky = 0; ky < window->k_h; ++ky)
        for (int32_t kx = 0; kx < window->k_w; ++kx, w += p->depth) {
            const int32_t y = at->y + ky * window->dilation_h, x = at->x + kx * window->dilation_w;
            if (!tw_is_inside(y, window->in_h) || !tw_is_inside(x, window->in_w)) continue;
            const int8_t *pixel = at->image + (y * window->in_w + x) * window->in_c + first;
            for (int32_t i = 0; i < p->depth; ++i) acc = tw_add(acc, (pixel[i] - p->in_zero) * w[i]);
        }
    return acc;
}

TW_KERNEL(tw_conv2d_reference_s8) {
    const tw_conv2d_reference_s8_params p = *params;
    const tw_channels_s8 channels = tw_channels_s8_of(in, 0, 0, &p.end);
    const int32_t size = p.window.k_h * p.window.k_w * p.depth, group = p.window.out_c / (p.window.in_c / p.depth);
    int8_t *y = (int8_t *)out[0];
    tw_pixel at = tw_pixel_first(in[0], 1, &p.window);
    for (int32_t left = tw_window_count(&p.window); left > 0; --left, tw_pixel_next(&at, &p.window)) {
        const int8_t *w = (const int8_t *)in[1];
        for (int32_t c = 0; c < p.window.out_c; ++c, w += size) {
            const int32_t sum = tw_conv2d_reference_sum(&at, w, c / group * p.depth, &p);
            const int32_t acc = tw_add(sum, channels.bias[c]);
            *y++ = tw_epilogue_s8_of(tw_requantize(acc, channels.mult[c], channels.shift[c]), &p.end);
        }
    }
}

#endif
