/* CONV_2D, NHWC, on the DSP extension: columns of three pixels at a time, never an image of them. */
#ifndef TW_CONV2D_DSP_H
#define TW_CONV2D_DSP_H

#include "dsp_tile.h"

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

/* count bytes, a multiple of 4, into one pixel of a panel. */
typedef uint32_t *tw_conv2d_dsp_fill(uint32_t *panel, const int8_t *from, int32_t count);

/* The window at (y0, x0) as one pixel of a panel. Rows of taps go there from where they lie, if that is in whole words
 * and inside the image, else by way of column. */
TW_INLINE void tw_conv2d_dsp_window(uint32_t *panel, int8_t *column, const int8_t *x, int32_t y0, int32_t x0,
                                    tw_conv2d_dsp_fill *fill, const tw_conv2d_dsp_s8_params *p) {
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
            panel = fill(panel, row && inside ? from + x0 * p->in_c : to, taps);
        else
            to += taps;
    }
    if (!words) fill(panel, column, p->k4);
}

/* Where the next window lies: the image, and the output's pixel. */
typedef struct {
    const int8_t *x;
    int32_t oy, ox;
} tw_conv2d_dsp_next;

/* The next rows windows as pixels of a panel. */
TW_INLINE void tw_conv2d_dsp_windows(uint32_t *panel, int8_t *column, tw_conv2d_dsp_next *next, int32_t rows,
                                     tw_conv2d_dsp_fill *fill, const tw_conv2d_dsp_s8_params *p) {
    for (int32_t r = 0; r < rows; ++r) {
        const int32_t y0 = next->oy * p->stride_h - p->pad_h, x0 = next->ox * p->stride_w - p->pad_w;
        tw_conv2d_dsp_window(panel + r, column, next->x, y0, x0, fill, p);
        if (++next->ox < p->out_w) continue;
        next->ox = 0;
        if (++next->oy < p->out_h) continue;
        next->oy = 0;
        next->x += p->in_h * p->in_w * p->in_c;
    }
}

TW_KERNEL(tw_conv2d_dsp_s8) {
    const tw_conv2d_dsp_s8_params p = *params;
    const tw_dsp_matrix m = {(const uint32_t *)in[1], (const int32_t *)in[2], p.k4 / 2, p.out_c, p.out_zero};
    tw_conv2d_dsp_next next = {(const int8_t *)in[0], 0, 0};
    int8_t *y = (int8_t *)out[0];
    uint32_t *panel = (uint32_t *)scratch;
    int8_t *column = (int8_t *)scratch + 2 * TW_DSP_PIXELS * p.k4;
    for (int32_t left = p.batches * p.out_h * p.out_w; left > 0; left -= TW_DSP_PIXELS) {
        const int32_t rows = tw_min(left, TW_DSP_PIXELS);
        tw_conv2d_dsp_windows(panel, column, &next, rows, tw_dsp_widen, &p);
        tw_dsp_panel(panel, y, rows, &m);
        tw_dsp_activation(y, rows * p.out_c, p.act_min, p.act_max);
        y += rows * p.out_c;
    }
}

#endif
