/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of int16 cells on Helium: four units at a time, each lane as lstm_s8.h computes it. */
#ifndef TW_MVE_CELL_H
#define TW_MVE_CELL_H

#include "../../recurrent/lstm_s8.h"
#include "mve_tile_s16.h"

/* count int16, sign-extended; zeros in the other lanes. */
TW_INLINE tw_v4 tw_v4_load_s16(const int16_t *p, int32_t count) {
#if defined(TW_MVE)
    return count >= 4 ? vldrhq_s32(p) : vldrhq_z_s32(p, vctp32q((uint32_t)count));
#else
    tw_v4 v = tw_v4_all(0);
    for (int i = 0; i < tw_min(count, 4); ++i) v.lane[i] = p[i];
    return v;
#endif
}

TW_INLINE tw_v4 tw_v4_clamp(tw_v4 x, int32_t low, int32_t high) {
#if defined(TW_MVE)
    return vminq_s32(vmaxq_s32(x, vdupq_n_s32(low)), vdupq_n_s32(high));
#else
    for (int i = 0; i < 4; ++i) x.lane[i] = tw_clamp(x.lane[i], low, high);
    return x;
#endif
}

TW_INLINE tw_v4 tw_v4_clamp16(tw_v4 x) { return tw_v4_clamp(x, INT16_MIN, INT16_MAX); }

TW_INLINE tw_v4 tw_v4_times(tw_v4 a, tw_v4 b) {
#if defined(TW_MVE)
    return vmulq_s32(a, b);
#else
    for (int i = 0; i < 4; ++i) a.lane[i] = tw_times(a.lane[i], b.lane[i]);
    return a;
#endif
}

#if defined(TW_MVE)
/* tw_sigmoid_at of the magnitudes of x. */
TW_INLINE int32x4_t tw_v4_sigmoid_at(const uint16_t *table, int32x4_t x, int32_t bits, int32_t most) {
    const int32x4_t magnitude = vabsq_s32(x), place = vshlq_r_s32(magnitude, -bits);
    const uint32x4_t i = vminq_u32(vreinterpretq_u32_s32(place), vdupq_n_u32(254));
    const int32x4_t low = vreinterpretq_s32_u32(vldrhq_gather_shifted_offset_u32(table, i));
    const int32x4_t high = vreinterpretq_s32_u32(vldrhq_gather_shifted_offset_u32(table + 1, i));
    const int32x4_t part = vandq_s32(magnitude, vdupq_n_s32((1 << bits) - 1));
    const int32x4_t value = vaddq_s32(vshlq_r_s32(low, bits), vmulq_s32(part, vsubq_s32(high, low)));
    return vpselq_s32(vdupq_n_s32(most), value, vcmpgeq_n_s32(place, 255));
}
#endif

/* tw_sigmoid16 in every lane. */
TW_INLINE tw_v4 tw_v4_sigmoid16(tw_v4 x, const uint16_t *table) {
#if defined(TW_MVE)
    const int32x4_t at = vmulq_n_s32(x, 3), less = vshrq_n_s32(at, 31);
    const int32x4_t upper = veorq_s32(tw_v4_sigmoid_at(table, at, 9, 0x7FFF << 10), less); /* -1 - upper below 0 */
    return vshrq_n_s32(vaddq_n_s32(vaddq_s32(upper, vandq_s32(less, vdupq_n_s32(1 << 25))), 512), 10);
#else
    for (int i = 0; i < 4; ++i) x.lane[i] = tw_sigmoid16(x.lane[i], table);
    return x;
#endif
}

/* tw_tanh16 in every lane. */
TW_INLINE tw_v4 tw_v4_tanh16(tw_v4 x, int32_t left, const uint16_t *table) {
#if defined(TW_MVE)
    const int32x4_t at = vmulq_n_s32(x, 3 << left);
    const int32x4_t above = vsubq_s32(tw_v4_sigmoid_at(table, at, 8, 0xFFFF << 8), vdupq_n_s32(1 << 23));
    return vshrq_n_s32(vaddq_n_s32(veorq_s32(above, vshrq_n_s32(at, 31)), 128), 8);
#else
    for (int i = 0; i < 4; ++i) x.lane[i] = tw_tanh16(x.lane[i], left, table);
    return x;
#endif
}

/* The requantised product of int16 whose product is below 2^30; shift -31..-1. */
TW_INLINE tw_v4 tw_v4_product16(tw_v4 a, tw_v4 b, int32_t mult, int32_t shift) {
    return tw_v4_scaled(tw_v4_times(a, b), tw_v4_all(mult), tw_v4_all(shift));
}

#endif
