/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, float32 activations and int8 weights. */
#ifndef TW_CONV2D_HYBRID_H
#define TW_CONV2D_HYBRID_H

#include "../core/hybrid.h"
#include "../core/window.h"

/* Activations are quantised at run time, with one scale per image. in: x float, w packed (wide.h), w_sum int32 [out_c],
 * w_scale float [out_c], bias float [out_c]. out: y float. scratch: int8 image [in_h, in_w, in_c] rounded up to 16,
 * uint8 [8, k4], int32 [8, out_c padded to 16]. symmetric: the zero point of images is 0. together: the scales are
 * multiplied first. Source: LiteRT's HybridConvPerChannel; its EvalHybrid if all weights have one scale, which is
 * symmetric and together. vector: outputs are bounded as tw_boundf does, for FULLY_CONNECTED (kernels that take pixels
 * one by one). */
typedef struct {
    tw_window window;
    tw_limits_f32 limits;
    int32_t k4, symmetric, together, vector;
} tw_conv2d_hybrid_params;

/* The output of channel c from its sum of products of stored values; in[2..4]: those of the kernel. */
TW_INLINE float tw_conv2d_hybrid_output(int32_t products, int32_t c, const void *const *in, tw_hybrid_quant q,
                                        const tw_conv2d_hybrid_params *p) {
    const float sum = (float)(products - q.zero * ((const int32_t *)in[2])[c]), scale = ((const float *)in[3])[c];
    const float real = p->together ? sum * (q.scale * scale) : sum * scale * q.scale;
    const float y = real + ((const float *)in[4])[c];
    return p->vector ? tw_boundf(y, p->limits.low, p->limits.high) : tw_clampf(y, p->limits.low, p->limits.high);
}

/* Outputs of one pixel from its sums; in is that of the kernel. */
TW_INLINE void tw_conv2d_hybrid_outputs(float *TW_RESTRICT y, const int32_t *TW_RESTRICT sums, const void *const *in,
                                        tw_hybrid_quant q, const tw_conv2d_hybrid_params *p) {
    const int32_t *TW_RESTRICT w_sum = (const int32_t *)in[2];
    const float *TW_RESTRICT w_scale = (const float *)in[3];
    const float *TW_RESTRICT bias = (const float *)in[4];
    for (int32_t c = 0; c < p->window.out_c; ++c) {
        const int32_t sum = sums[c] - (128 + q.zero) * w_sum[c];
        const float real = p->together ? (float)sum * (q.scale * w_scale[c]) : (float)sum * w_scale[c] * q.scale;
        y[c] = tw_clampf(real + bias[c], p->limits.low, p->limits.high);
    }
}

TW_KERNEL(tw_conv2d_hybrid) {
    const tw_conv2d_hybrid_params p = *params;
    const float *x = (const float *)in[0];
    float *y = (float *)out[0];
    const int32_t image = tw_window_image(&p.window), out_c = p.window.out_c, pixels = p.window.out_h * p.window.out_w;
    const int32_t padded = (out_c + TW_LANES - 1) / TW_LANES * TW_LANES;
    int8_t *quantized = (int8_t *)scratch, *panel = quantized + (image + 15) / 16 * 16;
    int32_t *sums = (int32_t *)(void *)(panel + TW_TILE_ROWS * p.k4);
    for (int32_t b = 0; b < p.window.batches; ++b, x += image) {
        const tw_hybrid_quant q = tw_hybrid_quantize(quantized, x, image, p.symmetric);
        const tw_gather g = {&p.window, p.window.in_c, q.zero, 0x80};
        tw_pixel at = tw_pixel_first(quantized, 1, &p.window);
        for (int32_t first = 0; first < pixels; first += TW_TILE_ROWS) {
            const int32_t rows = tw_min(pixels - first, TW_TILE_ROWS);
            for (int32_t r = 0; r < rows; ++r, tw_pixel_next(&at, &p.window))
                tw_gather_window(panel + r * p.k4, &at, 0, &g);
            tw_hybrid_sums((const uint8_t *)panel, TW_TILE_ROWS, p.k4, (const int8_t *)in[1], sums, out_c);
            for (int32_t r = 0; r < rows; ++r, y += out_c) tw_conv2d_hybrid_outputs(y, sums + r * padded, in, q, &p);
        }
    }
}

/* All channels of one pixel; x: its window, int8; q: how its image was quantised; params: the kernel's. */
typedef void tw_conv2d_hybrid_pixel(float *y, const int8_t *x, const void *const *in, tw_hybrid_quant q,
                                    const void *params);

/* All pixels of kernels that take them one by one. direct: the windows are the input's pixels. scratch: int8 image, then a
 * window int8 [k4], both rounded up to 16. */
TW_INLINE void tw_conv2d_hybrid_pixels(const tw_conv2d_hybrid_params *all, int32_t direct, const void *const *in,
                                       float *y, int8_t *scratch, tw_conv2d_hybrid_pixel *pixel, const void *params) {
    const tw_window *w = &all->window;
    const float *x = (const float *)in[0];
    int8_t *column = scratch + (tw_window_image(w) + 15) / 16 * 16;
    for (int32_t b = 0; b < w->batches; ++b, x += tw_window_image(w)) {
        const tw_hybrid_quant q = tw_hybrid_quantize(scratch, x, tw_window_image(w), all->symmetric);
        const tw_gather g = {w, w->in_c, q.zero, 0};
        tw_pixel at = tw_pixel_first(scratch, 1, w);
        for (int32_t left = w->out_h * w->out_w; left > 0; --left, tw_pixel_next(&at, w), y += w->out_c) {
            if (!direct) tw_gather_window(column, &at, 0, &g);
            pixel(y, direct ? (const int8_t *)tw_pixel_corner(&at, w) : column, in, q, params);
        }
    }
}

#endif
