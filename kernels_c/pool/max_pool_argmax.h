/* SPDX-License-Identifier: Apache-2.0 */
/* MaxPoolingWithArgmax2D: the largest value of each window, and which of the window's elements it is. */
#ifndef TW_MAX_POOL_ARGMAX_H
#define TW_MAX_POOL_ARGMAX_H

#include "pool_2d.h"

/* in: x. out: y, and as floats the numbers of the largest elements in their windows, row by row, plus 0.1. */
typedef tw_pool_2d_f32_params tw_max_pool_argmax_f32_params;

TW_KERNEL(tw_max_pool_argmax_f32) {
    const tw_pool_2d_f32_params p = *params;
    float *y = (float *)out[0], *numbers = (float *)out[1];
    tw_pixel at = tw_pixel_first(in[0], sizeof *y, &p.window);
    TW_EACH_PIXEL(at, &p.window) {
        const tw_pool_window w = tw_pool_cut(&at, &p.window);
        const int32_t top = tw_max(-at.y, 0), left = tw_max(-at.x, 0);
        for (int32_t c = 0; c < p.window.in_c; ++c) {
            float most = -FLT_MAX;
            int32_t number = 0;
            for (int32_t r = 0; r < w.rows; ++r)
                for (int32_t k = 0; k < w.cols; ++k) {
                    const float value = ((const float *)w.x)[r * w.row + k * w.col + c];
                    if (value > most) {
                        most = value;
                        number = (top + r) * p.window.k_w + left + k;
                    }
                }
            *y++ = tw_clampf(most, p.limits.low, p.limits.high);
            *numbers++ = (float)number + 0.1F;
        }
    }
}

#endif
