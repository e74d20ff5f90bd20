/* SPDX-License-Identifier: Apache-2.0 */
/* MUL, with broadcasting and a fused clamp. It is commutative: the operand with one value per row comes second, a_step
 * is 1. All kernels here have in: a, b (either may be planned in place if it has the output's shape). out: y [walk]. */
#ifndef TW_MUL_H
#define TW_MUL_H

#include "../core/broadcast.h"
#include "../isa/dsp/dsp.h"

/* int8. Zero points -128..127; mult 2^30..2^31-1 or 0, shift -31..30 (positive: left); -128 <= low <= high <= 127. */
typedef struct {
    tw_walk walk;
    int32_t a_zero, b_zero, out_zero, mult, shift, low, high;
} tw_mul_s8_params;

TW_INLINE int32_t tw_mul_of_s8(const tw_mul_s8_params *p, int32_t a, int32_t b) {
    const int32_t left = tw_max(p->shift, 0), right = tw_max(-p->shift, 0);
    const int32_t product = (a - p->a_zero) * (b - p->b_zero); /* |product| < 2^16 */
    const int32_t scaled = tw_mul_high(tw_shift_left(product, left), p->mult);
    return tw_clamp(tw_add(tw_round_shift_small(scaled, right), p->out_zero), p->low, p->high);
}

TW_PAIR(tw_mul_s8, int8_t, int8_t, int8_t, tw_mul_of_s8(p, a, b))
TW_KERNEL(tw_mul_s8) { TW_ROWS_ALONG(tw_mul_s8); }

/* The same for the usual scales, in fewer steps: shifts to the right by right, 1..22, and clamps to int8. rounding is
 * tw_rounding(zero point of y, right). */
typedef struct {
    tw_walk walk;
    int32_t a_zero, b_zero, mult, right, rounding;
} tw_mul_scaled_s8_params;

TW_PAIR(tw_mul_scaled_s8, int8_t, int8_t, int8_t,
        tw_clamp8(tw_scaled_small((a - p->a_zero) * (b - p->b_zero), p->mult, p->rounding, p->right)))
TW_KERNEL(tw_mul_scaled_s8) { TW_ROWS_ALONG(tw_mul_scaled_s8); }

/* int16 with zero points of 0, otherwise as int8. */
typedef struct {
    tw_walk walk;
    int32_t mult, shift, low, high;
} tw_mul_s16_params;

TW_PAIR(tw_mul_s16, int16_t, int16_t, int16_t, tw_clamp(tw_requantize(a *b, p->mult, p->shift), p->low, p->high))
TW_KERNEL(tw_mul_s16) { TW_ROWS_ALONG(tw_mul_s16); }

typedef struct {
    tw_walk walk;
    float low, high;
} tw_mul_f32_params;

TW_PAIR(tw_mul_f32, float, float, float, tw_clampf(a *b, p->low, p->high))
TW_KERNEL(tw_mul_f32) { TW_ROWS_ALONG(tw_mul_f32); }

/* int32, int64, uint32 and int16 without scales, wrapping on overflow before the clamp (tw_clamp_wide says what that of
 * int64 and uint32 is). */
typedef struct {
    tw_walk walk;
    int32_t low, high;
} tw_mul_s32_params;
typedef tw_mul_s32_params tw_mul_s64_params;
typedef tw_mul_s32_params tw_mul_u32_params;
typedef tw_mul_s32_params tw_mul_stored_s16_params;

TW_PAIR(tw_mul_s32, int32_t, int32_t, int32_t, tw_clamp(tw_times(a, b), p->low, p->high))
TW_PAIR(tw_mul_s64, int64_t, int64_t, int64_t, tw_clamp_wide((int64_t)((uint64_t)a *(uint64_t)b), p->low, p->high))
TW_PAIR(tw_mul_u32, uint32_t, uint32_t, uint32_t, tw_clamp_wide((int64_t)(a *b), p->low, p->high))
TW_PAIR(tw_mul_stored_s16, int16_t, int16_t, int16_t, tw_clamp((int16_t)(a *b), p->low, p->high))
TW_KERNEL(tw_mul_s32) { TW_ROWS_ALONG(tw_mul_s32); }
TW_KERNEL(tw_mul_s64) { TW_ROWS_ALONG(tw_mul_s64); }
TW_KERNEL(tw_mul_u32) { TW_ROWS_ALONG(tw_mul_u32); }
TW_KERNEL(tw_mul_stored_s16) { TW_ROWS_ALONG(tw_mul_stored_s16); }

#endif
