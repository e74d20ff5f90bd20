/* CONV_2D, NHWC, on Helium: two pixels at a time, from the image itself or from columns of two, never an image of them. */
#ifndef TW_CONV2D_MVE_H
#define TW_CONV2D_MVE_H

#include "mve_tile.h"

/* int8. in: x [batches, in_h, in_w, in_c], then fours (mve_tile.h) of k = k_h * k_w * in_c in blocks; the input zero
 * point is folded into the biases, in_zero is what padding holds. out: y [batches, out_h, out_w, out_c]. scratch: int8
 * [2, 16 * blocks]. run: taps that lie side by side in the image, k_w or (dilated) 1. direct: the windows are the
 * input's pixels, one after another (1x1, stride 1, no padding, in_c >= 8). */
typedef struct {
    int32_t batches, in_h, in_w, in_c, out_h, out_w, out_c, k_h, k_w;
    int32_t stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w, blocks, run, direct;
    int32_t in_zero, out_zero, act_min, act_max;
} tw_conv2d_mve_s8_params;

/* What of the window of image x at (y0, x0) lies inside, as a column. */
TW_INLINE void tw_conv2d_mve_inside(int8_t *to, const int8_t *x, int32_t y0, int32_t x0,
                                    const tw_conv2d_mve_s8_params *p) {
    const int32_t top = (tw_max(-y0, 0) + p->dilation_h - 1) / p->dilation_h;
    const int32_t rows = tw_min((p->in_h - y0 + p->dilation_h - 1) / p->dilation_h, p->k_h) - top;
    for (int32_t kx = 0; kx < p->k_w; kx += p->run, x0 += p->dilation_w) {
        const int32_t first = tw_max(-x0, 0), taps = tw_min(p->in_w - x0, p->run) - first;
        if (rows > 0 && taps > 0)
            tw_mve_rows(to + (top * p->k_w + kx + first) * p->in_c, p->k_w * p->in_c,
                        x + ((y0 + top * p->dilation_h) * p->in_w + x0 + first) * p->in_c,
                        p->dilation_h * p->in_w * p->in_c, rows, taps * p->in_c);
    }
}

/* The window as a column, in_zero where it leaves the image. */
TW_INLINE void tw_conv2d_mve_window(int8_t *to, const int8_t *x, int32_t y0, int32_t x0,
                                    const tw_conv2d_mve_s8_params *p) {
    const int32_t taps = p->k_w * p->in_c, pitch = p->in_w * p->in_c;
    const int32_t below = p->in_h - (p->k_h - 1) * p->dilation_h, right = p->in_w - (p->k_w - 1) * p->dilation_w;
    const int32_t whole = y0 >= 0 && x0 >= 0 && y0 < below && x0 < right;
    if (whole && p->run == p->k_w) {
        tw_mve_rows(to, taps, x + y0 * pitch + x0 * p->in_c, p->dilation_h * pitch, p->k_h, taps);
        return;
    }
    if (!whole) tw_mve_fill(to, p->in_zero, p->k_h * taps);
    tw_conv2d_mve_inside(to, x, y0, x0, p);
}

TW_KERNEL(tw_conv2d_mve_s8) {
    const tw_conv2d_mve_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0], *columns = (int8_t *)scratch;
    const int32_t size = TW_MVE_BLOCK * p.blocks;
    tw_mve_pair pair = {columns,   columns,  y, y, p.blocks, p.out_zero, p.out_c, (const int32_t *)in[1],
                        p.act_min, p.act_max};
    int32_t oy = 0, ox = 0;
    for (int32_t left = p.batches * p.out_h * p.out_w; left > 0; left -= 2, y += 2 * p.out_c) {
        const int32_t last = left == 1;
        pair.y0 = y, pair.y1 = last ? y : y + p.out_c;
        pair.x0 = columns, pair.x1 = last ? columns : columns + size;
        if (p.direct && left > 2) {
            pair.x0 = x, pair.x1 = x + p.in_c;
            x += 2 * p.in_c;
        } else if (p.direct) {
            tw_mve_rows(columns, size, x, p.in_c, 2 - last, p.in_c);
        } else {
#pragma GCC unroll 1
            for (int8_t *to = columns; to <= pair.x1; to += size) {
                tw_conv2d_mve_window(to, x, oy * p.stride_h - p.pad_h, ox * p.stride_w - p.pad_w, &p);
                if (++ox < p.out_w) continue;
                ox = 0;
                if (++oy < p.out_h) continue;
                oy = 0;
                x += p.in_h * p.in_w * p.in_c;
            }
        }
        tw_mve_run_pair(&pair);
    }
}

#endif
