/* SPDX-License-Identifier: Apache-2.0 */
/* DEPTHWISE_CONV_2D, NHWC, float32 activations and int8 weights [k_h][k_w][out_c], out_c = in_c * multiplier. */
#ifndef TW_DEPTHWISE_CONV2D_HYBRID_H
#define TW_DEPTHWISE_CONV2D_HYBRID_H

#include "../core/hybrid.h"
#include "../core/window.h"

/* Activations are quantised at run time, with one scale per image. in: x float, w int8, w_scale float [out_c], bias
 * float [out_c]. out: y float. scratch: int8 image [in_h, in_w, in_c] rounded up to 16, int32 [out_c]. Source: LiteRT's
 * DepthwiseConvHybridPerChannel. */
typedef struct {
    tw_window window;
    tw_limits_f32 limits;
    int32_t multiplier;
} tw_depthwise_conv2d_hybrid_params;

/* The sums of one output. x: the window's corner. */
TW_INLINE void tw_depthwise_conv2d_pixel_hybrid(const int8_t *TW_RESTRICT x, const int8_t *TW_RESTRICT w,
                                                int32_t *TW_RESTRICT sums, const tw_inside *inside, int32_t zero,
                                                const tw_depthwise_conv2d_hybrid_params *p) {
    const tw_window *window = &p->window;
    for (int32_t c = 0; c < window->out_c; ++c) sums[c] = 0;
    for (int32_t ky = inside->top; ky < inside->bottom; ++ky)
        for (int32_t kx = inside->first; kx < inside->end; ++kx) {
            const int8_t *TW_RESTRICT from = x + tw_window_tap(ky, kx, window);
            const int8_t *TW_RESTRICT tap = w + (ky * window->k_w + kx) * window->out_c;
            if (p->multiplier == 1)
                for (int32_t c = 0; c < window->out_c; ++c) sums[c] += (from[c] - zero) * tap[c];
            else
                for (int32_t c = 0; c < window->out_c; ++c) sums[c] += (from[c / p->multiplier] - zero) * tap[c];
        }
}

TW_KERNEL(tw_depthwise_conv2d_hybrid) {
    const tw_depthwise_conv2d_hybrid_params p = *params;
    const float *x = (const float *)in[0];
    const int8_t *w = (const int8_t *)in[1];
    const float *TW_RESTRICT w_scale = (const float *)in[2];
    const float *TW_RESTRICT bias = (const float *)in[3];
    float *y = (float *)out[0]; /* in place it is x */
    const int32_t image = tw_window_image(&p.window), out_c = p.window.out_c;
    int8_t *quantized = (int8_t *)scratch;
    int32_t *TW_RESTRICT sums = (int32_t *)(void *)((int8_t *)scratch + (image + 15) / 16 * 16);
    for (int32_t b = 0; b < p.window.batches; ++b, x += image) {
        const tw_hybrid_quant q = tw_hybrid_quantize(quantized, x, image, 0);
        tw_pixel at = tw_pixel_first(quantized, 1, &p.window);
        for (int32_t left = p.window.out_h * p.window.out_w; left > 0; --left, y += out_c) {
            const tw_inside inside = tw_inside_of(&at, &p.window);
            tw_depthwise_conv2d_pixel_hybrid((const int8_t *)tw_pixel_corner(&at, &p.window), w, sums, &inside, q.zero,
                                             &p);
            for (int32_t c = 0; c < out_c; ++c)
                y[c] = tw_clampf((float)sums[c] * w_scale[c] * q.scale + bias[c], p.limits.low, p.limits.high);
            tw_pixel_next(&at, &p.window);
        }
    }
}

#endif
