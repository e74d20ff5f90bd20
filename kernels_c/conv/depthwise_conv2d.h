/* SPDX-License-Identifier: Apache-2.0 */
/* DEPTHWISE_CONV_2D, NHWC, weights [k_h][k_w][out_c], out_c = in_c * multiplier. pad_h, pad_w: padding before the first. */
#ifndef TW_DEPTHWISE_CONV2D_H
#define TW_DEPTHWISE_CONV2D_H

#include "../core/hybrid.h"
#include "../core/sums.h"
#include "../core/sums_f32.h"

/* int8, plain C. in: x [batches, in_h, in_w, in_c], w, bias int32 [out_c] with the input zero point folded in (less
 * in_zero times the channel's sum of weights), mult int32 [out_c], shift int8 [out_c]. in_zero is what padding holds.
 * out: y [batches, out_h, out_w, out_c]. fast: tw_scaled is exact for all channels. scratch: int8 [k_h][columns][in_c or
 * TW_DEPTHWISE_CHANNELS, the lesser], columns: those that two windows side by side cover. */
typedef struct {
    int32_t batches, in_h, in_w, in_c, out_h, out_w, out_c, k_h, k_w;
    int32_t stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w, multiplier;
    int32_t in_zero, out_zero, act_min, act_max, fast;
} tw_depthwise_conv2d_s8_params;

/* Input channels whose padded windows are gathered at a time. */
#define TW_DEPTHWISE_CHANNELS 32

/* What two windows side by side see of some channels: bytes from one row of taps to the next, from column to column. */
typedef struct {
    const int8_t *x;
    int32_t row, column;
} tw_patch;

/* channels of the windows from (y0, x0) on: where they lie, or where they reach into the padding, gathered. */
TW_INLINE tw_patch tw_depthwise_conv2d_patch_s8(int8_t *to, const int8_t *x, int32_t y0, int32_t x0, int32_t channels,
                                                const tw_depthwise_conv2d_s8_params *p) {
    const int32_t columns = (p->k_w - 1) * p->dilation_w + 1 + p->stride_w;
    const tw_patch inside = {x + (y0 * p->in_w + x0) * p->in_c, p->dilation_h * p->in_w * p->in_c, p->in_c};
    const tw_patch gathered = {to, columns * channels, channels};
    if (y0 >= 0 && y0 + (p->k_h - 1) * p->dilation_h < p->in_h && x0 >= 0 && x0 + columns <= p->in_w) return inside;
    for (int32_t ky = 0; ky < p->k_h; ++ky, y0 += p->dilation_h)
        for (int32_t ix = x0; ix < x0 + columns; ++ix, to += channels) {
            if (y0 < 0 || y0 >= p->in_h || ix < 0 || ix >= p->in_w)
                memset(to, p->in_zero, (size_t)channels);
            else
                memcpy(to, x + (y0 * p->in_w + ix) * p->in_c, (size_t)channels);
        }
    return gathered;
}

/* One channel of two outputs; patch at the input's channel, w and y at the output's. */
TW_INLINE void tw_depthwise_conv2d_pair_s8(const tw_patch *patch, const int8_t *w, int8_t *y, int32_t c, int32_t pair,
                                           const tw_ends *e, const tw_depthwise_conv2d_s8_params *p) {
    int32_t left = e->bias[c], right = left;
    const int8_t *row = patch->x;
    for (int32_t ky = 0; ky < p->k_h; ++ky, row += patch->row)
        for (int32_t kx = 0; kx < p->k_w; ++kx) {
            const int32_t tap = w[(ky * p->k_w + kx) * p->out_c];
            left = tw_add(left, row[kx * p->dilation_w * patch->column] * tap);
            right = tw_add(right, row[(kx * p->dilation_w + p->stride_w) * patch->column] * tap);
        }
    y[c] = tw_end_s8(left, e->mult[c], e->shift[c], e);
    if (pair) y[p->out_c + c] = tw_end_s8(right, e->mult[c], e->shift[c], e);
}

/* All channels of one or two outputs, whose windows' corner is (y0, x0). */
TW_INLINE void tw_depthwise_conv2d_outputs_s8(const int8_t *x, const int8_t *w, int8_t *y, int8_t *scratch, int32_t y0,
                                              int32_t x0, int32_t pair, const tw_ends *e,
                                              const tw_depthwise_conv2d_s8_params *p) {
    int32_t c = 0;
    for (int32_t first = 0; first < p->in_c; first += TW_DEPTHWISE_CHANNELS) {
        const int32_t channels = tw_min(p->in_c - first, TW_DEPTHWISE_CHANNELS);
        tw_patch patch = tw_depthwise_conv2d_patch_s8(scratch, x + first, y0, x0, channels, p);
        for (int32_t i = 0; i < channels; ++i, ++patch.x)
            for (int32_t m = 0; m < p->multiplier; ++m, ++c)
                tw_depthwise_conv2d_pair_s8(&patch, w + c, y, c, pair, e, p);
    }
}

TW_KERNEL(tw_depthwise_conv2d_s8) {
    const tw_depthwise_conv2d_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0], *w = (const int8_t *)in[1];
    int8_t *y = (int8_t *)out[0];
    const tw_ends e = {(const int32_t *)in[2],
                       (const int32_t *)in[3],
                       (const int8_t *)in[4],
                       p.fast,
                       p.out_zero,
                       p.act_min,
                       p.act_max};
    for (int32_t b = 0; b < p.batches; ++b, x += p.in_h * p.in_w * p.in_c)
        for (int32_t oy = 0; oy < p.out_h; ++oy, y += p.out_w * p.out_c)
            for (int32_t ox = 0; ox < p.out_w; ox += 2)
                tw_depthwise_conv2d_outputs_s8(x, w, y + ox * p.out_c, (int8_t *)scratch, oy * p.stride_h - p.pad_h,
                                               ox * p.stride_w - p.pad_w, ox + 1 < p.out_w, &e, &p);
}

/* int8 over 16 channels at a time, multiplier 1. in: x, w int32 [k_h][k_w][padded] (int16 values, zeros above), bias
 * int32 [classes][padded] with the input zero point folded in for the taps inside the image, mult, left, right int32
 * [padded], rows int32 [out_h][3], columns int32 [out_w][3]: first tap inside, end of the taps inside, border class. The
 * bias of an output is that of class row_class * column_classes + column_class. padded: in_c rounded up to 16. out: y. */
typedef struct {
    int32_t batches, in_h, in_w, in_c, out_h, out_w, padded, k_h, k_w;
    int32_t stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w, column_classes;
    int32_t out_zero, act_min, act_max;
} tw_depthwise_conv2d_wide_s8_params;

/* pixels (1 or TW_DEPTHWISE_PIXELS) outputs side by side, 16 channels from c on. x: the image; base: the index of the
 * first window's corner (negative where padding begins there; only taps inside are read). row, column: as above. */
#define TW_DEPTHWISE_PIXELS 4

TW_INLINE void tw_depthwise_conv2d_lanes(tw_acc *TW_RESTRICT acc, int pixels, const int8_t *x, int32_t base,
                                         const int32_t *w, const int32_t *row, int32_t kx0, int32_t kx1, int32_t lanes,
                                         const tw_depthwise_conv2d_wide_s8_params *p) {
    for (int32_t ky = row[0]; ky < row[1]; ++ky)
        for (int32_t kx = kx0; kx < kx1; ++kx) {
            const int32_t at = base + (ky * p->dilation_h * p->in_w + kx * p->dilation_w) * p->in_c;
            const int32_t *tap = w + (ky * p->k_w + kx) * p->padded;
            for (int i = 0; i < pixels; ++i)
                acc[i] = tw_acc_mul(acc[i], x + (at + i * p->stride_w * p->in_c), tap, lanes);
        }
}

/* One row of outputs, 16 channels from c on. */
TW_INLINE void tw_depthwise_conv2d_row(const int8_t *x, int32_t base, const int32_t *w, const int32_t *bias,
                                       const int32_t *row, const int32_t *columns, int8_t *y, int32_t c,
                                       const tw_epilogue *e, const tw_depthwise_conv2d_wide_s8_params *p) {
    const int32_t lanes = tw_min(p->in_c - c, TW_LANES);
    for (int32_t ox = 0; ox < p->out_w;) {
        tw_acc acc[TW_DEPTHWISE_PIXELS];
        const int32_t *column = columns + 3 * ox, *last = column + 3 * (TW_DEPTHWISE_PIXELS - 1);
        const int32_t inside = ox + TW_DEPTHWISE_PIXELS <= p->out_w && column[0] == 0 && column[1] == p->k_w &&
                               last[0] == 0 && last[1] == p->k_w;
        const int32_t at = base + ox * p->stride_w * p->in_c, count = inside ? TW_DEPTHWISE_PIXELS : 1;
        const tw_acc start = tw_acc_load(bias + (row[2] * p->column_classes + column[2]) * p->padded + c);
        for (int i = 0; i < TW_DEPTHWISE_PIXELS; ++i) acc[i] = start;
        if (inside)
            tw_depthwise_conv2d_lanes(acc, TW_DEPTHWISE_PIXELS, x + c, at, w + c, row, 0, p->k_w, lanes, p);
        else
            tw_depthwise_conv2d_lanes(acc, 1, x + c, at, w + c, row, column[0], column[1], lanes, p);
        for (int32_t i = 0; i < count; ++i) {
            const tw_acc q = tw_acc_requantize(acc[i], e->mult + c, e->left + c, e->right + c);
            tw_acc_store(y + (ox + i) * p->in_c + c, q, e->zero, e->low, e->high, lanes);
        }
        ox += count;
    }
}

TW_KERNEL(tw_depthwise_conv2d_wide_s8) {
    const tw_depthwise_conv2d_wide_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    const int32_t *w = (const int32_t *)in[1];
    const int32_t *bias = (const int32_t *)in[2];
    const int32_t *rows = (const int32_t *)in[6];
    const int32_t *columns = (const int32_t *)in[7];
    int8_t *y = (int8_t *)out[0];
    const tw_epilogue e = {
        bias, (const int32_t *)in[3], (const int32_t *)in[4], (const int32_t *)in[5], p.out_zero, p.act_min, p.act_max};
    (void)scratch;
    for (int32_t b = 0; b < p.batches; ++b, x += p.in_h * p.in_w * p.in_c)
        for (int32_t oy = 0; oy < p.out_h; ++oy, y += p.out_w * p.in_c) {
            const int32_t base = ((oy * p.stride_h - p.pad_h) * p.in_w - p.pad_w) * p.in_c;
            for (int32_t c = 0; c < p.in_c; c += TW_LANES)
                tw_depthwise_conv2d_row(x, base, w, bias, rows + 3 * oy, columns, y, c, &e, &p);
        }
}

/* float32. in: x, w, bias [out_c]. out: y. The sum runs over the taps inside the image, in order, for every channel. */
typedef struct {
    int32_t batches, in_h, in_w, in_c, out_h, out_w, out_c, k_h, k_w;
    int32_t stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w, multiplier;
    float act_min, act_max;
} tw_depthwise_conv2d_f32_params;

#if defined(TW_VFP)
#define TW_DEPTHWISE_EIGHTS(channels) ((channels) >= 8)

/* All channels of one output, multiplier 1, by eights; (y0, x0): the window's corner. */
TW_INLINE void tw_depthwise_conv2d_eights_f32(const float *x, const float *w, const float *bias, float *y, int32_t y0,
                                              int32_t x0, const tw_depthwise_conv2d_f32_params *p) {
    const int32_t row = p->dilation_h * p->in_w * p->in_c, column = p->dilation_w * p->in_c;
    const int32_t top = tw_first_inside(y0, p->dilation_h, p->k_h), first = tw_first_inside(x0, p->dilation_w, p->k_w);
    const int32_t rows = tw_end_inside(y0, p->dilation_h, p->k_h, p->in_h) - top;
    const int32_t columns = tw_end_inside(x0, p->dilation_w, p->k_w, p->in_w) - first;
    const tw_taps taps = {
        rows, columns, column, row - columns * column, p->out_c, (p->k_w - columns) * p->out_c, p->act_min, p->act_max};
    x += (y0 * p->in_w + x0) * p->in_c + top * row + first * column;
    w += (top * p->k_w + first) * p->out_c;
    for (int32_t next = 0; next < p->out_c; next += TW_EIGHT) {
        const int32_t c = tw_min(next, p->out_c - TW_EIGHT); /* the last eight may repeat some */
        tw_eight_f32(y + c, x + c, w + c, bias + c, &taps);
    }
}
#else
#define TW_DEPTHWISE_EIGHTS(channels) ((channels) == 8 || (channels) == 16)

/* Eight float lanes (wide.h has sixteen). */
typedef float tw_f32x8 __attribute__((vector_size(32)));
typedef float tw_f32x8_any __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t tw_i32x8 __attribute__((vector_size(32)));

TW_INLINE void tw_clamp_f32x8(tw_f32x8 *x, float low, float high) {
    const tw_f32x8 zero = {0}, lows = zero + low, highs = zero + high;
    const tw_i32x8 below = *x < lows;
    const tw_i32x8 raised = (below & (tw_i32x8)lows) | (~below & (tw_i32x8)*x);
    const tw_i32x8 above = highs < (tw_f32x8)raised;
    *x = (tw_f32x8)((above & (tw_i32x8)highs) | (~above & raised));
}

/* Eight channels of one output, multiplier 1, the sums in a register; x, w, bias and y at the first of them. */
TW_INLINE void tw_depthwise_conv2d_eight_f32(const float *x, const float *w, const float *bias, float *y, int32_t y0,
                                             int32_t x0, const tw_depthwise_conv2d_f32_params *p) {
    tw_f32x8 acc;
    memset(&acc, 0, sizeof acc);
    for (int32_t ky = 0; ky < p->k_h; ++ky) {
        const int32_t iy = y0 + ky * p->dilation_h;
        if (iy < 0 || iy >= p->in_h) continue;
        for (int32_t kx = 0; kx < p->k_w; ++kx) {
            const int32_t ix = x0 + kx * p->dilation_w;
            if (ix < 0 || ix >= p->in_w) continue;
            acc += *(const tw_f32x8_any *)(const void *)(x + (iy * p->in_w + ix) * p->in_c) *
                   *(const tw_f32x8_any *)(const void *)(w + (ky * p->k_w + kx) * p->out_c);
        }
    }
    acc += *(const tw_f32x8_any *)(const void *)bias;
    tw_clamp_f32x8(&acc, p->act_min, p->act_max);
    memcpy(y, &acc, sizeof acc);
}

/* All channels of one output, multiplier 1, by eights; (y0, x0): the window's corner. */
TW_INLINE void tw_depthwise_conv2d_eights_f32(const float *x, const float *w, const float *bias, float *y, int32_t y0,
                                              int32_t x0, const tw_depthwise_conv2d_f32_params *p) {
    for (int32_t c = 0; c < p->out_c; c += 8) tw_depthwise_conv2d_eight_f32(x + c, w + c, bias + c, y + c, y0, x0, p);
}
#endif

/* All channels of one output: y collects the sums. x: the image, (y0, x0) the window's corner. */
TW_INLINE void tw_depthwise_conv2d_pixel_f32(const float *TW_RESTRICT x, const float *TW_RESTRICT w,
                                             float *TW_RESTRICT y, int32_t y0, int32_t x0,
                                             const tw_depthwise_conv2d_f32_params *p) {
    for (int32_t c = 0; c < p->out_c; ++c) y[c] = 0.0F;
    for (int32_t ky = 0; ky < p->k_h; ++ky) {
        const int32_t iy = y0 + ky * p->dilation_h;
        if (iy < 0 || iy >= p->in_h) continue;
        for (int32_t kx = 0; kx < p->k_w; ++kx) {
            const int32_t ix = x0 + kx * p->dilation_w;
            if (ix < 0 || ix >= p->in_w) continue;
            const float *TW_RESTRICT from = x + (iy * p->in_w + ix) * p->in_c;
            const float *TW_RESTRICT tap = w + (ky * p->k_w + kx) * p->out_c;
            if (p->multiplier == 1)
                for (int32_t c = 0; c < p->out_c; ++c) y[c] += from[c] * tap[c];
            else
                for (int32_t c = 0; c < p->in_c; ++c)
                    for (int32_t m = 0; m < p->multiplier; ++m)
                        y[c * p->multiplier + m] += from[c] * tap[c * p->multiplier + m];
        }
    }
}

TW_KERNEL(tw_depthwise_conv2d_f32) {
    const tw_depthwise_conv2d_f32_params p = *params;
    const float *TW_RESTRICT x = (const float *)in[0];
    const float *TW_RESTRICT w = (const float *)in[1];
    const float *TW_RESTRICT bias = (const float *)in[2];
    float *TW_RESTRICT y = (float *)out[0];
    (void)scratch;
    for (int32_t b = 0; b < p.batches; ++b, x += p.in_h * p.in_w * p.in_c)
        for (int32_t oy = 0; oy < p.out_h; ++oy)
            for (int32_t ox = 0; ox < p.out_w; ++ox, y += p.out_c) {
                const int32_t y0 = oy * p.stride_h - p.pad_h, x0 = ox * p.stride_w - p.pad_w;
                if (p.multiplier == 1 && TW_DEPTHWISE_EIGHTS(p.out_c)) {
                    tw_depthwise_conv2d_eights_f32(x, w, bias, y, y0, x0, &p);
                    continue;
                }
                tw_depthwise_conv2d_pixel_f32(x, w, y, y0, x0, &p);
                for (int32_t c = 0; c < p.out_c; ++c) y[c] = tw_clampf(y[c] + bias[c], p.act_min, p.act_max);
            }
}

/* float32 activations, int8 weights, quantised as they come, one scale an image. in: x float, w int8, w_scale float
 * [out_c], bias float [out_c]. out: y float. scratch: int8 image [in_h, in_w, in_c] rounded up to 16, int32 [out_c].
 * Source: LiteRT's DepthwiseConvHybridPerChannel. */
typedef tw_depthwise_conv2d_f32_params tw_depthwise_conv2d_hybrid_params;

TW_INLINE void tw_depthwise_conv2d_pixel_hybrid(const int8_t *TW_RESTRICT x, const int8_t *TW_RESTRICT w,
                                                int32_t *TW_RESTRICT sums, int32_t y0, int32_t x0, int32_t zero,
                                                const tw_depthwise_conv2d_hybrid_params *p) {
    for (int32_t c = 0; c < p->out_c; ++c) sums[c] = 0;
    for (int32_t ky = 0; ky < p->k_h; ++ky) {
        const int32_t iy = y0 + ky * p->dilation_h;
        if (iy < 0 || iy >= p->in_h) continue;
        for (int32_t kx = 0; kx < p->k_w; ++kx) {
            const int32_t ix = x0 + kx * p->dilation_w;
            if (ix < 0 || ix >= p->in_w) continue;
            const int8_t *TW_RESTRICT from = x + (iy * p->in_w + ix) * p->in_c;
            const int8_t *TW_RESTRICT tap = w + (ky * p->k_w + kx) * p->out_c;
            if (p->multiplier == 1)
                for (int32_t c = 0; c < p->out_c; ++c) sums[c] += (from[c] - zero) * tap[c];
            else
                for (int32_t c = 0; c < p->out_c; ++c) sums[c] += (from[c / p->multiplier] - zero) * tap[c];
        }
    }
}

TW_KERNEL(tw_depthwise_conv2d_hybrid) {
    const tw_depthwise_conv2d_hybrid_params p = *params;
    const float *x = (const float *)in[0];
    const int8_t *w = (const int8_t *)in[1];
    const float *TW_RESTRICT w_scale = (const float *)in[2];
    const float *TW_RESTRICT bias = (const float *)in[3];
    float *TW_RESTRICT y = (float *)out[0];
    const int32_t image = p.in_h * p.in_w * p.in_c;
    int8_t *quantized = (int8_t *)scratch;
    int32_t *TW_RESTRICT sums = (int32_t *)(void *)((int8_t *)scratch + (image + 15) / 16 * 16);
    for (int32_t b = 0; b < p.batches; ++b, x += image) {
        const tw_hybrid_quant q = tw_hybrid_quantize(quantized, x, image, 0);
        for (int32_t oy = 0; oy < p.out_h; ++oy)
            for (int32_t ox = 0; ox < p.out_w; ++ox, y += p.out_c) {
                tw_depthwise_conv2d_pixel_hybrid(quantized, w, sums, oy * p.stride_h - p.pad_h,
                                                 ox * p.stride_w - p.pad_w, q.zero, &p);
                for (int32_t c = 0; c < p.out_c; ++c)
                    y[c] = tw_clampf((float)sums[c] * w_scale[c] * q.scale + bias[c], p.act_min, p.act_max);
            }
    }
}

#endif
