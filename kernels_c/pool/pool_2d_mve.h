/* SPDX-License-Identifier: Apache-2.0 */
/* AVERAGE_POOL_2D and MAX_POOL_2D over Helium, int8, 16 channels at a time. */
#ifndef TW_POOL_2D_MVE_H
#define TW_POOL_2D_MVE_H

#include "../isa/mve/mve_pixels.h"
#include "pool_2d.h"

/* As the kernels of pool_2d.h, but averages are over at most 4087 values. */
typedef tw_pool_2d_params tw_average_pool_2d_mve_s8_params;
typedef tw_pool_2d_params tw_max_pool_2d_mve_s8_params;

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

/* y [lanes] = the average of an area at x. */
TW_INLINE void tw_average_block_mve_s8(const int8_t *x, int8_t *y, tw_area area, const tw_limits *limits,
                                       int32_t lanes) {
    const int32_t count = area.rows * area.cols;
    const uint32_t reciprocal = (1U << 31) / (uint32_t)count + 1;
    tw_sums16 s = tw_sums16_of(x, area, 0, lanes);
    for (int i = 0; i < 4; ++i) s.part[i] = tw_v4_average(s.part[i], count, reciprocal);
    tw_sums16_store(y, &s, limits->low, limits->high, lanes);
}

/* y [lanes] = the largest of an area at x. */
TW_INLINE void tw_max_block_mve_s8(const int8_t *x, int8_t *y, tw_area area, const tw_limits *limits, int32_t lanes) {
    tw_b16 most = tw_b16_most(x, area, limits->low, lanes);
    if (limits->high < INT8_MAX) most = tw_b16_clamp(most, INT8_MIN, limits->high);
    tw_b16_store(y, most, lanes);
}

/* All windows: their averages, or their largest values. */
TW_INLINE void tw_pool_2d_mve_s8(const tw_pool_2d_params *params, const void *const *in, void *const *out,
                                 int average) {
    const tw_pool_2d_params p = *params;
    int8_t *y = (int8_t *)out[0];
    tw_pixel at = tw_pixel_first(in[0], sizeof *y, &p.window);
    TW_EACH_PIXEL(at, &p.window) {
        const tw_pool_window w = tw_pool_cut(&at, &p.window);
        const tw_area seen = {w.rows, w.cols, w.row, w.col}, area = tw_area_flat(seen);
        TW_EACH_BLOCK16(c, lanes, p.window.in_c) {
            if (average)
                tw_average_block_mve_s8((const int8_t *)w.x + c, y + c, area, &p.limits, lanes);
            else
                tw_max_block_mve_s8((const int8_t *)w.x + c, y + c, area, &p.limits, lanes);
        }
        y += p.window.in_c;
    }
}

TW_KERNEL(tw_average_pool_2d_mve_s8) { tw_pool_2d_mve_s8(params, in, out, 1); }
TW_KERNEL(tw_max_pool_2d_mve_s8) { tw_pool_2d_mve_s8(params, in, out, 0); }

#endif
