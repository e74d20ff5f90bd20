/* SPDX-License-Identifier: Apache-2.0 */
/* DEPTHWISE_CONV_2D, NHWC, int8, weights [k_h][k_w][out_c], out_c = in_c * multiplier. */
#ifndef TW_DEPTHWISE_CONV2D_H
#define TW_DEPTHWISE_CONV2D_H

#include "../core/sums.h"
#include "../core/window.h"

/* Plain C. in: x, w, bias int32 [out_c] with the input zero point folded in (less in_zero times the channel's sum of
 * weights), mult int32 [out_c], shift int8 [out_c]. Padding holds in_zero. out: y. fast: see tw_channels_s8. scratch:
 * int8 [k_h][columns][min(in_c, TW_DEPTHWISE_CHANNELS)]; columns: how many two windows side by side cover. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t multiplier, in_zero, fast;
} tw_depthwise_conv2d_s8_params;

/* Input channels whose padded windows are gathered at a time. */
#define TW_DEPTHWISE_CHANNELS 32

/* Some channels of two windows side by side; bytes from one row of taps to the next, and from column to column. */
typedef struct {
    const int8_t *x;
    int32_t row, column;
} tw_patch;

/* Copies some channels, from first on, of the window at a pixel, without dilation along its rows, tap by tap: a copy of
 * whole rows would be quicker at the top and the bottom of the image, and as long again. */
TW_INLINE void tw_depthwise_conv2d_gather_s8(int8_t *TW_RESTRICT to, const tw_pixel *at, int32_t first,
                                             int32_t channels, int32_t fill, const tw_window *w) {
    for (int32_t ky = 0, y = at->y; ky < w->k_h; ++ky, y += w->dilation_h)
        for (int32_t x = at->x; x < at->x + w->k_w; ++x, to += channels) {
            if (tw_row_inside(y, w) && tw_column_inside(x, w))
                memcpy(to, at->image + (y * w->in_w + x) * w->in_c + first, (size_t)channels);
            else
                memset(to, fill, (size_t)channels);
        }
}

/* Some channels, from first on, of the windows at a pixel and at the next: in place, or gathered if they reach into the
 * padding. They are one window over all columns that the two cover. */
TW_INLINE tw_patch tw_depthwise_conv2d_patch_s8(int8_t *to, const tw_pixel *at, int32_t first, int32_t channels,
                                                const tw_depthwise_conv2d_s8_params *p) {
    tw_window both = p->window;
    both.k_w = (both.k_w - 1) * both.dilation_w + 1 + both.stride_w;
    both.dilation_w = 1;
    const tw_patch lying = {(const int8_t *)tw_pixel_corner(at, &both) + first, both.dilation_h * both.in_w * both.in_c,
                            both.in_c};
    const tw_patch gathered = {to, both.k_w * channels, channels};
    if (at->y >= 0 && at->y + (both.k_h - 1) * both.dilation_h < both.in_h && at->x >= 0 &&
        at->x + both.k_w <= both.in_w)
        return lying;
    tw_depthwise_conv2d_gather_s8(to, at, first, channels, p->in_zero, &both);
    return gathered;
}

/* One channel, c, of two outputs; patch points to the input's channel, w and y to the first of the output's. w16: a
 * constant, whether weights are int16. */
TW_INLINE void tw_depthwise_conv2d_pair_s8(const tw_patch *patch, const void *w, int8_t *y, int32_t c, int32_t pair,
                                           int w16, const tw_channels_s8 *channels, const tw_window *window) {
    const int32_t step = window->dilation_w * patch->column, beside = window->stride_w * patch->column;
    int32_t left = channels->bias[c], right = left, at = c;
    const int8_t *row = patch->x;
    for (int32_t ky = 0; ky < window->k_h; ++ky, row += patch->row)
        for (int32_t kx = 0; kx < window->k_w; ++kx, at += window->out_c) {
            const int32_t tap = w16 ? ((const int16_t *)w)[at] : ((const int8_t *)w)[at];
            left = tw_add(left, row[kx * step] * tap);
            right = tw_add(right, row[kx * step + beside] * tap);
        }
    /* Both before the first is written: compilers think that channels might lie there. */
    const int32_t mult = channels->mult[c], shift = channels->shift[c];
    const int8_t first = tw_end_s8(left, mult, shift, channels);
    const int8_t second = pair || !TW_SHORT_IS_DEAR ? tw_end_s8(right, mult, shift, channels) : first;
    y[c] = first;
    if (pair) y[window->out_c + c] = second;
}

/* All channels of one or two outputs; the first one's window is at a pixel. */
TW_INLINE void tw_depthwise_conv2d_outputs_s8(const void *w, int8_t *y, int8_t *scratch, const tw_pixel *at,
                                              int32_t pair, int w16, const tw_channels_s8 *channels,
                                              const tw_depthwise_conv2d_s8_params *p) {
    int32_t c = 0;
    for (int32_t first = 0; first < p->window.in_c; first += TW_DEPTHWISE_CHANNELS) {
        const int32_t count = tw_min(p->window.in_c - first, TW_DEPTHWISE_CHANNELS);
        tw_patch patch = tw_depthwise_conv2d_patch_s8(scratch, at, first, count, p);
        for (int32_t i = 0; i < count; ++i, ++patch.x)
            for (int32_t m = 0; m < p->multiplier; ++m, ++c)
                tw_depthwise_conv2d_pair_s8(&patch, w, y, c, pair, w16, channels, &p->window);
    }
}

TW_INLINE void tw_depthwise_conv2d(const tw_depthwise_conv2d_s8_params *params, const void *const *in, void *const *out,
                                   void *scratch, int w16) {
    const tw_depthwise_conv2d_s8_params p = *params;
    int8_t *y = (int8_t *)out[0];
    const tw_channels_s8 channels = tw_channels_s8_of(in, 0, p.fast, &p.end);
    const int32_t out_w = p.window.out_w;
    tw_pixel at = tw_pixel_first(in[0], 1, &p.window);
    for (int32_t row = p.window.batches * p.window.out_h; row > 0; --row)
        for (int32_t left = out_w; left > 0; left -= 2) {
            const int32_t pair = left > 1;
            tw_depthwise_conv2d_outputs_s8(in[1], y, (int8_t *)scratch, &at, pair, w16, &channels, &p);
            y += (1 + pair) * p.window.out_c;
            tw_pixel_next(&at, &p.window);
            if (pair) tw_pixel_next(&at, &p.window);
        }
}

TW_KERNEL(tw_depthwise_conv2d_s8) { tw_depthwise_conv2d(params, in, out, scratch, 0); }

/* The same with weights of int16, as those that were uint8 less their zero point. */
typedef tw_depthwise_conv2d_s8_params tw_depthwise_conv2d_w16_s8_params;

TW_KERNEL(tw_depthwise_conv2d_w16_s8) { tw_depthwise_conv2d(params, in, out, scratch, 1); }

#endif
