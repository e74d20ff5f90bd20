/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, and FULLY_CONNECTED, whose batches are pixels of a row, on Helium: blocks of 4 x 4 weights that are zero
 * are skipped. */
#ifndef TW_CONV2D_SPARSE_MVE_H
#define TW_CONV2D_SPARSE_MVE_H

#include "conv2d_mve.h"
#include "../isa/mve/mve_sparse.h"

/* int8. in: x, then fours (mve_sparse.h) of k = k_h * k_w * in_c; the input zero point is folded into the biases; padding
 * holds in_zero. size: k rounded up to 16. out: y. scratch: int8 [2, size], or [size] if there is one window. No dilation
 * along rows. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t size, in_zero;
} tw_conv2d_sparse_mve_s8_params;

TW_KERNEL(tw_conv2d_sparse_mve_s8) {
    const tw_conv2d_sparse_mve_s8_params p = *params;
    const tw_gather g = {&p.window, p.window.in_c, p.in_zero, 0};
    const int32_t out_c = p.window.out_c;
    const int32_t *fours = (const int32_t *)in[1];
    int8_t *y = (int8_t *)out[0];
    tw_conv2d_mve_next next = tw_conv2d_mve_first(in[0], scratch, p.size, 0, &g);
    tw_mve_pair pair = {next.columns, next.columns, y, y, 0, p.end.zero, 0};
    int32_t left = tw_window_count(&p.window);
    for (; left > 1; left -= 2, y += 2 * out_c) {
        tw_conv2d_mve_windows(&pair.x0, &pair.x1, 1, &next);
        pair.y0 = y, pair.y1 = y + out_c;
        pair.out = out_c;
        tw_mve_run_sparse(&pair, fours, p.end.low, p.end.high);
    }
    if (left > 0) {
        tw_conv2d_mve_windows(&pair.x0, &pair.x1, 0, &next);
        tw_mve_sparse_one(pair.x0, fours, y, out_c, &p.end);
    }
}

#endif
