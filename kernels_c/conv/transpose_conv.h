/* SPDX-License-Identifier: Apache-2.0 */
/* TRANSPOSE_CONV, NHWC with weights [out_c, k_h, k_w, in_c]: every output adds up what reaches it. */
#ifndef TW_TRANSPOSE_CONV_H
#define TW_TRANSPOSE_CONV_H

#include "../core/sums_s16.h"
#include "../core/window.h"

/* The window is that of the convolution from output to input, without dilation: input pixel (iy, ix) reaches output
 * (iy * stride_h - pad_h + ky, ix * stride_w - pad_w + kx) through tap (ky, kx). */
typedef struct {
    tw_window window;
    tw_limits_f32 limits;
} tw_transpose_conv_f32_params; /* in: x, w, bias [out_c]. out: y. */

/* in: x, w, bias int32 [out_c] (the zero point of x is not folded in), mult int32 and shift int8 [out_c]. out: y. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t in_zero;
} tw_transpose_conv_s8_params;

/* The same with weights that have a zero point, as those that were uint8 may. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t in_zero, w_zero;
} tw_transpose_conv_zero_s8_params;

/* int16 with int8 weights. in: x, w, bias int64 [out_c], mult int32 and shift int8 [out_c], for tw_channels_s16. out:
 * y. */
typedef struct {
    tw_window window;
    tw_limits limits;
    int32_t narrow;
} tw_transpose_conv_s16_params;

/* The body of all kernels here: for each output in order, sum over the taps that reach it. Taps run backwards, so that
 * the inputs come in rising order, as the reference adds them. step: what a product adds to sum; done: the output of
 * sum. */
#define TW_TRANSPOSE_CONV(type, w_type, acc_type, step, done)                                                          \
    for (int32_t at = 0; at < p.window.batches * p.window.out_h * p.window.out_w; ++at) {                              \
        const int32_t oy = at / p.window.out_w % p.window.out_h + p.window.pad_h,                                      \
                      ox = at % p.window.out_w + p.window.pad_w;                                                       \
        const type *image =                                                                                            \
            x + (ptrdiff_t)(at / (p.window.out_h * p.window.out_w)) * p.window.in_h * p.window.in_w * p.window.in_c;   \
        for (int32_t c = 0; c < p.window.out_c; ++c) {                                                                 \
            acc_type sum = 0;                                                                                          \
            for (int32_t ky = p.window.k_h - 1; ky >= 0; --ky) {                                                       \
                const int32_t iy = (oy - ky) / p.window.stride_h;                                                      \
                if (oy < ky || (oy - ky) % p.window.stride_h != 0 || iy >= p.window.in_h) continue;                    \
                for (int32_t kx = p.window.k_w - 1; kx >= 0; --kx) {                                                   \
                    const int32_t ix = (ox - kx) / p.window.stride_w;                                                  \
                    if (ox < kx || (ox - kx) % p.window.stride_w != 0 || ix >= p.window.in_w) continue;                \
                    const type *m = image + (ptrdiff_t)(iy * p.window.in_w + ix) * p.window.in_c;                      \
                    const w_type *n = w + (ptrdiff_t)((c * p.window.k_h + ky) * p.window.k_w + kx) * p.window.in_c;    \
                    for (int32_t i = 0; i < p.window.in_c; ++i) step;                                                  \
                }                                                                                                      \
            }                                                                                                          \
            *y++ = done;                                                                                               \
        }                                                                                                              \
    }

TW_KERNEL(tw_transpose_conv_f32) {
    const tw_transpose_conv_f32_params p = *params;
    const float *x = (const float *)in[0], *w = (const float *)in[1], *bias = (const float *)in[2];
    float *y = (float *)out[0];
    TW_TRANSPOSE_CONV(float, float, float, sum += m[i] * n[i], tw_clampf(sum + bias[c], p.limits.low, p.limits.high))
}

TW_KERNEL(tw_transpose_conv_s8) {
    const tw_transpose_conv_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0], *w = (const int8_t *)in[1];
    const tw_channels_s8 e = tw_channels_s8_of(in, 0, 0, &p.end);
    int8_t *y = (int8_t *)out[0];
    TW_TRANSPOSE_CONV(int8_t, int8_t, int32_t, sum = tw_add(sum, (m[i] - p.in_zero) * n[i]),
                      tw_epilogue_s8_of(tw_requantize(tw_add(sum, e.bias[c]), e.mult[c], e.shift[c]), &e.end))
}

TW_KERNEL(tw_transpose_conv_zero_s8) {
    const tw_transpose_conv_zero_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0], *w = (const int8_t *)in[1];
    const tw_channels_s8 e = tw_channels_s8_of(in, 0, 0, &p.end);
    int8_t *y = (int8_t *)out[0];
    TW_TRANSPOSE_CONV(int8_t, int8_t, int32_t, sum = tw_add(sum, (m[i] - p.in_zero) * (n[i] - p.w_zero)),
                      tw_epilogue_s8_of(tw_requantize(tw_add(sum, e.bias[c]), e.mult[c], e.shift[c]), &e.end))
}

TW_KERNEL(tw_transpose_conv_s16) {
    const tw_transpose_conv_s16_params p = *params;
    const int16_t *x = (const int16_t *)in[0];
    const int8_t *w = (const int8_t *)in[1];
    int16_t *y = (int16_t *)out[0];
    const tw_channels_s16 e = tw_channels_s16_of(in, p.narrow, &p.limits);
    TW_TRANSPOSE_CONV(int16_t, int8_t, int64_t, sum = tw_add64(sum, m[i] * n[i]),
                      tw_end_s16(tw_add64(sum, e.bias[c]), e.mult[c], e.shift[c], &e))
}

#endif
