/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, float32, weights [out_c][k_h][k_w][in_c / groups]. */
#ifndef TW_CONV2D_F32_H
#define TW_CONV2D_F32_H

#include "../core/sums_f32.h"
#include "../core/window.h"
#include "../isa/wide/wide_f32.h"

/* Plain C. in: x, w, bias [out_c]. out: y. depth: in_c / groups. */
typedef struct {
    tw_window window;
    tw_limits_f32 limits;
    int32_t depth;
} tw_conv2d_f32_params;

/* The sums of four channels, whose weights lie size apart, over the taps inside the image. x: the window's corner (it
 * may lie outside) at the group's first channel; w: weights of the first of the four. */
TW_INLINE void tw_conv2d_sums_f32(float *acc, const float *x, const float *w, int32_t size, const tw_inside *inside,
                                  const tw_conv2d_f32_params *p) {
    const tw_window *window = &p->window;
    const int32_t taps = tw_inside_run(inside, p->depth, window);
    for (int32_t ky = inside->top; ky < inside->bottom; ++ky)
        for (int32_t kx = inside->first; kx < inside->end; kx += taps)
            tw_rows_f32(acc, x + tw_window_tap(ky, kx, window), w + (ky * window->k_w + kx) * p->depth, taps * p->depth,
                        size);
}

/* All channels of one output; x: the window's corner. */
TW_INLINE void tw_conv2d_pixel_f32(const float *x, const float *w, const float *bias, float *y, const tw_inside *inside,
                                   const tw_conv2d_f32_params *p) {
    const tw_window *window = &p->window;
    const int32_t group = window->out_c / (window->in_c / p->depth), size = window->k_h * window->k_w * p->depth;
    const tw_rows rows = tw_rows_of(group, 4);
    for (int32_t g = 0; g < window->out_c; g += group, x += p->depth)
        for (int32_t next = 0; next < group; next += rows.step) {
            const int32_t at = g + tw_min(next, group - rows.step);
            float acc[4] = {0.0F, 0.0F, 0.0F, 0.0F};
            tw_conv2d_sums_f32(acc, x, w + at * size, rows.apart * size, inside, p);
            for (int32_t c = at; c < at + rows.step; ++c)
                y[c] = tw_clampf(acc[c - at] + bias[c], p->limits.low, p->limits.high);
        }
}

TW_KERNEL(tw_conv2d_f32) {
    const tw_conv2d_f32_params p = *params;
    const float *w = (const float *)in[1], *bias = (const float *)in[2];
    float *y = (float *)out[0];
    tw_pixel at = tw_pixel_first(in[0], sizeof *y, &p.window);
    (void)scratch;
    TW_EACH_PIXEL(at, &p.window) {
        const tw_inside inside = tw_inside_of(&at, &p.window);
        tw_conv2d_pixel_f32((const float *)tw_pixel_corner(&at, &p.window), w, bias, y, &inside, &p);
        y += p.window.out_c;
    }
}

/* Over 16 lanes. in: x, w packed [out_c / 16][k_h * k_w * in_c][16], bias [out_c padded to 16]. out: y. scratch: float
 * [panel, k_h * k_w * in_c], panel a multiple of 8. Padding is added as zeros, which does not change the sums' bits if
 * the weights are finite. direct: the windows are the input's pixels, one after another. */
typedef struct {
    tw_window window;
    tw_limits_f32 limits;
    int32_t panel, direct;
} tw_conv2d_wide_f32_params;

TW_KERNEL(tw_conv2d_wide_f32) {
    const tw_conv2d_wide_f32_params p = *params;
    const float *w = (const float *)in[1], *bias = (const float *)in[2], *panel = (const float *)scratch;
    float *y = (float *)out[0];
    const tw_window bytes = tw_window_bytes(&p.window, sizeof *y);
    const tw_gather g = {&bytes, bytes.in_c, 0, 0};
    const int32_t pixels = tw_window_count(&bytes), k = bytes.k_h * bytes.k_w * p.window.in_c, out_c = bytes.out_c;
    const int32_t row = k * (int32_t)sizeof *y;
    tw_pixel at = tw_pixel_first(in[0], 1, &bytes);
    for (int32_t first = 0; first < pixels; first += p.panel) {
        const int32_t rows = tw_min(pixels - first, p.panel);
        if (p.direct)
            memcpy(scratch, (const int8_t *)in[0] + first * row, (size_t)(rows * row));
        else
            for (int32_t r = 0; r < rows; ++r, tw_pixel_next(&at, &bytes))
                tw_gather_window((int8_t *)scratch + r * row, &at, 0, &g);
        tw_panel_f32(panel, rows, k, w, bias, y + first * out_c, out_c, &p.limits);
    }
}

#endif
