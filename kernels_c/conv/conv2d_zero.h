/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, int8, with weights that have a zero point, as those that were uint8 may: sum x (w - w_zero) is sum x w
 * less w_zero times the sum of the window, which is the same for all channels. */
#ifndef TW_CONV2D_ZERO_H
#define TW_CONV2D_ZERO_H

#include "conv2d.h"

/* Plain C. in: x, w [out_c][k_h][k_w][depth], bias int32 [out_c] with the input zero point folded in (less in_zero times
 * the channel's sum of w - w_zero), mult int32 and shift int8 [out_c]. depth: in_c / groups. Padding holds in_zero. out:
 * y. scratch: int8 [k_h * k_w * depth], unused for a 1x1 kernel. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t depth, in_zero, w_zero;
} tw_conv2d_zero_s8_params;

/* The channels of one group and pixel: y[c] = x . w[c] - less, rows of n. */
TW_INLINE void tw_conv2d_zero_outputs_s8(const int8_t *x, const int8_t *w, int8_t *y, int32_t less,
                                         const tw_channels_s8 *channels, const tw_conv2d_zero_s8_params *p) {
    const int32_t group = p->window.out_c / (p->window.in_c / p->depth), n = p->window.k_h * p->window.k_w * p->depth;
    const tw_rows rows = tw_rows_of(group, TW_TILE);
    for (int32_t next = 0; next < group; next += rows.step) {
        const int32_t first = tw_min(next, group - rows.step);
        int32_t acc[TW_TILE];
        for (int j = 0; j < TW_TILE; ++j) acc[j] = tw_add(channels->bias[first + j * rows.apart], less);
        tw_rows_s8(acc, x, w + first * n, n, rows.apart * n);
        for (int j = 0; j < TW_TILE; ++j) {
            const int32_t c = first + j * rows.apart;
            y[c] = tw_end_s8(acc[j], channels->mult[c], channels->shift[c], channels);
        }
    }
}

TW_KERNEL(tw_conv2d_zero_s8) {
    const tw_conv2d_zero_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0], *w = (const int8_t *)in[1];
    const int32_t groups = p.window.in_c / p.depth, group = p.window.out_c / groups;
    const int32_t n = p.window.k_h * p.window.k_w * p.depth;
    const tw_gather gather = {&p.window, p.depth, p.in_zero, 0};
    for (int32_t g = 0; g < groups; ++g) {
        const tw_channels_s8 channels = tw_channels_s8_of(in, g * group, 0, &p.end);
        int8_t *y = (int8_t *)out[0] + g * group;
        tw_pixel at = tw_pixel_first(x + g * p.depth, 1, &p.window);
        for (int32_t left = tw_window_count(&p.window); left > 0; --left, y += p.window.out_c) {
            const int8_t *row = tw_conv2d_gather_s8((int8_t *)scratch, 0, &at, &gather);
            int32_t sum = 0;
            for (int32_t i = 0; i < n; ++i) sum += row[i];
            tw_conv2d_zero_outputs_s8(row, w + g * group * n, y, -p.w_zero * sum, &channels, &p);
            tw_pixel_next(&at, &p.window);
        }
    }
}

#endif
