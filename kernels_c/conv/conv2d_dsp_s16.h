/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, int16 activations and int8 weights on the DSP extension: columns of three pixels at a time. */
#ifndef TW_CONV2D_DSP_S16_H
#define TW_CONV2D_DSP_S16_H

#include "conv2d_dsp.h"
#include "../isa/dsp/dsp_tile_s16.h"

/* in: x [batches, in_h, in_w, in_c], then weights and ends (dsp_tile_s16.h) for k = k_h * k_w * in_c. out: y [batches,
 * out_h, out_w, out_c]. words: k / 2, rounded up to an even number; chunk: after how many sums are taken over. scratch:
 * the panel, 12 * words bytes, then a window, 4 * words bytes. */
typedef struct {
    int32_t batches, in_h, in_w, in_c, out_h, out_w, out_c, k_h, k_w;
    int32_t stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w, words;
    int32_t chunk, act_min, act_max;
} tw_conv2d_dsp_s16_params;

TW_KERNEL(tw_conv2d_dsp_s16) {
    const tw_conv2d_dsp_s16_params p = *params;
    const tw_conv2d_dsp_s8_params bytes = {
        p.batches,  p.in_h,       p.in_w,       2 * p.in_c, p.out_h, p.out_w,     p.out_c, p.k_h, p.k_w, p.stride_h,
        p.stride_w, p.dilation_h, p.dilation_w, p.pad_h,    p.pad_w, 4 * p.words, 0,       0,     0,     0};
    const tw_dsp_matrix_s16 m = {
        (const uint32_t *)in[1], (const int32_t *)in[2], p.words, p.chunk, p.out_c, p.act_min, p.act_max};
    const int8_t *x = (const int8_t *)in[0];
    int32_t oy = 0, ox = 0;
    int16_t *y = (int16_t *)out[0];
    uint32_t *panel = (uint32_t *)scratch;
    int8_t *column = (int8_t *)(panel + TW_DSP_PIXELS_S16 * p.words);
    for (int32_t left = p.batches * p.out_h * p.out_w; left > 0; left -= TW_DSP_PIXELS_S16) {
        const int32_t rows = tw_min(left, TW_DSP_PIXELS_S16);
        for (int32_t r = 0; r < rows; ++r) tw_conv2d_dsp_next(panel + r, column, &x, &oy, &ox, 1, &bytes);
        tw_dsp_panel_s16(panel, y, rows, &m);
        y += rows * p.out_c;
    }
}

#endif
