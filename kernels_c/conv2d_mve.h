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

/* The window of image x at (y0, x0) as a column. */
TW_INLINE void tw_conv2d_mve_window(int8_t *to, const int8_t *x, int32_t y0, int32_t x0,
                                    const tw_conv2d_mve_s8_params *p) {
    for (int32_t ky = 0; ky < p->k_h; ++ky) {
        const int32_t iy = y0 + ky * p->dilation_h, row = iy >= 0 && iy < p->in_h;
        for (int32_t kx = 0; kx < p->k_w; kx += p->run) {
            const int32_t ix = x0 + kx * p->dilation_w, before = tw_clamp(-ix, 0, p->run);
            const int32_t end = row ? tw_clamp(p->in_w - ix, before, p->run) : before;
            to = tw_mve_fill(to, p->in_zero, before * p->in_c);
            to = tw_mve_copy(to, x + (iy * p->in_w + ix + before) * p->in_c, (end - before) * p->in_c);
            to = tw_mve_fill(to, p->in_zero, (p->run - end) * p->in_c);
        }
    }
}

TW_KERNEL(tw_conv2d_mve_s8) {
    const tw_conv2d_mve_s8_params p = *params;
    const tw_mve_matrix m = {(const int32_t *)in[1], p.blocks, p.out_c, p.out_zero, p.act_min, p.act_max};
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    int8_t *columns = (int8_t *)scratch;
    const int32_t size = TW_MVE_BLOCK * p.blocks;
    int32_t oy = 0, ox = 0, left = p.batches * p.out_h * p.out_w;
    if (p.direct)
        for (; left > 2; left -= 2, x += 2 * p.in_c, y += 2 * p.out_c) tw_mve_pair(x, x + p.in_c, y, y + p.out_c, &m);
    for (; left > 0; left -= 2, y += 2 * p.out_c) {
        const int32_t last = left == 1;
        for (int32_t r = 0; r < 2 - last; ++r) {
            tw_conv2d_mve_window(columns + r * size, x, oy * p.stride_h - p.pad_h, ox * p.stride_w - p.pad_w, &p);
            if (++ox < p.out_w) continue;
            ox = 0;
            if (++oy < p.out_h) continue;
            oy = 0;
            x += p.in_h * p.in_w * p.in_c;
        }
        tw_mve_pair(columns, last ? columns : columns + size, y, last ? y : y + p.out_c, &m);
    }
}

#endif
