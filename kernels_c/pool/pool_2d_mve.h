/* SPDX-License-Identifier: Apache-2.0 */
/* AVERAGE_POOL_2D over Helium, int8, four channels at a time. */
#ifndef TW_POOL_2D_MVE_H
#define TW_POOL_2D_MVE_H

#include "../isa/mve/mve.h"
#include "pool_2d.h"

/* Windows of at most 4087 values; the rest as in pool_2d.h. */
typedef tw_pool_2d_params tw_average_pool_2d_mve_s8_params;

/* sum / count rounded half away from zero in every lane, as tw_pool_average does. */
TW_INLINE tw_v4 tw_v4_average(tw_v4 sum, int32_t count, uint32_t reciprocal) {
#if defined(TW_MVE)
    const uint32x4_t n = vshlq_n_u32(vreinterpretq_u32_s32(vaddq_n_s32(vabsq_s32(sum), count / 2)), 1);
    const int32x4_t q = vreinterpretq_s32_u32(vmulhq_u32(n, vdupq_n_u32(reciprocal)));
    const int32x4_t sign = vshrq_n_s32(sum, 31);
    return vsubq_s32(veorq_s32(q, sign), sign);
#else
    for (int i = 0; i < 4; ++i) sum.lane[i] = tw_pool_average(sum.lane[i], count, reciprocal);
    return sum;
#endif
}

/* The sums of a window's values at x. */
TW_INLINE tw_v4 tw_v4_window_sum(const int8_t *x, const tw_pool_window *w, int32_t lanes) {
    tw_v4 sum = tw_v4_all(0);
    for (int32_t r = 0; r < w->rows; ++r, x += w->row) {
        const int8_t *tap = x;
        for (int32_t k = 0; k < w->cols; ++k, tap += w->col) sum = tw_v4_add(sum, tw_v4_load_s8(tap, lanes));
    }
    return sum;
}

TW_KERNEL(tw_average_pool_2d_mve_s8) {
    const tw_pool_2d_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    const tw_window *window = &p.window;
    const int32_t channels = window->in_c;
    tw_pixel at = tw_pixel_first(x, sizeof *x, window);
    (void)scratch;
    TW_EACH_PIXEL(at, window) {
        const tw_pool_window w = tw_pool_cut(&at, window);
        const int32_t count = w.rows * w.cols;
        const uint32_t reciprocal = (1U << 31) / (uint32_t)count + 1;
        for (int32_t c = 0; c < channels; c += 4) {
            const int32_t lanes = tw_min(channels - c, 4);
            const tw_v4 average =
                tw_v4_average(tw_v4_window_sum((const int8_t *)w.x + c, &w, lanes), count, reciprocal);
            tw_v4_store_s8(y + c, average, 0, p.limits.low, p.limits.high, lanes);
        }
        y += channels;
    }
}

#endif
