/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, and FULLY_CONNECTED, whose batches are pixels of a row, on the DSP extension: blocks of four weights
 * that are zero are skipped. */
#ifndef TW_CONV2D_SPARSE_DSP_H
#define TW_CONV2D_SPARSE_DSP_H

#include "conv2d_dsp.h"
#include "../isa/dsp/dsp_sparse.h"

/* int8. in: x, then weights and ends (dsp_sparse.h) for k = k_h * k_w * in_c, the input zero point folded into what sums
 * begin with; padding holds in_zero. pixels: of a panel, 4 or, of layers with one pixel, 1; k4: k rounded up to 4. out:
 * y. scratch: the panel, 2 * pixels * k4 bytes, then int8 [k4] where windows are gathered. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t k4, in_zero, pixels;
} tw_conv2d_sparse_dsp_s8_params;

TW_KERNEL(tw_conv2d_sparse_dsp_s8) {
    const tw_conv2d_sparse_dsp_s8_params p = *params;
    const int32_t out_c = p.window.out_c;
    const uint32_t *w = (const uint32_t *)in[1];
    uint32_t *panel = (uint32_t *)scratch;
    int8_t *column = (int8_t *)scratch + 2 * p.pixels * p.k4;
    const tw_conv2d_dsp_gather g = {{&p.window, p.window.in_c, p.in_zero, 0}, column, p.k4, 0, p.pixels};
    int8_t *y = (int8_t *)out[0];
    tw_pixel at = tw_pixel_first(in[0], 1, &p.window);
    for (int32_t left = tw_window_count(&p.window); left > 0; left -= p.pixels) {
        const int32_t rows = tw_min(left, p.pixels);
        for (int32_t r = 0; r < rows; ++r, tw_pixel_next(&at, &p.window)) tw_conv2d_dsp_window(panel + r, &at, &g);
        if (p.pixels == 1)
            tw_sparse_panel(panel, y, 1, 1, w, (const int32_t *)in[2], out_c, p.end.zero);
        else
            tw_sparse_panel(panel, y, rows, TW_SPARSE_PIXELS, w, (const int32_t *)in[2], out_c, p.end.zero);
        tw_dsp_activation(y, rows * out_c, p.end.low, p.end.high);
        y += rows * out_c;
    }
}

#endif
