/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons with broadcasting: EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL. */
#ifndef TW_COMPARE_H
#define TW_COMPARE_H

#include "../core/broadcast.h"

/* in: a, b. out: y [walk] bytes 0 or 1. tile is 1. accepted: bit 0 less, bit 1 equal, bit 2 greater, bit 3 neither. s8:
 * stored values, and bool. s16: stored values. */
typedef struct {
    tw_walk walk;
    int32_t accepted;
} tw_compare_s8_params;
typedef tw_compare_s8_params tw_compare_s16_params;
typedef tw_compare_s8_params tw_compare_s32_params;
typedef tw_compare_s8_params tw_compare_s64_params;
typedef tw_compare_s8_params tw_compare_f32_params;

/* int8 in steps that both operands share: (q - zero) * 2^8, requantised. */
typedef struct {
    tw_walk walk;
    int32_t accepted, a_zero, a_mult, a_shift, b_zero, b_mult, b_shift;
} tw_compare_scaled_s8_params;

/* int16 with zero points of 0, likewise: q * 2^left, requantised. left 8 or 15. */
typedef struct {
    tw_walk walk;
    int32_t accepted, left, a_mult, a_shift, b_mult, b_shift;
} tw_compare_scaled_s16_params;

#define TW_ACCEPTED(a, b) (p->accepted >> ((a) < (b) ? 0 : (a) == (b) ? 1 : (a) > (b) ? 2 : 3) & 1)

TW_INLINE int32_t tw_compared_s8(const tw_compare_scaled_s8_params *p, int32_t a, int32_t b) {
    const int32_t m = tw_requantize((a - p->a_zero) * 256, p->a_mult, p->a_shift);
    const int32_t n = tw_requantize((b - p->b_zero) * 256, p->b_mult, p->b_shift);
    return TW_ACCEPTED(m, n);
}

TW_INLINE int32_t tw_compared_s16(const tw_compare_scaled_s16_params *p, int32_t a, int32_t b) {
    const int32_t m = tw_requantize(tw_shift_left(a, p->left), p->a_mult, p->a_shift);
    const int32_t n = tw_requantize(tw_shift_left(b, p->left), p->b_mult, p->b_shift);
    return TW_ACCEPTED(m, n);
}

TW_PAIR(tw_compare_s8, int8_t, int8_t, uint8_t, TW_ACCEPTED(a, b))
TW_PAIR(tw_compare_s16, int16_t, int16_t, uint8_t, TW_ACCEPTED(a, b))
TW_PAIR(tw_compare_s32, int32_t, int32_t, uint8_t, TW_ACCEPTED(a, b))
TW_PAIR(tw_compare_s64, int64_t, int64_t, uint8_t, TW_ACCEPTED(a, b))
TW_PAIR(tw_compare_f32, float, float, uint8_t, TW_ACCEPTED(a, b))
TW_PAIR(tw_compare_scaled_s8, int8_t, int8_t, uint8_t, tw_compared_s8(p, a, b))
TW_PAIR(tw_compare_scaled_s16, int16_t, int16_t, uint8_t, tw_compared_s16(p, a, b))

TW_KERNEL(tw_compare_s8) { TW_EACH_PAIR(tw_compare_s8); }
TW_KERNEL(tw_compare_s16) { TW_EACH_PAIR(tw_compare_s16); }
TW_KERNEL(tw_compare_s32) { TW_EACH_PAIR(tw_compare_s32); }
TW_KERNEL(tw_compare_s64) { TW_EACH_PAIR(tw_compare_s64); }
TW_KERNEL(tw_compare_f32) { TW_EACH_PAIR(tw_compare_f32); }
TW_KERNEL(tw_compare_scaled_s8) { TW_EACH_PAIR(tw_compare_scaled_s8); }
TW_KERNEL(tw_compare_scaled_s16) { TW_EACH_PAIR(tw_compare_scaled_s16); }

#endif
