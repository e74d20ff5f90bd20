/* SPDX-License-Identifier: Apache-2.0 */
/* L2_POOL_2D: the root of the mean of the squares in a window. */
#ifndef TW_L2_POOL_2D_H
#define TW_L2_POOL_2D_H

#include <math.h>

#include "pool_2d.h"

/* in: x. out: y, as those of pool_2d.h. */
typedef tw_pool_2d_f32_params tw_l2_pool_2d_f32_params;

/* One channel of a window, summed in the order of its elements. */
TW_INLINE float tw_l2_of_window(const tw_pool_window *w, const float *x) {
    float sum = 0.0f;
    for (int32_t r = 0; r < w->rows; ++r, x += w->row)
        for (int32_t k = 0; k < w->cols; ++k) sum += x[k * w->col] * x[k * w->col];
    return sqrtf(sum / (float)(w->rows * w->cols));
}

TW_KERNEL(tw_l2_pool_2d_f32) {
    const tw_pool_2d_f32_params p = *params;
    float *y = (float *)out[0];
    tw_pixel at = tw_pixel_first(in[0], sizeof *y, &p.window);
    TW_EACH_PIXEL(at, &p.window) {
        const tw_pool_window w = tw_pool_cut(&at, &p.window);
        for (int32_t c = 0; c < p.window.in_c; ++c)
            *y++ = tw_clampf(tw_l2_of_window(&w, (const float *)w.x + c), p.limits.low, p.limits.high);
    }
}

#endif
