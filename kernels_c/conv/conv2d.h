/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, weights [out_c][k_h][k_w][in_c / groups]. pad_h, pad_w: rows and columns of padding before the first. */
#ifndef TW_CONV2D_H
#define TW_CONV2D_H

#include "../core/hybrid.h"
#include "../core/sums.h"
#include "../core/sums_f32.h"

/* int8, plain C. in: x [batches, in_h, in_w, in_c], w, bias int32 [out_c] with the input zero point folded in (less
 * in_zero times the channel's sum of weights), mult int32 [out_c], shift int8 [out_c]. in_zero is what padding holds.
 * out: y [batches, out_h, out_w, out_c]. depth: in_c / groups. fast: tw_scaled is exact for all channels. scratch: int8
 * [2][k_h * k_w * depth], unused for a 1x1 kernel. */
typedef struct {
    int32_t batches, in_h, in_w, in_c, out_h, out_w, out_c, k_h, k_w;
    int32_t stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w, depth;
    int32_t in_zero, out_zero, act_min, act_max, fast;
} tw_conv2d_s8_params;

/* One row of taps; x0: the first tap's column. */
TW_INLINE void tw_conv2d_gather_row_s8(int8_t *to, const int8_t *row, int32_t x0, const tw_conv2d_s8_params *p) {
    if (p->dilation_w == 1 && p->depth == p->in_c && x0 >= 0 && x0 + p->k_w <= p->in_w) {
        memcpy(to, row + x0 * p->in_c, (size_t)(p->k_w * p->depth));
        return;
    }
    for (int32_t kx = 0; kx < p->k_w; ++kx, x0 += p->dilation_w, to += p->depth) {
        if (x0 < 0 || x0 >= p->in_w)
            memset(to, p->in_zero, (size_t)p->depth);
        else
            memcpy(to, row + x0 * p->in_c, (size_t)p->depth);
    }
}

/* The window with the corner (y0, x0), [k_h][k_w][depth]: gathered, or where it is one pixel, where it lies. x: the
 * image at the group's first channel. */
TW_INLINE const int8_t *tw_conv2d_gather_s8(int8_t *to, const int8_t *x, int32_t y0, int32_t x0,
                                            const tw_conv2d_s8_params *p) {
    const int32_t taps = p->k_w * p->depth;
    if (p->k_h * p->k_w == 1) return x + (y0 * p->in_w + x0) * p->in_c; /* such a kernel has no padding */
    for (int32_t ky = 0; ky < p->k_h; ++ky, y0 += p->dilation_h) {
        if (y0 < 0 || y0 >= p->in_h)
            memset(to + ky * taps, p->in_zero, (size_t)taps);
        else
            tw_conv2d_gather_row_s8(to + ky * taps, x + y0 * p->in_w * p->in_c, x0, p);
    }
    return to;
}

/* All outputs of one group of an image. */
TW_INLINE void tw_conv2d_group_s8(const int8_t *x, const int8_t *w, int8_t *y, int8_t *columns, int32_t group,
                                  const tw_ends *e, const tw_conv2d_s8_params *p) {
    const int32_t pixels = p->out_h * p->out_w, n = p->k_h * p->k_w * p->depth;
    const int8_t *from[TW_TILE_PIXELS];
    int8_t *to[TW_TILE_PIXELS];
    int32_t y0 = -p->pad_h, ox = 0;
    for (int32_t pixel = 0; pixel < pixels; pixel += TW_TILE_PIXELS) {
        for (int i = 0; i < TW_TILE_PIXELS; ++i) {
            if (i > 0 && pixel + i == pixels) { /* the last one twice */
                from[i] = from[0];
                to[i] = to[0];
                break;
            }
            from[i] = tw_conv2d_gather_s8(columns + i * n, x, y0, ox * p->stride_w - p->pad_w, p);
            to[i] = y + (pixel + i) * p->out_c;
            if (++ox == p->out_w) {
                ox = 0;
                y0 += p->stride_h;
            }
        }
        tw_outputs_s8(to, from, w, n, group, e);
    }
}

TW_KERNEL(tw_conv2d_s8) {
    const tw_conv2d_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0], *w = (const int8_t *)in[1];
    int8_t *y = (int8_t *)out[0];
    const int32_t groups = p.in_c / p.depth, group = p.out_c / groups, n = p.k_h * p.k_w * p.depth;
    for (int32_t b = 0; b < p.batches; ++b, x += p.in_h * p.in_w * p.in_c, y += p.out_h * p.out_w * p.out_c)
        for (int32_t g = 0; g < groups; ++g) {
            const int32_t c = g * group;
            const tw_ends e = {(const int32_t *)in[2] + c,
                               (const int32_t *)in[3] + c,
                               (const int8_t *)in[4] + c,
                               p.fast,
                               p.out_zero,
                               p.act_min,
                               p.act_max};
            tw_conv2d_group_s8(x + g * p.depth, w + c * n, y + c, (int8_t *)scratch, group, &e, &p);
        }
}

/* int8 over 16 lanes. in: x, w packed (wide.h) for k = k_h * k_w * in_c, then bias, mult, left and right int32 [out_c
 * padded to 16]. k4: k rounded up to 4. in_zero fills the padding. out: y. scratch: uint8 [panel, k4], panel a multiple
 * of 8. direct: the windows are the input's pixels, one after another (1x1, stride 1, no padding, k == k4). */
typedef struct {
    int32_t batches, in_h, in_w, in_c, out_h, out_w, out_c, k_h, k_w;
    int32_t stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w, k4, panel, direct;
    int32_t in_zero, out_zero, act_min, act_max;
} tw_conv2d_wide_s8_params;

/* One row of taps as uint8, with padding where ix leaves the image. */
TW_INLINE void tw_conv2d_taps_s8(uint8_t *TW_RESTRICT to, const int8_t *TW_RESTRICT row, int32_t x0,
                                 const tw_conv2d_wide_s8_params *p) {
    if (p->dilation_w == 1 && x0 >= 0 && x0 + p->k_w <= p->in_w) {
        tw_bias128(to, row + x0 * p->in_c, p->k_w * p->in_c);
        return;
    }
    for (int32_t kx = 0; kx < p->k_w; ++kx, to += p->in_c) {
        const int32_t ix = x0 + kx * p->dilation_w;
        if (ix < 0 || ix >= p->in_w)
            memset(to, p->in_zero + 128, (size_t)p->in_c);
        else
            tw_bias128(to, row + ix * p->in_c, p->in_c);
    }
}

/* The window at (y0, x0) of image x, as one row of the panel. */
TW_INLINE void tw_conv2d_window_s8(uint8_t *TW_RESTRICT to, const int8_t *TW_RESTRICT x, int32_t y0, int32_t x0,
                                   const tw_conv2d_wide_s8_params *p) {
    const int32_t taps = p->k_w * p->in_c;
    for (int32_t ky = 0; ky < p->k_h; ++ky, to += taps) {
        const int32_t iy = y0 + ky * p->dilation_h;
        if (iy < 0 || iy >= p->in_h)
            memset(to, p->in_zero + 128, (size_t)taps);
        else
            tw_conv2d_taps_s8(to, x + iy * p->in_w * p->in_c, x0, p);
    }
}

TW_KERNEL(tw_conv2d_wide_s8) {
    const tw_conv2d_wide_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    const int8_t *w = (const int8_t *)in[1];
    int8_t *y = (int8_t *)out[0];
    const tw_epilogue e = {(const int32_t *)in[2],
                           (const int32_t *)in[3],
                           (const int32_t *)in[4],
                           (const int32_t *)in[5],
                           p.out_zero,
                           p.act_min,
                           p.act_max};
    uint8_t *panel = (uint8_t *)scratch;
    const int32_t pixels = p.batches * p.out_h * p.out_w, image = p.in_h * p.in_w * p.in_c;
    int32_t oy = 0, ox = 0;
    for (int32_t first = 0; first < pixels; first += p.panel) {
        const int32_t rows = tw_min(pixels - first, p.panel);
        if (p.direct)
            tw_bias128(panel, x + first * p.k4, rows * p.k4);
        else
            for (int32_t r = 0; r < rows; ++r) {
                tw_conv2d_window_s8(panel + r * p.k4, x, oy * p.stride_h - p.pad_h, ox * p.stride_w - p.pad_w, &p);
                if (++ox < p.out_w) continue;
                ox = 0;
                if (++oy < p.out_h) continue;
                oy = 0;
                x += image;
            }
        tw_panel_s8(panel, rows, p.k4, w, y + first * p.out_c, p.out_c, &e);
    }
}

/* float32, plain C. in: x, w, bias [out_c]. out: y. depth: in_c / groups. */
typedef struct {
    int32_t batches, in_h, in_w, in_c, out_h, out_w, out_c, k_h, k_w;
    int32_t stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w, depth;
    float act_min, act_max;
} tw_conv2d_f32_params;

/* The sums of four channels, size apart, over the taps inside the image. x: the window's corner at the group's first
 * channel, which may lie outside; w: the first of the four. */
TW_INLINE void tw_conv2d_sums_f32(float *acc, const float *x, const float *w, int32_t size, const tw_inside *inside,
                                  const tw_conv2d_f32_params *p) {
    const int32_t joined = p->dilation_w == 1 && p->depth == p->in_c; /* a row of taps is one run */
    const int32_t taps = joined ? inside->end - inside->first : 1;
    for (int32_t ky = inside->top; ky < inside->bottom; ++ky)
        for (int32_t kx = inside->first; kx < inside->end; kx += taps)
            tw_rows_f32(acc, x + (ky * p->dilation_h * p->in_w + kx * p->dilation_w) * p->in_c,
                        w + (ky * p->k_w + kx) * p->depth, taps * p->depth, size);
}

/* Every channel of one output; x: the window's corner. */
TW_INLINE void tw_conv2d_pixel_f32(const float *x, const float *w, const float *bias, float *y, const tw_inside *inside,
                                   const tw_conv2d_f32_params *p) {
    const int32_t group = p->out_c / (p->in_c / p->depth), size = p->k_h * p->k_w * p->depth;
    const tw_rows rows = tw_rows_of(group, 4);
    for (int32_t g = 0; g < p->out_c; g += group, x += p->depth)
        for (int32_t next = 0; next < group; next += rows.step) {
            const int32_t at = g + tw_min(next, group - rows.step);
            float acc[4] = {0.0F, 0.0F, 0.0F, 0.0F};
            tw_conv2d_sums_f32(acc, x, w + at * size, rows.apart * size, inside, p);
            for (int32_t c = at; c < at + rows.step; ++c)
                y[c] = tw_clampf(acc[c - at] + bias[c], p->act_min, p->act_max);
        }
}

TW_KERNEL(tw_conv2d_f32) {
    const tw_conv2d_f32_params p = *params;
    const float *x = (const float *)in[0], *w = (const float *)in[1], *bias = (const float *)in[2];
    float *y = (float *)out[0];
    (void)scratch;
    for (int32_t b = 0; b < p.batches; ++b, x += p.in_h * p.in_w * p.in_c)
        for (int32_t oy = 0; oy < p.out_h; ++oy)
            for (int32_t ox = 0; ox < p.out_w; ++ox, y += p.out_c) {
                const int32_t y0 = oy * p.stride_h - p.pad_h, x0 = ox * p.stride_w - p.pad_w;
                const tw_inside inside = tw_inside_of(y0, x0, p.dilation_h, p.dilation_w, p.k_h, p.k_w, p.in_h, p.in_w);
                tw_conv2d_pixel_f32(x + (y0 * p.in_w + x0) * p.in_c, w, bias, y, &inside, &p);
            }
}

/* float32 over 16 lanes. in: x, w packed [out_c / 16][k_h * k_w * in_c][16], bias [out_c padded to 16]. out: y.
 * scratch: float [panel, k_h * k_w * in_c], panel a multiple of 8. Padding is added as zeros, which leaves the sums'
 * bits alone as long as the weights are finite. */
typedef struct {
    int32_t batches, in_h, in_w, in_c, out_h, out_w, out_c, k_h, k_w;
    int32_t stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w, panel, direct;
    float act_min, act_max;
} tw_conv2d_wide_f32_params;

TW_INLINE void tw_conv2d_window_f32(float *TW_RESTRICT to, const float *TW_RESTRICT x, int32_t y0, int32_t x0,
                                    const tw_conv2d_wide_f32_params *p) {
    for (int32_t ky = 0; ky < p->k_h; ++ky) {
        const int32_t iy = y0 + ky * p->dilation_h;
        for (int32_t kx = 0; kx < p->k_w; ++kx, to += p->in_c) {
            const int32_t ix = x0 + kx * p->dilation_w;
            if (iy < 0 || iy >= p->in_h || ix < 0 || ix >= p->in_w)
                memset(to, 0, (size_t)p->in_c * sizeof(float));
            else
                memcpy(to, x + (iy * p->in_w + ix) * p->in_c, (size_t)p->in_c * sizeof(float));
        }
    }
}

TW_KERNEL(tw_conv2d_wide_f32) {
    const tw_conv2d_wide_f32_params p = *params;
    const float *x = (const float *)in[0];
    const float *w = (const float *)in[1];
    const float *bias = (const float *)in[2];
    float *y = (float *)out[0];
    float *panel = (float *)scratch;
    const int32_t pixels = p.batches * p.out_h * p.out_w, k = p.k_h * p.k_w * p.in_c;
    int32_t oy = 0, ox = 0;
    for (int32_t first = 0; first < pixels; first += p.panel) {
        const int32_t rows = tw_min(pixels - first, p.panel);
        if (p.direct)
            memcpy(panel, x + first * k, (size_t)(rows * k) * sizeof(float));
        else
            for (int32_t r = 0; r < rows; ++r) {
                tw_conv2d_window_f32(panel + r * k, x, oy * p.stride_h - p.pad_h, ox * p.stride_w - p.pad_w, &p);
                if (++ox < p.out_w) continue;
                ox = 0;
                if (++oy < p.out_h) continue;
                oy = 0;
                x += p.in_h * p.in_w * p.in_c;
            }
        tw_panel_f32(panel, rows, k, w, bias, y + first * p.out_c, p.out_c, p.act_min, p.act_max);
    }
}

/* float32 activations, int8 weights, quantised as they come, one scale an image. in: x float, w packed (wide.h), w_sum
 * int32 [out_c], w_scale float [out_c], bias float [out_c]. out: y float. scratch: int8 image [in_h, in_w, in_c] rounded
 * up to 16, uint8 [8, k4], int32 [8, out_c padded to 16]. symmetric: the weights have one scale for all, the
 * image's zero point is 0. Source: LiteRT's HybridConvPerChannel; symmetric, its EvalHybrid. */
typedef struct {
    int32_t batches, in_h, in_w, in_c, out_h, out_w, out_c, k_h, k_w;
    int32_t stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w, k4, symmetric;
    float act_min, act_max;
} tw_conv2d_hybrid_params;

/* The geometry of an image already quantised with the given zero point. */
TW_INLINE tw_conv2d_wide_s8_params tw_conv2d_hybrid_window(const tw_conv2d_hybrid_params *p, int32_t zero) {
    const tw_conv2d_wide_s8_params w = {1,
                                        p->in_h,
                                        p->in_w,
                                        p->in_c,
                                        p->out_h,
                                        p->out_w,
                                        p->out_c,
                                        p->k_h,
                                        p->k_w,
                                        p->stride_h,
                                        p->stride_w,
                                        p->dilation_h,
                                        p->dilation_w,
                                        p->pad_h,
                                        p->pad_w,
                                        p->k4,
                                        TW_TILE_ROWS,
                                        0,
                                        zero,
                                        0,
                                        0,
                                        0};
    return w;
}

TW_KERNEL(tw_conv2d_hybrid) {
    const tw_conv2d_hybrid_params p = *params;
    const float *x = (const float *)in[0];
    const int32_t *TW_RESTRICT w_sum = (const int32_t *)in[2];
    const float *TW_RESTRICT w_scale = (const float *)in[3];
    const float *TW_RESTRICT bias = (const float *)in[4];
    float *TW_RESTRICT y = (float *)out[0];
    const int32_t image = p.in_h * p.in_w * p.in_c, pixels = p.out_h * p.out_w;
    const int32_t padded = (p.out_c + TW_LANES - 1) / TW_LANES * TW_LANES;
    int8_t *quantized = (int8_t *)scratch;
    uint8_t *panel = (uint8_t *)scratch + (image + 15) / 16 * 16;
    int32_t *sums = (int32_t *)(void *)(panel + TW_TILE_ROWS * p.k4);
    for (int32_t b = 0; b < p.batches; ++b, x += image) {
        const tw_hybrid_quant q = tw_hybrid_quantize(quantized, x, image, p.symmetric);
        const tw_conv2d_wide_s8_params window = tw_conv2d_hybrid_window(&p, q.zero);
        for (int32_t first = 0; first < pixels; first += TW_TILE_ROWS) {
            const int32_t rows = tw_min(pixels - first, TW_TILE_ROWS);
            for (int32_t r = 0; r < rows; ++r)
                tw_conv2d_window_s8(panel + r * p.k4, quantized, (first + r) / p.out_w * p.stride_h - p.pad_h,
                                    (first + r) % p.out_w * p.stride_w - p.pad_w, &window);
            tw_hybrid_sums(panel, TW_TILE_ROWS, p.k4, (const int8_t *)in[1], sums, p.out_c);
            for (int32_t r = 0; r < rows; ++r, y += p.out_c)
                for (int32_t c = 0; c < p.out_c; ++c) {
                    const int32_t sum = sums[r * padded + c] - (128 + q.zero) * w_sum[c];
                    const float real =
                        p.symmetric ? (float)sum * (q.scale * w_scale[c]) : (float)sum * w_scale[c] * q.scale;
                    y[c] = tw_clampf(real + bias[c], p.act_min, p.act_max);
                }
        }
    }
}

#endif
