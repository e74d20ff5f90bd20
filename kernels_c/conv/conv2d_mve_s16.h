/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, int16 activations and int8 weights on Helium: two pixels at a time. */
#ifndef TW_CONV2D_MVE_S16_H
#define TW_CONV2D_MVE_S16_H

#include "conv2d_mve.h"
#include "../isa/mve/mve_tile_s16.h"

/* in: x [batches, in_h, in_w, in_c], then fours of channels (mve_tile_s16.h) of k = k_h * k_w * in_c in blocks of 8.
 * chunk: activations after which sums are taken over. out: y [batches, out_h, out_w, out_c]. scratch: int16 [2, 8 *
 * blocks]. No dilation along rows. direct: as in conv2d_mve.h, with in_c >= 4. */
typedef struct {
    int32_t batches, in_h, in_w, in_c, out_h, out_w, out_c, k_h, k_w;
    int32_t stride_h, stride_w, dilation_h, pad_h, pad_w, blocks, direct;
    int32_t chunk, act_min, act_max;
} tw_conv2d_mve_s16_params;

TW_KERNEL(tw_conv2d_mve_s16) {
    const tw_conv2d_mve_s16_params p = *params;
    const tw_conv2d_mve_s8_params bytes = {
        p.batches,  p.in_h,       p.in_w,  2 * p.in_c, p.out_h,  p.out_w,  p.out_c, p.k_h, p.k_w, p.stride_h,
        p.stride_w, p.dilation_h, p.pad_h, p.pad_w,    p.blocks, p.direct, 0,       0,     0,     0};
    const int32_t n = TW_MVE_BLOCK_S16 * p.blocks;
    const tw_mve_matrix_s16 m = {n, p.blocks, p.chunk, p.out_c, p.act_min, p.act_max};
    const int32_t *fours = (const int32_t *)in[1];
    int16_t *y = (int16_t *)out[0];
    tw_conv2d_mve_next next = tw_conv2d_mve_first(in[0], &bytes);
    for (int32_t left = p.batches * p.out_h * p.out_w; left > 0; left -= 2, y += 2 * p.out_c) {
        const int32_t both = left > 1;
        const int8_t *first, *second;
        tw_conv2d_mve_windows(&first, &second, (int8_t *)scratch, both, &next, &bytes);
        const int16_t *x0 = (const int16_t *)(const void *)first, *x1 = (const int16_t *)(const void *)second;
        tw_mve_pair_s16 pair = {x0, x1, y, y + both * p.out_c, p.blocks, p.out_c};
        if (p.chunk >= n) {
            tw_mve_run_pair_s16(&pair, fours, p.act_min, p.act_max);
            continue;
        }
        tw_mve_row_s16(x0, fours, pair.y0, &m);
        tw_mve_row_s16(x1, fours, pair.y1, &m);
    }
}

#endif
