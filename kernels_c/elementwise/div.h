/* SPDX-License-Identifier: Apache-2.0 */
/* DIV, POW and SQUARED_DIFFERENCE, with broadcasting. All kernels here have in: a, b (either may be planned in place if
 * it has the output's shape). out: y [walk]. tile is 1. */
#ifndef TW_DIV_H
#define TW_DIV_H

#include <math.h>

#include "../core/broadcast.h"
#include "../reduce/softmax.h"

typedef struct {
    tw_walk walk;
} tw_pow_f32_params;
typedef tw_pow_f32_params tw_pow_s32_params;
typedef tw_pow_f32_params tw_squared_difference_f32_params;
typedef tw_pow_f32_params tw_squared_difference_s32_params;

typedef struct {
    tw_walk walk;
    float low, high;
} tw_div_f32_params;
typedef struct {
    tw_walk walk;
    int32_t low, high;
} tw_div_s32_params;

/* int8. mult and shift: a_scale / (b_scale * y_scale), shift -31..23. */
typedef struct {
    tw_walk walk;
    int32_t a_zero, b_zero, out_zero, mult, shift, low, high;
} tw_div_s8_params;

typedef tw_div_s8_params tw_div_s16_params; /* zero points 0, shift -31..30 */

/* int8. Both operands, shifted left by 7, get twice the coarser scale; shifts 0..31 to the right. */
typedef struct {
    tw_walk walk;
    int32_t a_zero, a_mult, a_shift, b_zero, b_mult, b_shift, out_zero, mult, shift;
} tw_squared_difference_s8_params;
typedef tw_squared_difference_s8_params tw_squared_difference_s16_params; /* zero points 0; not shifted left */

/* Truncated towards zero. Division by zero saturates, 0 / 0 is 0; so does INT32_MIN / -1. */
TW_INLINE int32_t tw_quotient(int32_t a, int32_t b) {
    if (b == 0) return a == 0 ? 0 : a > 0 ? INT32_MAX : INT32_MIN;
    return a == INT32_MIN && b == -1 ? INT32_MAX : a / b;
}

/* a / b in steps of y, |a| and |b| up to 2^15: gemmlowp's reciprocal of b, then one rescaling. Division by zero is as in
 * tw_quotient, but only as far as the clamp needs. */
TW_INLINE int32_t tw_div_steps(int32_t a, int32_t b, int32_t mult, int32_t shift) {
    if (b == 0 || a == 0) return a == 0 ? 0 : a > 0 ? 1 << 16 : -(1 << 16);
    const int32_t whole = b < 0 ? -b : b, top = b < 0 ? -a : a;
    const int32_t lead = __builtin_clz((uint32_t)whole);
    const int32_t inverse = tw_one_over_one_plus((int32_t)(((uint32_t)whole << lead) & INT32_MAX));
    const int32_t headroom = __builtin_clz((uint32_t)(top < 0 ? -2 * top - 1 : 2 * top));
    const int32_t quotient = tw_mul_high(tw_shift_left(top, headroom), inverse);
    const int32_t right = 31 - lead + headroom - shift;
    if (right < 0) return top < 0 ? -(1 << 16) : 1 << 16; /* int16 only: the quotient is above 2^28 */
    return right > 31 ? 0 : tw_round_shift(tw_mul_high(quotient, mult), right);
}

TW_INLINE int32_t tw_div_of_s8(const tw_div_s8_params *p, int32_t a, int32_t b) {
    const int32_t steps = tw_div_steps(a - p->a_zero, b - p->b_zero, p->mult, p->shift);
    return tw_clamp(tw_add(steps, p->out_zero), p->low, p->high);
}

/* a to the power of b, wrapping; truncated towards zero if b is negative, and then 0 if a is 0. */
TW_INLINE int32_t tw_power(int32_t a, int32_t b) {
    uint32_t y = 1, x = (uint32_t)a;
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    for (; b != 0; b >>= 1, x *= x)
        if (b & 1) y *= x;
    return (int32_t)y;
}

/* Wraps. */
TW_INLINE int32_t tw_squared_difference_of_s32(int32_t a, int32_t b) {
    const int32_t difference = (int32_t)((uint32_t)a - (uint32_t)b);
    return tw_times(difference, difference);
}

/* The difference of both operands in shared steps is below 2^15. */
TW_INLINE int32_t tw_squared_difference_of_s8(const tw_squared_difference_s8_params *p, int32_t a, int32_t b) {
    const int32_t m = tw_requantize((a - p->a_zero) * 128, p->a_mult, p->a_shift);
    const int32_t n = tw_requantize((b - p->b_zero) * 128, p->b_mult, p->b_shift);
    const int32_t steps = tw_requantize((m - n) * (m - n), p->mult, p->shift);
    return tw_clamp(tw_add(steps, p->out_zero), INT8_MIN, INT8_MAX);
}

/* Of int16 the difference is below 2^15, too. */
TW_INLINE int32_t tw_squared_difference_of_s16(const tw_squared_difference_s16_params *p, int32_t a, int32_t b) {
    const int32_t m = tw_requantize(a, p->a_mult, p->a_shift), n = tw_requantize(b, p->b_mult, p->b_shift);
    return tw_clamp(tw_requantize((m - n) * (m - n), p->mult, p->shift), INT16_MIN, INT16_MAX);
}

TW_PAIR(tw_div_f32, float, float, float, tw_clampf(a / b, p->low, p->high))
TW_PAIR(tw_div_s32, int32_t, int32_t, int32_t, tw_clamp(tw_quotient(a, b), p->low, p->high))
TW_PAIR(tw_div_s8, int8_t, int8_t, int8_t, tw_div_of_s8(p, a, b))
TW_PAIR(tw_div_s16, int16_t, int16_t, int16_t, tw_div_of_s8(p, a, b))
TW_PAIR(tw_pow_f32, float, float, float, powf(a, b))
TW_PAIR(tw_pow_s32, int32_t, int32_t, int32_t, tw_power(a, b))
TW_PAIR(tw_squared_difference_f32, float, float, float, (a - b) * (a - b))
TW_PAIR(tw_squared_difference_s32, int32_t, int32_t, int32_t, tw_squared_difference_of_s32(a, b))
TW_PAIR(tw_squared_difference_s16, int16_t, int16_t, int16_t, tw_squared_difference_of_s16(p, a, b))
TW_PAIR(tw_squared_difference_s8, int8_t, int8_t, int8_t, tw_squared_difference_of_s8(p, a, b))

TW_KERNEL(tw_div_f32) { TW_EACH_PAIR(tw_div_f32); }
TW_KERNEL(tw_div_s32) { TW_EACH_PAIR(tw_div_s32); }
TW_KERNEL(tw_div_s8) { TW_EACH_PAIR(tw_div_s8); }
TW_KERNEL(tw_div_s16) { TW_EACH_PAIR(tw_div_s16); }
TW_KERNEL(tw_pow_f32) { TW_EACH_PAIR(tw_pow_f32); }
TW_KERNEL(tw_pow_s32) { TW_EACH_PAIR(tw_pow_s32); }
TW_KERNEL(tw_squared_difference_f32) { TW_EACH_PAIR(tw_squared_difference_f32); }
TW_KERNEL(tw_squared_difference_s32) { TW_EACH_PAIR(tw_squared_difference_s32); }
TW_KERNEL(tw_squared_difference_s16) { TW_EACH_PAIR(tw_squared_difference_s16); }
TW_KERNEL(tw_squared_difference_s8) { TW_EACH_PAIR(tw_squared_difference_s8); }

#endif
