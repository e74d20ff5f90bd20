/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, on the DSP extension: columns of three pixels at a time, never an image of them. */
#ifndef TW_CONV2D_DSP_H
#define TW_CONV2D_DSP_H

#include "../isa/dsp/dsp_tile.h"

/* int8. in: x [batches, in_h, in_w, in_c], then weights and ends (dsp_tile.h) for k = k_h * k_w * in_c; the input
 * zero point is folded into the biases, in_zero is what padding holds. out: y [batches, out_h, out_w, out_c]. scratch:
 * the panel, 6 * k4 bytes, then int8 [k4]. */
typedef struct {
    int32_t batches, in_h, in_w, in_c, out_h, out_w, out_c, k_h, k_w;
    int32_t stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w, k4;
    int32_t in_zero, out_zero, act_min, act_max;
} tw_conv2d_dsp_s8_params;

/* One row of taps, whole or in part outside of the image row x; x0: the first tap's column. */
TW_INLINE void tw_conv2d_dsp_border(int8_t *TW_RESTRICT to, const int8_t *TW_RESTRICT x, int32_t x0, int32_t inside,
                                    const tw_conv2d_dsp_s8_params *p) {
    for (int32_t kx = 0; kx < p->k_w; ++kx, to += p->in_c) {
        const int32_t ix = x0 + kx * p->dilation_w;
        if (inside && ix >= 0 && ix < p->in_w)
            memcpy(to, x + ix * p->in_c, (size_t)p->in_c);
        else
            memset(to, p->in_zero, (size_t)p->in_c);
    }
}

/* count bytes of int16, a multiple of 4, into one pixel of a panel; returns where the next ones go. */
static TW_NOINLINE uint32_t *tw_dsp_gather(uint32_t *TW_RESTRICT to, const int8_t *TW_RESTRICT from, int32_t count) {
#pragma GCC unroll 4
    for (const int8_t *const end = from + count; from != end; from += 4, to += TW_DSP_PIXELS) *to = tw_word(from);
    return to;
}

/* The same for int8 or, wide, int16. */
TW_INLINE uint32_t *tw_conv2d_dsp_fill(uint32_t *to, const int8_t *from, int32_t count, int wide) {
    return wide ? tw_dsp_gather(to, from, count) : tw_dsp_widen(to, from, count);
}

/* The window at (y0, x0) as one pixel of a panel. Rows of taps go there from where they lie, if that is in whole words
 * and inside the image, else by way of column. */
TW_INLINE void tw_conv2d_dsp_window(uint32_t *panel, int8_t *column, const int8_t *x, int32_t y0, int32_t x0, int wide,
                                    const tw_conv2d_dsp_s8_params *p) {
    const int32_t taps = p->k_w * p->in_c, words = taps % 4 == 0;
    const int32_t inside = p->dilation_w == 1 && x0 >= 0 && x0 + p->k_w <= p->in_w;
    int8_t *to = column;
    for (int32_t ky = 0; ky < p->k_h; ++ky) {
        const int32_t iy = y0 + ky * p->dilation_h, row = iy >= 0 && iy < p->in_h;
        const int8_t *from = x + iy * p->in_w * p->in_c;
        if (!row || !inside)
            tw_conv2d_dsp_border(to, from, x0, row, p);
        else if (!words)
            memcpy(to, from + x0 * p->in_c, (size_t)taps);
        if (words)
            panel = tw_conv2d_dsp_fill(panel, row && inside ? from + x0 * p->in_c : to, taps, wide);
        else
            to += taps;
    }
    if (!words) tw_conv2d_dsp_fill(panel, column, p->k4, wide);
}

/* The same for the window at x, oy, ox, the image and the output's pixel, which move on to the next one. */
TW_INLINE void tw_conv2d_dsp_next(uint32_t *panel, int8_t *column, const int8_t **x, int32_t *oy, int32_t *ox, int wide,
                                  const tw_conv2d_dsp_s8_params *p) {
    tw_conv2d_dsp_window(panel, column, *x, *oy * p->stride_h - p->pad_h, *ox * p->stride_w - p->pad_w, wide, p);
    if (++*ox < p->out_w) return;
    *ox = 0;
    if (++*oy < p->out_h) return;
    *oy = 0;
    *x += p->in_h * p->in_w * p->in_c;
}

TW_KERNEL(tw_conv2d_dsp_s8) {
    const tw_conv2d_dsp_s8_params p = *params;
    const tw_dsp_matrix m = {(const uint32_t *)in[1], (const int32_t *)in[2], p.k4 / 2, p.out_c, p.out_zero};
    const int8_t *x = (const int8_t *)in[0];
    int32_t oy = 0, ox = 0;
    int8_t *y = (int8_t *)out[0];
    uint32_t *panel = (uint32_t *)scratch;
    int8_t *column = (int8_t *)scratch + 2 * TW_DSP_PIXELS * p.k4;
    for (int32_t left = p.batches * p.out_h * p.out_w; left > 0; left -= TW_DSP_PIXELS) {
        const int32_t rows = tw_min(left, TW_DSP_PIXELS);
        for (int32_t r = 0; r < rows; ++r) tw_conv2d_dsp_next(panel + r, column, &x, &oy, &ox, 0, &p);
        tw_dsp_panel(panel, y, rows, &m);
        tw_dsp_activation(y, rows * p.out_c, p.act_min, p.act_max);
        y += rows * p.out_c;
    }
}

#endif
