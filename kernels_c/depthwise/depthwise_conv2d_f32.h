/* SPDX-License-Identifier: Apache-2.0 */
/* DEPTHWISE_CONV_2D, NHWC, float32, weights [k_h][k_w][out_c], out_c = in_c * multiplier. */
#ifndef TW_DEPTHWISE_CONV2D_F32_H
#define TW_DEPTHWISE_CONV2D_F32_H

#include "../core/sums_f32.h"
#include "../core/window.h"

/* in: x, w, bias [out_c]. out: y. The sum runs over the taps inside the image, in order, for every channel. */
typedef struct {
    tw_window window;
    tw_limits_f32 limits;
    int32_t multiplier;
} tw_depthwise_conv2d_f32_params;
typedef tw_depthwise_conv2d_f32_params tw_depthwise_conv2d_fused_f32_params;

/* Whether channels are taken by eights; on a host, the compiler does better by itself. */
#if defined(TW_VFP)
#define TW_DEPTHWISE_EIGHTS(channels) ((channels) >= TW_EIGHT)
#else
#define TW_DEPTHWISE_EIGHTS(channels) ((channels) == TW_EIGHT || (channels) == 2 * TW_EIGHT)
#endif

/* All channels of one output, multiplier 1, by eights. x: the window's corner; inside: at least one tap. */
TW_INLINE void tw_depthwise_conv2d_eights_f32(const float *x, const float *w, const float *bias, float *y,
                                              const tw_inside *inside, const tw_depthwise_conv2d_f32_params *p,
                                              int fused) {
    const tw_window *window = &p->window;
    const int32_t rows = inside->bottom - inside->top, columns = inside->end - inside->first;
    const int32_t row = tw_window_tap(1, 0, window), column = tw_window_tap(0, 1, window);
    const tw_taps taps = {
        rows,     columns, column, row - columns * column, window->out_c, (window->k_w - columns) * window->out_c,
        p->limits};
    x += inside->top * row + inside->first * column;
    w += (inside->top * window->k_w + inside->first) * window->out_c;
    for (int32_t next = 0; next < window->out_c; next += TW_EIGHT) {
        const int32_t c = tw_min(next, window->out_c - TW_EIGHT); /* the last eight may repeat some */
        tw_eight_f32(y + c, x + c, w + c, bias + c, &taps, fused);
    }
}

/* All channels of one output: y collects the sums. x: the window's corner. */
TW_INLINE void tw_depthwise_conv2d_pixel_f32(const float *TW_RESTRICT x, const float *TW_RESTRICT w,
                                             const float *TW_RESTRICT bias, float *TW_RESTRICT y,
                                             const tw_inside *inside, const tw_depthwise_conv2d_f32_params *p,
                                             int fused) {
    const tw_window *window = &p->window;
    for (int32_t c = 0; c < window->out_c; ++c) y[c] = 0.0F;
    for (int32_t ky = inside->top; ky < inside->bottom; ++ky)
        for (int32_t kx = inside->first; kx < inside->end; ++kx) {
            const float *TW_RESTRICT from = x + tw_window_tap(ky, kx, window);
            const float *TW_RESTRICT tap = w + (ky * window->k_w + kx) * window->out_c;
            if (p->multiplier == 1)
                for (int32_t c = 0; c < window->out_c; ++c) y[c] = tw_madd(from[c], tap[c], y[c], fused);
            else
                for (int32_t c = 0; c < window->in_c; ++c)
                    for (int32_t m = 0; m < p->multiplier; ++m) {
                        const int32_t to = c * p->multiplier + m;
                        y[to] = tw_madd(from[c], tap[to], y[to], fused);
                    }
        }
    for (int32_t c = 0; c < window->out_c; ++c) y[c] = tw_clampf(y[c] + bias[c], p->limits.low, p->limits.high);
}

/* The kernel; fused, a constant: see madd.h. */
TW_INLINE void tw_depthwise_conv2d_f32_of(const tw_depthwise_conv2d_f32_params *params, const void *const *in,
                                          void *const *out, int fused) {
    const tw_depthwise_conv2d_f32_params p = *params;
    const float *w = (const float *)in[1], *bias = (const float *)in[2];
    float *y = (float *)out[0];
    tw_pixel at = tw_pixel_first(in[0], sizeof *y, &p.window);
    TW_EACH_PIXEL(at, &p.window) {
        const tw_inside inside = tw_inside_of(&at, &p.window);
        const float *x = (const float *)tw_pixel_corner(&at, &p.window);
        if (p.multiplier == 1 && TW_DEPTHWISE_EIGHTS(p.window.out_c) && tw_inside_any(&inside))
            tw_depthwise_conv2d_eights_f32(x, w, bias, y, &inside, &p, fused);
        else
            tw_depthwise_conv2d_pixel_f32(x, w, bias, y, &inside, &p, fused);
        y += p.window.out_c;
    }
}

TW_KERNEL(tw_depthwise_conv2d_f32) { tw_depthwise_conv2d_f32_of(params, in, out, 0); }

TW_KERNEL(tw_depthwise_conv2d_fused_f32) { tw_depthwise_conv2d_f32_of(params, in, out, 1); }

#endif
