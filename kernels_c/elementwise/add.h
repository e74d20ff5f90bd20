/* SPDX-License-Identifier: Apache-2.0 */
/* ADD and SUB (the second operand with sign -1), with broadcasting and a fused clamp. All kernels here have in: a, b
 * (either may be planned in place if it has the output's shape). out: y [walk] = a + b_sign * b. */
#ifndef TW_ADD_H
#define TW_ADD_H

#include "../core/broadcast.h"
#include "../isa/dsp/dsp.h"

/* int8. Zero points -128..127; multipliers 2^30..2^31-1 or 0; right shifts 0..31; -128 <= low <= high <= 127. */
typedef struct {
    tw_walk walk;
    int32_t a_zero, a_mult, a_shift, b_zero, b_mult, b_shift, b_sign, out_zero, mult, shift, low, high;
} tw_add_s8_params;

/* One operand at the common scale, rounded as in TFLM: t * 2^20 * mult / 2^31, then a rounding right shift. t is the
 * value less its zero point, -255..255, so two 32-bit products (with 20 and 11 bits of mult) hold t * mult. */
TW_INLINE int32_t tw_add_scaled(int32_t t, int32_t mult, int32_t shift) {
    const int32_t high = t * (mult >> 11);
    const int32_t low = (t * (mult & 2047) + 1024) >> 11;
    return tw_round_shift_small(high + low, shift);
}

/* A sum at the common scale in steps of y. */
TW_INLINE int32_t tw_add_rescaled(int32_t sum, int32_t mult, int32_t shift) {
    return tw_round_shift_small(tw_mul_high(sum, mult), shift);
}

TW_INLINE int32_t tw_add_of_s8(const tw_add_s8_params *p, int32_t a, int32_t b) {
    const int32_t flip = p->b_sign < 0 ? -1 : 0; /* (x ^ flip) - flip is x or -x */
    const int32_t left = tw_add_scaled(a - p->a_zero, p->a_mult, p->a_shift);
    const int32_t right = tw_add_scaled(b - p->b_zero, p->b_mult, p->b_shift);
    return tw_clamp(tw_add_rescaled(left + (right ^ flip) - flip, p->mult, p->shift) + p->out_zero, p->low, p->high);
}

TW_PAIR(tw_add_s8, int8_t, int8_t, int8_t, tw_add_of_s8(p, a, b))
TW_KERNEL(tw_add_s8) { TW_ROWS_APART(tw_add_s8); }

/* int8 as a plane: y = (a * a_mult + b * b_mult + offset) >> shift, clamped to int8. Planning has proven over all pairs
 * of operands that every sum fits int32 (a part of it may wrap). shift 1..30. */
typedef struct {
    tw_walk walk;
    int32_t a_mult, b_mult, offset, shift;
} tw_add_plane_s8_params;

TW_INLINE int32_t tw_add_of_plane_s8(const tw_add_plane_s8_params *p, int32_t a, int32_t b) {
    const uint32_t left = (uint32_t)a * (uint32_t)p->a_mult + (uint32_t)p->offset;
    return tw_shift_clamp8((int32_t)((uint32_t)b * (uint32_t)p->b_mult + left), p->shift);
}

TW_PAIR(tw_add_plane_s8, int8_t, int8_t, int8_t, tw_add_of_plane_s8(p, a, b))
TW_KERNEL(tw_add_plane_s8) { TW_ROWS_APART(tw_add_plane_s8); }

/* int16 with zero points of 0; operands are shifted left by 15, then as int8. */
typedef struct {
    tw_walk walk;
    int32_t a_mult, a_shift, b_mult, b_shift, b_sign, mult, shift, low, high;
} tw_add_s16_params;

/* Each operand takes at most half of the common scale: below 2^29. */
TW_INLINE int32_t tw_add_of_s16(const tw_add_s16_params *p, int32_t a, int32_t b) {
    const int32_t left = tw_add_rescaled(a * (1 << 15), p->a_mult, p->a_shift);
    const int32_t right = tw_add_rescaled(b * (1 << 15), p->b_mult, p->b_shift);
    return tw_clamp(tw_add_rescaled(left + p->b_sign * right, p->mult, p->shift), p->low, p->high);
}

TW_PAIR(tw_add_s16, int16_t, int16_t, int16_t, tw_add_of_s16(p, a, b))
TW_KERNEL(tw_add_s16) { TW_ROWS_APART(tw_add_s16); }

typedef struct {
    tw_walk walk;
    float b_sign, low, high;
} tw_add_f32_params;

TW_PAIR(tw_add_f32, float, float, float, tw_clampf(a + p->b_sign * b, p->low, p->high))
TW_KERNEL(tw_add_f32) { TW_ROWS_APART(tw_add_f32); }

/* int32, int64 and int16 without scales, wrapping on overflow before the clamp (tw_clamp_wide says what int64's is). */
typedef struct {
    tw_walk walk;
    int32_t b_sign, low, high;
} tw_add_s32_params;
typedef tw_add_s32_params tw_add_s64_params;
typedef tw_add_s32_params tw_add_stored_s16_params;

TW_INLINE int64_t tw_add_of_s64(const tw_add_s64_params *p, int64_t a, int64_t b) {
    const uint64_t right = p->b_sign < 0 ? UINT64_C(0) - (uint64_t)b : (uint64_t)b;
    return tw_clamp_wide((int64_t)((uint64_t)a + right), p->low, p->high);
}

TW_PAIR(tw_add_s32, int32_t, int32_t, int32_t, tw_clamp(tw_add(a, tw_times(p->b_sign, b)), p->low, p->high))
TW_PAIR(tw_add_s64, int64_t, int64_t, int64_t, tw_add_of_s64(p, a, b))
TW_PAIR(tw_add_stored_s16, int16_t, int16_t, int16_t, tw_clamp((int16_t)(a + p->b_sign * b), p->low, p->high))
TW_KERNEL(tw_add_s32) { TW_ROWS_APART(tw_add_s32); }
TW_KERNEL(tw_add_s64) { TW_ROWS_APART(tw_add_s64); }
TW_KERNEL(tw_add_stored_s16) { TW_ROWS_APART(tw_add_stored_s16); }

#endif
