/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, on Helium: two pixels at a time, from the image itself or from two columns. */
#ifndef TW_CONV2D_MVE_H
#define TW_CONV2D_MVE_H

#include "../isa/mve/mve_tile.h"

/* int8. in: x [batches, in_h, in_w, in_c], then fours (mve_tile.h) of k = k_h * k_w * in_c in blocks; the input zero
 * point is folded into the biases, in_zero is what padding holds. out: y [batches, out_h, out_w, out_c]. scratch: int8
 * [2, 16 * blocks]. No dilation along rows. direct: the windows are the input's pixels, one after another (1x1, stride
 * 1, no padding), and in_c >= 8, so that 16 * blocks <= 2 * in_c: what lies behind all pixels but the last two. */
typedef struct {
    int32_t batches, in_h, in_w, in_c, out_h, out_w, out_c, k_h, k_w;
    int32_t stride_h, stride_w, dilation_h, pad_h, pad_w, blocks, direct;
    int32_t in_zero, out_zero, act_min, act_max;
} tw_conv2d_mve_s8_params;

/* The window of image x at (y0, x0) as a column: in_zero where it leaves the image, then what lies inside. */
TW_INLINE void tw_conv2d_mve_window(int8_t *to, const int8_t *x, int32_t y0, int32_t x0,
                                    const tw_conv2d_mve_s8_params *p) {
    const int32_t dilation = p->dilation_h, low = p->in_h - (p->k_h - 1) * dilation;
    int32_t top = 0, rows = p->k_h, left = 0, taps = p->k_w;
    if (y0 < 0 || x0 < 0 || y0 >= low || x0 + p->k_w > p->in_w) {
        tw_mve_fill(to, p->in_zero, p->k_h * p->k_w * p->in_c);
        top = (tw_max(-y0, 0) + dilation - 1) / dilation;
        rows = tw_min((p->in_h - y0 + dilation - 1) / dilation, p->k_h) - top;
        left = tw_max(-x0, 0);
        taps = tw_min(p->in_w - x0, p->k_w) - left;
        if (rows <= 0 || taps <= 0) return;
    }
    tw_mve_rows(to + (top * p->k_w + left) * p->in_c, p->k_w * p->in_c,
                x + ((y0 + top * dilation) * p->in_w + x0 + left) * p->in_c, dilation * p->in_w * p->in_c, rows,
                taps * p->in_c);
}

/* Where the next windows lie: the image, from what pixel on not in place, and the output's pixel. */
typedef struct {
    const int8_t *x, *in_place;
    int32_t oy, ox;
} tw_conv2d_mve_next;

TW_INLINE tw_conv2d_mve_next tw_conv2d_mve_first(const void *x, const tw_conv2d_mve_s8_params *p) {
    const int32_t pixels = p->batches * p->out_h * p->out_w;
    const int8_t *const first = (const int8_t *)x;
    const tw_conv2d_mve_next next = {first, p->direct ? first + tw_max(pixels - 2, 0) * p->in_c : first, 0, 0};
    return next;
}

/* The next two windows, or one twice: in the image itself, or in columns. */
TW_INLINE void tw_conv2d_mve_windows(const int8_t **first, const int8_t **second, int8_t *columns, int32_t both,
                                     tw_conv2d_mve_next *next, const tw_conv2d_mve_s8_params *p) {
    const int32_t size = TW_MVE_BLOCK * p->blocks;
    *first = columns, *second = columns + both * size;
    if (p->direct && next->x < next->in_place) {
        *first = next->x, *second = next->x + p->in_c;
        next->x += 2 * p->in_c;
    } else if (p->direct) {
        tw_mve_rows(columns, size, next->x, p->in_c, both + 1, p->in_c);
    } else {
#pragma GCC unroll 1
        for (int8_t *to = columns; to <= *second; to += size) {
            const int32_t y0 = next->oy * p->stride_h - p->pad_h, x0 = next->ox * p->stride_w - p->pad_w;
            tw_conv2d_mve_window(to, next->x, y0, x0, p);
            if (++next->ox < p->out_w) continue;
            next->ox = 0;
            if (++next->oy < p->out_h) continue;
            next->oy = 0;
            next->x += p->in_h * p->in_w * p->in_c;
        }
    }
}

TW_KERNEL(tw_conv2d_mve_s8) {
    const tw_conv2d_mve_s8_params p = *params;
    int8_t *y = (int8_t *)out[0], *columns = (int8_t *)scratch;
    tw_conv2d_mve_next next = tw_conv2d_mve_first(in[0], &p);
    tw_mve_pair pair = {columns, columns, y, y, p.blocks, p.out_zero, 0};
    for (int32_t left = p.batches * p.out_h * p.out_w; left > 0; left -= 2, y += 2 * p.out_c) {
        const int32_t both = left > 1;
        tw_conv2d_mve_windows(&pair.x0, &pair.x1, columns, both, &next, &p);
        pair.y0 = y, pair.y1 = y + both * p.out_c;
        pair.out = p.out_c;
        tw_mve_run_pair(&pair, (const int32_t *)in[1], p.act_min, p.act_max);
    }
}

#endif
