/* SPDX-License-Identifier: Apache-2.0 */
/* DEPTHWISE_CONV_2D, NHWC, int8, as the reference has it: what techniques are measured against. */
#ifndef TW_DEPTHWISE_CONV2D_REFERENCE_H
#define TW_DEPTHWISE_CONV2D_REFERENCE_H

#include "../core/epilogue.h"
#include "../core/window.h"

/* in: x, w [k_h][k_w][out_c], bias int32 [out_c] (no zero point is folded in), mult int32 and shift int8 [out_c]. out:
 * y. Only taps inside the image are read. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t multiplier, in_zero;
} tw_depthwise_conv2d_reference_s8_params;

/* The sum of one channel over the taps inside; x and w point to the channel of the window's first tap. */
TW_INLINE int32_t tw_depthwise_conv2d_reference_sum(const int8_t *x, const int8_t *w, const tw_inside *inside,
                                                    int32_t acc, const tw_depthwise_conv2d_reference_s8_params *p) {
    const tw_window *window = &p->window;
    for (int32_t ky = inside->top; ky < inside->bottom; ++ky)
        for (int32_t kx = inside->first; kx < inside->end; ++kx) {
            const int32_t value = x[tw_window_tap(ky, kx, window)] - p->in_zero;
            acc = tw_add(acc, value * w[(ky * window->k_w + kx) * window->out_c]);
        }
    return acc;
}

TW_KERNEL(tw_depthwise_conv2d_reference_s8) {
    const tw_depthwise_conv2d_reference_s8_params p = *params;
    const int8_t *w = (const int8_t *)in[1];
    const tw_channels_s8 channels = tw_channels_s8_of(in, 0, 0, &p.end);
    int8_t *y = (int8_t *)out[0];
    tw_pixel at = tw_pixel_first(in[0], 1, &p.window);
    for (int32_t left = tw_window_count(&p.window); left > 0; --left, tw_pixel_next(&at, &p.window)) {
        const tw_inside inside = tw_inside_of(&at, &p.window);
        const int8_t *x = (const int8_t *)tw_pixel_corner(&at, &p.window);
        int32_t c = 0;
        for (int32_t i = 0; i < p.window.in_c; ++i)
            for (int32_t m = 0; m < p.multiplier; ++m, ++c) {
                const int32_t sum = tw_depthwise_conv2d_reference_sum(x + i, w + c, &inside, channels.bias[c], &p);
                *y++ = tw_epilogue_s8_of(tw_requantize(sum, channels.mult[c], channels.shift[c]), &p.end);
            }
    }
}

#endif
