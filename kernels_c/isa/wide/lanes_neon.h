/* SPDX-License-Identifier: Apache-2.0 */
/* Sixteen int32 lanes in four vectors of NEON, on AArch64: with SDOT (dotprod), with USDOT (i8mm), or with neither; part of
 * lanes.h, which includes this file. */
#ifndef TW_LANES_NEON_H
#define TW_LANES_NEON_H

#include <arm_neon.h>

typedef struct {
    int32x4_t v[4];
} tw_acc;

/* The tile of a convolution: sixteen vectors of sums. Half of the registers are left for weights and pixels. */
#define TW_CONV_PIXELS 4
#define TW_CONV_BLOCKS 1

TW_INLINE tw_acc tw_acc_load(const int32_t *p) {
    const tw_acc acc = {{vld1q_s32(p), vld1q_s32(p + 4), vld1q_s32(p + 8), vld1q_s32(p + 12)}};
    return acc;
}

TW_INLINE tw_acc tw_acc_zero(void) {
    const int32x4_t zero = vdupq_n_s32(0);
    const tw_acc acc = {{zero, zero, zero, zero}};
    return acc;
}

TW_INLINE tw_acc tw_acc_plus(tw_acc a, tw_acc b) {
    const tw_acc acc = {
        {vaddq_s32(a.v[0], b.v[0]), vaddq_s32(a.v[1], b.v[1]), vaddq_s32(a.v[2], b.v[2]), vaddq_s32(a.v[3], b.v[3])}};
    return acc;
}

TW_INLINE tw_acc tw_acc_minus(tw_acc a, tw_acc b) {
    const tw_acc acc = {
        {vsubq_s32(a.v[0], b.v[0]), vsubq_s32(a.v[1], b.v[1]), vsubq_s32(a.v[2], b.v[2]), vsubq_s32(a.v[3], b.v[3])}};
    return acc;
}

TW_INLINE tw_acc tw_acc_left(tw_acc a, int n) {
    const int32x4_t by = vdupq_n_s32(n);
    const tw_acc acc = {{vshlq_s32(a.v[0], by), vshlq_s32(a.v[1], by), vshlq_s32(a.v[2], by), vshlq_s32(a.v[3], by)}};
    return acc;
}

/* a * by, which wraps, shifted to the right. */
TW_INLINE tw_acc tw_acc_times_right(tw_acc a, int32_t by, int n) {
    const int32x4_t right = vdupq_n_s32(-n);
    for (int j = 0; j < 4; ++j) a.v[j] = vshlq_s32(vmulq_n_s32(a.v[j], by), right);
    return a;
}

#if defined(__ARM_FEATURE_MATMUL_INT8)
typedef uint8x16_t tw_four;
#else
typedef int8x16_t tw_four;
#endif

/* Four bytes in all lanes. Without USDOT they become signed, which makes each 128 less; tw_acc_start makes up for it. */
TW_INLINE tw_four tw_four_load(const uint8_t *x) {
    uint32_t four;
    memcpy(&four, x, 4);
#if defined(__ARM_FEATURE_MATMUL_INT8)
    return vreinterpretq_u8_u32(vdupq_n_u32(four));
#else
    return vreinterpretq_s8_u32(vdupq_n_u32(four ^ 0x80808080U));
#endif
}

/* acc[lane] += sum over j < 4 of x[j] * w[lane][j], in four lanes. */
TW_INLINE int32x4_t tw_dot4(int32x4_t acc, tw_four x, const int8_t *w) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
    return vusdotq_s32(acc, x, vld1q_s8(w));
#elif defined(__ARM_FEATURE_DOTPROD)
    return vdotq_s32(acc, x, vld1q_s8(w));
#else
    const int8x16_t taps = vld1q_s8(w);
    const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(x), vget_low_s8(taps)));
    const int32x4_t high = vpaddlq_s16(vmull_high_s8(x, taps));
    return vaddq_s32(acc, vpaddq_s32(low, high));
#endif
}

/* The same in 16 lanes, of which the upper eight have x of their own. Written out: gcc keeps what loops index in memory. */
TW_INLINE tw_acc tw_dot4_of(tw_acc acc, tw_four x, tw_four upper, const int8_t *w) {
    const tw_acc sums = {{tw_dot4(acc.v[0], x, w), tw_dot4(acc.v[1], x, w + 16), tw_dot4(acc.v[2], upper, w + 32),
                          tw_dot4(acc.v[3], upper, w + 48)}};
    return sums;
}

#if !defined(__ARM_FEATURE_MATMUL_INT8)
#define TW_LESS_128 1
/* acc + 128 times the sums of k weights each. */
TW_INLINE tw_acc tw_acc_with_128(tw_acc acc, const int8_t *w, int32_t k) {
    const int8x16_t less = vdupq_n_s8(-128);
    tw_acc sums = tw_acc_zero();
    for (int32_t i = 0; i < k; i += 4) sums = tw_dot4_of(sums, less, less, w + TW_LANES * i);
    for (int j = 0; j < 4; ++j) acc.v[j] = vsubq_s32(acc.v[j], sums.v[j]);
    return acc;
}
#endif

TW_INLINE tw_acc tw_acc_dot4(tw_acc acc, const uint8_t *x, const int8_t *w) {
    const tw_four four = tw_four_load(x);
    return tw_dot4_of(acc, four, four, w);
}

TW_INLINE tw_acc tw_acc_dot4_pair(tw_acc acc, const uint8_t *x, int32_t behind, const int8_t *w) {
    return tw_dot4_of(acc, tw_four_load(x), tw_four_load(x + behind), w);
}

/* acc[lane] += sum over j < 2 of x[j] * w[lane][j], in four lanes, of int16. */
TW_INLINE int32x4_t tw_dot2(int32x4_t acc, const uint8_t *x, const int8_t *w) {
    int32_t two;
    memcpy(&two, x, 4);
    const int16x8_t both = vreinterpretq_s16_s32(vdupq_n_s32(two)), taps = vreinterpretq_s16_s8(vld1q_s8(w));
    const int32x4_t low = vmull_s16(vget_low_s16(both), vget_low_s16(taps));
    return vaddq_s32(acc, vpaddq_s32(low, vmull_high_s16(both, taps)));
}

TW_INLINE tw_acc tw_acc_dot2_pair(tw_acc acc, const uint8_t *x, int32_t behind, const int8_t *w) {
    const tw_acc sums = {{tw_dot2(acc.v[0], x, w), tw_dot2(acc.v[1], x, w + 16), tw_dot2(acc.v[2], x + behind, w + 32),
                          tw_dot2(acc.v[3], x + behind, w + 48)}};
    return sums;
}

TW_INLINE tw_acc tw_acc_dot2(tw_acc acc, const uint8_t *x, const int8_t *w) { return tw_acc_dot2_pair(acc, x, 0, w); }

/* The first count of 16 bytes, at least one, and others that mean nothing behind them; no more is read. Of two loads that
 * overlap, the second is shifted. */
TW_INLINE int8x16_t tw_bytes_load(const int8_t *x, int32_t count) {
    if (count >= 16) return vld1q_s8(x);
    if (count >= 8) {
        const uint64x1_t rest = vreinterpret_u64_s8(vld1_s8(x + count - 8));
        return vcombine_s8(vld1_s8(x), vreinterpret_s8_u64(vshl_u64(rest, vdup_n_s64(8 * (count - 16)))));
    }
    uint64_t bytes = (uint8_t)x[0];
    if (count >= 4) {
        uint32_t low, high;
        memcpy(&low, x, 4);
        memcpy(&high, x + count - 4, 4);
        bytes = low | (uint64_t)high << 8 * (count - 4);
    } else if (count >= 2) {
        bytes |= (uint64_t)(uint8_t)x[1] << 8 | (uint64_t)(uint8_t)x[count - 1] << 8 * (count - 1);
    }
    return vcombine_s8(vcreate_s8(bytes), vdup_n_s8(0));
}

/* Writes the first count of 16 bytes, at least one, and no more. */
TW_INLINE void tw_bytes_store(int8_t *y, int8x16_t bytes, int32_t count) {
    if (count >= 16) {
        vst1q_s8(y, bytes);
        return;
    }
    uint64_t low = vgetq_lane_u64(vreinterpretq_u64_s8(bytes), 0);
    if (count >= 8) {
        vst1_s8(y, vget_low_s8(bytes));
        if (count == 8) return;
        low = vgetq_lane_u64(vreinterpretq_u64_s8(bytes), 1);
        y += 8;
        count -= 8;
    }
    if (count >= 4) {
        const uint32_t first = (uint32_t)low, last = (uint32_t)(low >> 8 * (count - 4));
        memcpy(y, &first, 4);
        memcpy(y + count - 4, &last, 4);
        return;
    }
    for (int32_t i = 0; i < count; ++i) y[i] = (int8_t)(low >> 8 * i);
}

TW_INLINE tw_acc tw_acc_mul(tw_acc acc, const int8_t *x, const int32_t *w, int32_t count) {
    const int8x16_t bytes = tw_bytes_load(x, count);
    const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
    const int16x8_t first = vuzp1q_s16(vreinterpretq_s16_s32(vld1q_s32(w)), vreinterpretq_s16_s32(vld1q_s32(w + 4)));
    const int16x8_t other =
        vuzp1q_s16(vreinterpretq_s16_s32(vld1q_s32(w + 8)), vreinterpretq_s16_s32(vld1q_s32(w + 12)));
    acc.v[0] = vmlal_s16(acc.v[0], vget_low_s16(low), vget_low_s16(first));
    acc.v[1] = vmlal_high_s16(acc.v[1], low, first);
    acc.v[2] = vmlal_s16(acc.v[2], vget_low_s16(high), vget_low_s16(other));
    acc.v[3] = vmlal_high_s16(acc.v[3], high, other);
    return acc;
}

/* How the sums of 16 channels end. Shifts are to the left: left is at least 0, right at most. */
typedef struct {
    tw_acc mult, left, right;
    tw_epilogue_s8 end;
} tw_ends;

TW_INLINE tw_ends tw_ends_load(const tw_channels_s8 *channels, int32_t c) {
    const int8x16_t bytes = vld1q_s8(channels->shift + c);
    const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
    const int32x4_t shift[4] = {vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)),
                                vmovl_high_s16(high)};
    const int32x4_t zero = vdupq_n_s32(0);
    tw_ends ends;
    ends.mult = tw_acc_load(channels->mult + c);
    ends.end = channels->end;
    for (int j = 0; j < 4; ++j) {
        ends.left.v[j] = vmaxq_s32(shift[j], zero);
        ends.right.v[j] = vminq_s32(shift[j], zero);
    }
    return ends;
}

/* tw_requantize plus zero, as int16 and saturated. SQRDMULH is gemmlowp's multiplication. SRSHL rounds halves up, so
 * negative sums are made one less before they are shifted, if they are. */
TW_INLINE int16x4_t tw_requantize4(int32x4_t acc, const tw_ends *ends, int j) {
    const int32x4_t right = ends->right.v[j], high = vqrdmulhq_s32(vshlq_s32(acc, ends->left.v[j]), ends->mult.v[j]);
    const int32x4_t away = vsraq_n_s32(high, vandq_s32(high, right), 31);
    return vqmovn_s32(vaddq_s32(vrshlq_s32(away, right), vdupq_n_s32(ends->end.zero)));
}

/* The same where all shifts are to the right by 1 or more: sums are far from int32's ends. Where outputs end at zero,
 * negative sums need no care. */
TW_INLINE int16x4_t tw_requantize4_fast(int32x4_t acc, const tw_ends *ends, int ending, int j) {
    int32x4_t high = vqrdmulhq_s32(acc, ends->mult.v[j]);
    if (ending == TW_ENDS_FAST) high = vsraq_n_s32(high, high, 31);
    return vqadd_s16(vqmovn_s32(vrshlq_s32(high, ends->right.v[j])), vdup_n_s16((int16_t)ends->end.zero));
}

TW_INLINE void tw_acc_end(int8_t *y, tw_acc acc, const tw_ends *ends, int ending, int32_t count) {
    const int32_t low = ends->end.low, high = ends->end.high;
    int16x4_t of[4];
    for (int j = 0; j < 4; ++j)
        of[j] =
            ending == TW_ENDS_SLOW ? tw_requantize4(acc.v[j], ends, j) : tw_requantize4_fast(acc.v[j], ends, ending, j);
    int8x16_t bytes = vcombine_s8(vqmovn_s16(vcombine_s16(of[0], of[1])), vqmovn_s16(vcombine_s16(of[2], of[3])));
    if (low > -128) bytes = vmaxq_s8(bytes, vdupq_n_s8((int8_t)low));
    if (high < 127) bytes = vminq_s8(bytes, vdupq_n_s8((int8_t)high));
    tw_bytes_store(y, bytes, count);
}

/* As in lanes_vnni.h. */
TW_INLINE int16x4_t tw_scaled4(int32x4_t acc, int32x4_t mult) {
    const int64x2_t first = vmull_s32(vget_low_s32(acc), vget_low_s32(mult)), second = vmull_high_s32(acc, mult);
    return vqmovn_s32(vrshrn_high_n_s64(vrshrn_n_s64(first, 32), second, 32));
}

TW_INLINE void tw_acc_end_s16(int16_t *y, tw_acc acc, tw_acc mult, const tw_limits *limits, int32_t count) {
    const int16x8_t low = vdupq_n_s16((int16_t)limits->low), high = vdupq_n_s16((int16_t)limits->high);
    int16_t outputs[TW_LANES];
    for (int j = 0; j < 2; ++j) {
        const int16x4_t first = tw_scaled4(acc.v[2 * j], mult.v[2 * j]);
        const int16x8_t words = vcombine_s16(first, tw_scaled4(acc.v[2 * j + 1], mult.v[2 * j + 1]));
        vst1q_s16((count >= TW_LANES ? y : outputs) + 8 * j, vminq_s16(vmaxq_s16(words, low), high));
    }
    for (int32_t lane = 0; count < TW_LANES && lane < count; ++lane) y[lane] = outputs[lane];
}

#endif
