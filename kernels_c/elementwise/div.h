/* SPDX-License-Identifier: Apache-2.0 */
/* DIV, POW and SQUARED_DIFFERENCE, with broadcasting. */
#ifndef TW_DIV_H
#define TW_DIV_H

#include <math.h>

#include "../core/broadcast.h"
#include "../reduce/softmax.h"

/* in: a, b (either may be planned in place if it has the output's shape). out: y [rows * size]. tile is 1. */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5];
} tw_pow_f32_params;
typedef tw_pow_f32_params tw_pow_s32_params;
typedef tw_pow_f32_params tw_squared_difference_f32_params;
typedef tw_pow_f32_params tw_squared_difference_s32_params;

/* The same with a clamp. */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5];
    float low, high;
} tw_div_f32_params;
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5];
    int32_t low, high;
} tw_div_s32_params;

/* int8. mult and shift: the scale of a over those of b and y, shift -31..23. */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5];
    int32_t a_zero, b_zero, out_zero, mult, shift, low, high;
} tw_div_s8_params;

/* int8. Both operands are brought to steps of twice the coarser scale with 7 more bits, shifts 0..31 to the right. */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5];
    int32_t a_zero, a_mult, a_shift, b_zero, b_mult, b_shift, out_zero, mult, shift;
} tw_squared_difference_s8_params;

TW_INLINE void tw_div_f32_pair(const void *params, const void *a, const void *b, void *y) {
    const tw_div_f32_params *p = (const tw_div_f32_params *)params;
    const float m = *(const float *)a, n = *(const float *)b;
    *(float *)y = tw_clampf(m / n, p->low, p->high);
}

TW_KERNEL(tw_div_f32) {
    const tw_div_f32_params p = *params;
    const tw_walk walk = {p.size, 1, p.a_step, p.b_step, p.rows, 4, 4, 4, p.shape, p.a_jump, p.b_jump};
    (void)scratch;
    tw_each_pair(&walk, in, out, tw_div_f32_pair, &p);
}

/* Towards zero; by zero as far from it as int32 goes, 0 / 0 is 0. The least value by -1 wraps. */
TW_INLINE int32_t tw_quotient(int32_t a, int32_t b) {
    if (b == 0) return a == 0 ? 0 : a > 0 ? INT32_MAX : INT32_MIN;
    return b == -1 ? (int32_t)(0U - (uint32_t)a) : a / b;
}

TW_INLINE void tw_div_s32_pair(const void *params, const void *a, const void *b, void *y) {
    const tw_div_s32_params *p = (const tw_div_s32_params *)params;
    const int32_t m = *(const int32_t *)a, n = *(const int32_t *)b;
    *(int32_t *)y = tw_clamp(tw_quotient(m, n), p->low, p->high);
}

TW_KERNEL(tw_div_s32) {
    const tw_div_s32_params p = *params;
    const tw_walk walk = {p.size, 1, p.a_step, p.b_step, p.rows, 4, 4, 4, p.shape, p.a_jump, p.b_jump};
    (void)scratch;
    tw_each_pair(&walk, in, out, tw_div_s32_pair, &p);
}

/* a / b in steps of y, |a| and |b| up to 255: gemmlowp's reciprocal of b, then one rescaling. By zero as in
 * tw_quotient, but far enough for the clamp only. */
TW_INLINE int32_t tw_div_steps(int32_t a, int32_t b, int32_t mult, int32_t shift) {
    if (b == 0 || a == 0) return a == 0 ? 0 : a > 0 ? 1 << 16 : -(1 << 16);
    const int32_t whole = b < 0 ? -b : b, top = b < 0 ? -a : a;
    const int32_t lead = __builtin_clz((uint32_t)whole);
    const int32_t inverse = tw_one_over_one_plus((int32_t)(((uint32_t)whole << lead) & INT32_MAX));
    const int32_t headroom = __builtin_clz((uint32_t)(top < 0 ? -2 * top - 1 : 2 * top));
    const int32_t quotient = tw_mul_high(tw_shift_left(top, headroom), inverse);
    const int32_t right = 31 - lead + headroom - shift;
    return right > 31 ? 0 : tw_round_shift(tw_mul_high(quotient, mult), right);
}

TW_INLINE void tw_div_s8_pair(const void *params, const void *a, const void *b, void *y) {
    const tw_div_s8_params *p = (const tw_div_s8_params *)params;
    const int8_t m = *(const int8_t *)a, n = *(const int8_t *)b;
    *(int8_t *)y = (int8_t)tw_clamp(tw_add(tw_div_steps(m - p->a_zero, n - p->b_zero, p->mult, p->shift), p->out_zero),
                                    p->low, p->high);
}

TW_KERNEL(tw_div_s8) {
    const tw_div_s8_params p = *params;
    const tw_walk walk = {p.size, 1, p.a_step, p.b_step, p.rows, 1, 1, 1, p.shape, p.a_jump, p.b_jump};
    (void)scratch;
    tw_each_pair(&walk, in, out, tw_div_s8_pair, &p);
}

TW_INLINE void tw_pow_f32_pair(const void *params, const void *a, const void *b, void *y) {
    const float m = *(const float *)a, n = *(const float *)b;
    (void)params;
    *(float *)y = powf(m, n);
}

TW_KERNEL(tw_pow_f32) {
    const tw_pow_f32_params p = *params;
    const tw_walk walk = {p.size, 1, p.a_step, p.b_step, p.rows, 4, 4, 4, p.shape, p.a_jump, p.b_jump};
    (void)scratch;
    tw_each_pair(&walk, in, out, tw_pow_f32_pair, &p);
}

/* a to the b-th, wrapping; towards zero where b is negative, and 0 to such is 0. */
TW_INLINE int32_t tw_power(int32_t a, int32_t b) {
    uint32_t y = 1, x = (uint32_t)a;
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    for (; b != 0; b >>= 1, x *= x)
        if (b & 1) y *= x;
    return (int32_t)y;
}

TW_INLINE void tw_pow_s32_pair(const void *params, const void *a, const void *b, void *y) {
    const int32_t m = *(const int32_t *)a, n = *(const int32_t *)b;
    (void)params;
    *(int32_t *)y = tw_power(m, n);
}

TW_KERNEL(tw_pow_s32) {
    const tw_pow_s32_params p = *params;
    const tw_walk walk = {p.size, 1, p.a_step, p.b_step, p.rows, 4, 4, 4, p.shape, p.a_jump, p.b_jump};
    (void)scratch;
    tw_each_pair(&walk, in, out, tw_pow_s32_pair, &p);
}

TW_INLINE void tw_squared_difference_f32_pair(const void *params, const void *a, const void *b, void *y) {
    const float m = *(const float *)a, n = *(const float *)b;
    (void)params;
    *(float *)y = (m - n) * (m - n);
}

TW_KERNEL(tw_squared_difference_f32) {
    const tw_squared_difference_f32_params p = *params;
    const tw_walk walk = {p.size, 1, p.a_step, p.b_step, p.rows, 4, 4, 4, p.shape, p.a_jump, p.b_jump};
    (void)scratch;
    tw_each_pair(&walk, in, out, tw_squared_difference_f32_pair, &p);
}

TW_INLINE void tw_squared_difference_s32_pair(const void *params, const void *a, const void *b, void *y) {
    const int32_t m = *(const int32_t *)a, n = *(const int32_t *)b;
    (void)params;
    *(int32_t *)y = (int32_t)(((uint32_t)m - (uint32_t)n) * ((uint32_t)m - (uint32_t)n));
}

TW_KERNEL(tw_squared_difference_s32) {
    const tw_squared_difference_s32_params p = *params;
    const tw_walk walk = {p.size, 1, p.a_step, p.b_step, p.rows, 4, 4, 4, p.shape, p.a_jump, p.b_jump};
    (void)scratch;
    tw_each_pair(&walk, in, out, tw_squared_difference_s32_pair, &p);
}

TW_INLINE int32_t tw_squared(int32_t x) { return x * x; } /* |x| < 2^15 */

TW_INLINE void tw_squared_difference_s8_pair(const void *params, const void *a, const void *b, void *y) {
    const tw_squared_difference_s8_params *p = (const tw_squared_difference_s8_params *)params;
    const int8_t m = *(const int8_t *)a, n = *(const int8_t *)b;
    *(int8_t *)y =
        (int8_t)tw_clamp(tw_add(tw_requantize(tw_squared(tw_requantize((m - p->a_zero) * 128, p->a_mult, p->a_shift) -
                                                         tw_requantize((n - p->b_zero) * 128, p->b_mult, p->b_shift)),
                                              p->mult, p->shift),
                                p->out_zero),
                         INT8_MIN, INT8_MAX);
}

TW_KERNEL(tw_squared_difference_s8) {
    const tw_squared_difference_s8_params p = *params;
    const tw_walk walk = {p.size, 1, p.a_step, p.b_step, p.rows, 1, 1, 1, p.shape, p.a_jump, p.b_jump};
    (void)scratch;
    tw_each_pair(&walk, in, out, tw_squared_difference_s8_pair, &p);
}

#endif
