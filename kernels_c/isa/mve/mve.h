/* SPDX-License-Identifier: Apache-2.0 */
/* Helium, the vector extension of Armv8.1-M (Cortex-M55): four int32 lanes, one output channel or pixel each, or the
 * same in plain C where it is absent: kernels give the same bits everywhere.
 *
 * Sums wrap as two's complement does. count: how many of the lanes are used, 1..4; memory of the others is not
 * touched. */
#ifndef TW_MVE_H
#define TW_MVE_H

#include "../../core/epilogue.h"

/* Loops in assembly take every register. Debug builds do not have them; define TW_NO_ASM if a flag reserves a register,
 * such as -fno-omit-frame-pointer. */
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 1) && defined(__GNUC__) && defined(__OPTIMIZE__) &&             \
    !defined(TW_NO_ASM)
#define TW_MVE 1
#include <arm_mve.h>
typedef int32x4_t tw_v4;
/* The clobber for the predicate register in assembly; clang has no name for it. */
#if defined(__clang__)
#define TW_PREDICATE "cc"
#else
#define TW_PREDICATE "p0"
#endif
#else
typedef struct {
    int32_t lane[4];
} tw_v4;
#endif

/* The same value in every lane. */
TW_INLINE tw_v4 tw_v4_all(int32_t x) {
#if defined(TW_MVE)
    return vdupq_n_s32(x);
#else
    const tw_v4 v = {{x, x, x, x}};
    return v;
#endif
}

/* count int32; zeros in the other lanes. */
TW_INLINE tw_v4 tw_v4_load(const int32_t *p, int32_t count) {
#if defined(TW_MVE)
    return count >= 4 ? vldrwq_s32(p) : vldrwq_z_s32(p, vctp32q((uint32_t)count));
#else
    tw_v4 v = tw_v4_all(0);
    memcpy(v.lane, p, (size_t)tw_min(count, 4) * sizeof *p);
    return v;
#endif
}

TW_INLINE void tw_v4_store(int32_t *p, tw_v4 v) {
#if defined(TW_MVE)
    vstrwq_s32(p, v);
#else
    memcpy(p, v.lane, sizeof v.lane);
#endif
}

/* count int8, sign-extended; zeros in the other lanes. */
TW_INLINE tw_v4 tw_v4_load_s8(const int8_t *p, int32_t count) {
#if defined(TW_MVE)
    return count >= 4 ? vldrbq_s32(p) : vldrbq_z_s32(p, vctp32q((uint32_t)count));
#else
    tw_v4 v = tw_v4_all(0);
    for (int i = 0; i < tw_min(count, 4); ++i) v.lane[i] = p[i];
    return v;
#endif
}

TW_INLINE tw_v4 tw_v4_of(int32_t a, int32_t b, int32_t c, int32_t d) {
#if defined(TW_MVE)
    int32x4_t v = vuninitializedq_s32();
    v = vsetq_lane_s32(a, v, 0);
    v = vsetq_lane_s32(b, v, 1);
    v = vsetq_lane_s32(c, v, 2);
    return vsetq_lane_s32(d, v, 3);
#else
    const tw_v4 v = {{a, b, c, d}};
    return v;
#endif
}

TW_INLINE tw_v4 tw_v4_add(tw_v4 a, tw_v4 b) {
#if defined(TW_MVE)
    return vaddq_s32(a, b);
#else
    for (int i = 0; i < 4; ++i) a.lane[i] = tw_add(a.lane[i], b.lane[i]);
    return a;
#endif
}

/* tw_requantize in every lane; shift -31..30, as TFLite signs them: negative ones go right. */
TW_INLINE tw_v4 tw_v4_requantize(tw_v4 x, tw_v4 mult, tw_v4 shift) {
#if defined(TW_MVE)
    const int32x4_t zero = vdupq_n_s32(0), right = vminq_s32(shift, zero);
    const int32x4_t high = vqrdmulhq_s32(vshlq_s32(x, vmaxq_s32(shift, zero)), mult);
    return vrshlq_s32(vqaddq_s32(high, vshrq_n_s32(vandq_s32(high, right), 31)), right);
#else
    for (int i = 0; i < 4; ++i) x.lane[i] = tw_requantize(x.lane[i], mult.lane[i], shift.lane[i]);
    return x;
#endif
}

/* x + zero clamped to low..high, as count int8. */
TW_INLINE void tw_v4_store_s8(int8_t *y, tw_v4 x, int32_t zero, int32_t low, int32_t high, int32_t count) {
#if defined(TW_MVE)
    const int32x4_t moved = vaddq_n_s32(x, zero);
    const int32x4_t clamped = vminq_s32(vmaxq_s32(moved, vdupq_n_s32(low)), vdupq_n_s32(high));
    if (count >= 4)
        vstrbq_s32(y, clamped);
    else
        vstrbq_p_s32(y, clamped, vctp32q((uint32_t)count));
#else
    for (int i = 0; i < tw_min(count, 4); ++i) y[i] = (int8_t)tw_clamp(tw_add(x.lane[i], zero), low, high);
#endif
}

/* The same for |x| < 2^30 and shifts of -31..-1. VQDMLAH adds floor(2 * high * 1 / 2^32): -1 if high is negative. */
TW_INLINE tw_v4 tw_v4_scaled(tw_v4 x, tw_v4 mult, tw_v4 shift) {
#if defined(TW_MVE)
    const int32x4_t high = vqrdmulhq_s32(x, mult);
    return vrshlq_s32(vqdmlahq_n_s32(high, high, 1), shift);
#else
    return tw_v4_requantize(x, mult, shift);
#endif
}

/* tw_scaled_unsigned of each. */
TW_INLINE tw_v4 tw_v4_scaled_unsigned(tw_v4 x, const tw_unsigned_end *end) {
#if defined(TW_MVE)
    return vrshlq_s32(vmulhq_s32(x, vdupq_n_s32(end->mult)), vdupq_n_s32(-end->right));
#else
    for (int i = 0; i < 4; ++i) x.lane[i] = tw_scaled_unsigned(x.lane[i], end);
    return x;
#endif
}

#endif
