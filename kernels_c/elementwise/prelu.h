/* SPDX-License-Identifier: Apache-2.0 */
/* PRELU: negative values times alpha, which broadcasts. All kernels here have in: x (a), alpha (b); either may be
 * planned in place if it has the output's shape. out: y [walk]. */
#ifndef TW_PRELU_H
#define TW_PRELU_H

#include "../core/broadcast.h"

/* int8. Zero points -128..127; mult 2^30..2^31-1 or 0, shift -31..30 (positive: left), for x and for x * alpha. */
typedef struct {
    tw_walk walk;
    int32_t zero, alpha_zero, out_zero, mult, shift, alpha_mult, alpha_shift;
} tw_prelu_s8_params;

TW_INLINE int32_t tw_prelu_of_s8(const tw_prelu_s8_params *p, int32_t x, int32_t alpha) {
    const int32_t t = x - p->zero, above = t >= 0;
    const int32_t value = above ? t : t * (alpha - p->alpha_zero); /* |value| < 2^16 */
    const int32_t shift = above ? p->shift : p->alpha_shift;
    const int32_t scaled = tw_mul_high(tw_shift_left(value, tw_max(shift, 0)), above ? p->mult : p->alpha_mult);
    return tw_clamp(tw_add(tw_round_shift_small(scaled, tw_max(-shift, 0)), p->out_zero), INT8_MIN, INT8_MAX);
}

TW_PAIR(tw_prelu_s8, int8_t, int8_t, int8_t, tw_prelu_of_s8(p, a, b))
TW_KERNEL(tw_prelu_s8) { TW_ROWS_APART(tw_prelu_s8); }

/* int16 with zero points of 0, alpha int8; otherwise as int8, but alpha is not planned in place. */
typedef struct {
    tw_walk walk;
    int32_t alpha_zero, mult, shift, alpha_mult, alpha_shift;
} tw_prelu_s16_params;

/* Alpha is read only where x is negative. */
TW_INLINE void tw_prelu_s16_pair(const tw_prelu_s16_params *p, const void *from, const void *alpha, void *y) {
    const int32_t x = *(const int16_t *)from;
    const int32_t scaled =
        x >= 0 ? tw_requantize(x, p->mult, p->shift)
               : tw_requantize(x * (*(const int8_t *)alpha - p->alpha_zero), p->alpha_mult, p->alpha_shift);
    *(int16_t *)y = (int16_t)tw_clamp(scaled, INT16_MIN, INT16_MAX);
}

TW_PAIRS(tw_prelu_s16, int16_t, int8_t, int16_t)
TW_KERNEL(tw_prelu_s16) { TW_ROWS_APART(tw_prelu_s16); }

/* float32. */
typedef struct {
    tw_walk walk;
} tw_prelu_f32_params;

TW_INLINE float tw_prelu_of_f32(float x, float alpha) {
    const float scaled = x * alpha;
    return x >= 0.0f ? x : scaled;
}

TW_PAIR(tw_prelu_f32, float, float, float, tw_prelu_of_f32(a, b))
TW_KERNEL(tw_prelu_f32) { TW_ROWS_APART(tw_prelu_f32); }

#endif
