/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over 16 lanes in steps of eight bytes: USMMLA, of Arm's i8mm, multiplies those of two pixels by those of two
 * channels, twice as many as USDOT does. Weights are packed [out / 16][k / 8][16][8]. */
#ifndef TW_EIGHTS_H
#define TW_EIGHTS_H

#include "lanes.h"

#if defined(TW_WIDE_NEON) && defined(__ARM_FEATURE_MATMUL_INT8)
/* The biases of eight channels for two pixels: a vector has two channels of each. */
TW_INLINE tw_acc tw_eights_start(int32x4_t first, int32x4_t second) {
    const int64x2_t of[2] = {vreinterpretq_s64_s32(first), vreinterpretq_s64_s32(second)};
    const tw_acc start = {
        {vreinterpretq_s32_s64(vdupq_laneq_s64(of[0], 0)), vreinterpretq_s32_s64(vdupq_laneq_s64(of[0], 1)),
         vreinterpretq_s32_s64(vdupq_laneq_s64(of[1], 0)), vreinterpretq_s32_s64(vdupq_laneq_s64(of[1], 1))}};
    return start;
}

/* Their sums += eight bytes of two pixels . those of eight channels. */
TW_INLINE tw_acc tw_eights_add(tw_acc acc, uint8x16_t x, const int8_t *w) {
    const tw_acc sums = {{vusmmlaq_s32(acc.v[0], x, vld1q_s8(w)), vusmmlaq_s32(acc.v[1], x, vld1q_s8(w + 16)),
                          vusmmlaq_s32(acc.v[2], x, vld1q_s8(w + 32)), vusmmlaq_s32(acc.v[3], x, vld1q_s8(w + 48))}};
    return sums;
}

/* Two vectors of two pixels as one of each; upper: of the second pixel. */
TW_INLINE int32x4_t tw_eights_pixel(int32x4_t a, int32x4_t b, int upper) {
    return upper ? vcombine_s32(vget_high_s32(a), vget_high_s32(b)) : vcombine_s32(vget_low_s32(a), vget_low_s32(b));
}

/* sums[r * step] = start + the bytes at x[r] . a block of weights; pixels: a constant, even. */
TW_INLINE void tw_eights_block(tw_acc *sums, int step, const uint8_t *const *x, const int32_t *steps, int32_t count,
                               const tw_acc *start, const int8_t *w, int pixels) {
    tw_acc acc[TW_CONV_PIXELS / 2][2];
    for (int m = 0; m < pixels / 2; ++m) {
        acc[m][0] = tw_eights_start(start->v[0], start->v[1]);
        acc[m][1] = tw_eights_start(start->v[2], start->v[3]);
    }
    TW_ROLLED
    for (int32_t k = 0; k < count; k += 2, w += 8 * TW_LANES)
        for (int m = 0; m < pixels / 2; ++m) {
            const uint8x16_t both = vcombine_u8(vld1_u8(x[2 * m] + steps[k]), vld1_u8(x[2 * m + 1] + steps[k]));
            acc[m][0] = tw_eights_add(acc[m][0], both, w);
            acc[m][1] = tw_eights_add(acc[m][1], both, w + 4 * TW_LANES);
        }
    for (int r = 0; r < pixels; ++r)
        for (int j = 0; j < 4; ++j) {
            const int32x4_t *of = acc[r / 2][j / 2].v + j % 2 * 2;
            sums[r * step].v[j] = tw_eights_pixel(of[0], of[1], r % 2);
        }
}
#else
/* The same in plain C; pixels: any. */
TW_INLINE void tw_eights_block(tw_acc *sums, int step, const uint8_t *const *x, const int32_t *steps, int32_t count,
                               const tw_acc *start, const int8_t *w, int pixels) {
    for (int r = 0; r < pixels; ++r) {
        int32_t lanes[TW_LANES];
        memcpy(lanes, start, sizeof lanes);
        for (int32_t i = 0; i < 4 * TW_LANES * count; ++i) {
            const int32_t lane = i / 8 % TW_LANES, k = i / (8 * TW_LANES);
            lanes[lane] = tw_add(lanes[lane], x[r][steps[2 * k] + i % 8] * w[i]);
        }
        memcpy(&sums[r * step], lanes, sizeof lanes);
    }
}
#endif

/* sums [pixels][blocks] = start of each block + the bytes at x . its weights. count is even: of fours of bytes, whose
 * places behind x are in steps, as those of the eights are in every other one. */
TW_INLINE void tw_eights_sums(tw_acc *sums, const uint8_t *const *x, const int32_t *steps, int32_t count,
                              const tw_acc *start, const int8_t *w, int pixels, int blocks) {
    for (int b = 0; b < blocks; ++b)
        tw_eights_block(sums + b, blocks, x, steps, count, start + b, w + 4 * TW_LANES * b * count, pixels);
}

#endif
