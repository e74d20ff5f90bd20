/* SPDX-License-Identifier: Apache-2.0 */
/* ADD and SUB (the second operand with sign -1), with broadcasting and a fused clamp. */
#ifndef TW_ADD_H
#define TW_ADD_H

#include "../core/broadcast.h"
#include "../isa/dsp/dsp.h"

/* One operand brought to the common scale, rounded as TFLM does: t * 2^20 * mult / 2^31, then a rounding right shift.
 * t is the value less its zero point, -255..255, so that two 32-bit products hold t * mult (20 and 11 bits of mult). */
TW_INLINE int32_t tw_add_scaled(int32_t t, int32_t mult, int32_t shift) {
    const int32_t high = t * (mult >> 11);
    const int32_t low = (t * (mult & 2047) + 1024) >> 11;
    return tw_round_shift_small(high + low, shift);
}

/* int8, y = a + b_sign * b. in: a, b (either may be planned in place if it has the output's shape).
 * out: y [rows * size]. Zero points -128..127; multipliers 2^30..2^31-1 or 0; right shifts 0..31;
 * -128 <= low <= high <= 127. */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5];
    int32_t a_zero, a_mult, a_shift, b_zero, b_mult, b_shift, b_sign, out_zero, mult, shift, low, high;
} tw_add_s8_params;

TW_INLINE void tw_add_s8_row(const void *params, const void *a_row, int32_t a_step, const void *b_row, int32_t b_step,
                             void *y_row) {
    const tw_add_s8_params *p = (const tw_add_s8_params *)params;
    const int8_t *a = (const int8_t *)a_row, *b = (const int8_t *)b_row;
    int8_t *y = (int8_t *)y_row;
    const int32_t flip = p->b_sign < 0 ? -1 : 0; /* (x ^ flip) - flip is x or -x */
    for (int32_t i = 0; i < p->size; ++i) {
        const int32_t left = tw_add_scaled(a[i * a_step] - p->a_zero, p->a_mult, p->a_shift);
        const int32_t right = tw_add_scaled(b[i * b_step] - p->b_zero, p->b_mult, p->b_shift);
        const int32_t sum = tw_mul_high(left + (right ^ flip) - flip, p->mult);
        y[i] = (int8_t)tw_clamp(tw_round_shift_small(sum, p->shift) + p->out_zero, p->low, p->high);
    }
}

TW_KERNEL(tw_add_s8) {
    const tw_add_s8_params p = *params;
    const tw_walk walk = {p.size, p.tile, p.a_step, p.b_step, p.rows, 1, 1, 1, p.shape, p.a_jump, p.b_jump};
    tw_rows_apart(&walk, in, out, scratch, tw_add_s8_row, &p);
}

/* int8 as a plane: y = (a * a_mult + b * b_mult + offset) >> shift, kept within int8. lower has proven it over all pairs
 * of operands, as which every sum fits int32 (a part of it may wrap). in: a, b (either may be planned in place if it
 * has the output's shape). out: y [rows * size]. shift 1..30. */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5];
    int32_t a_mult, b_mult, offset, shift;
} tw_add_plane_s8_params;

TW_INLINE void tw_add_plane_s8_row(const void *params, const void *a_row, int32_t a_step, const void *b_row,
                                   int32_t b_step, void *y_row) {
    const tw_add_plane_s8_params *p = (const tw_add_plane_s8_params *)params;
    const int8_t *a = (const int8_t *)a_row, *b = (const int8_t *)b_row;
    int8_t *y = (int8_t *)y_row;
    const uint32_t a_mult = (uint32_t)p->a_mult, b_mult = (uint32_t)p->b_mult, offset = (uint32_t)p->offset;
    TW_ROLLED
    for (int32_t i = 0; i < p->size; ++i) {
        const uint32_t left = (uint32_t)a[i * a_step] * a_mult + offset;
        y[i] = (int8_t)tw_shift_clamp8((int32_t)((uint32_t)b[i * b_step] * b_mult + left), p->shift);
    }
}

TW_KERNEL(tw_add_plane_s8) {
    const tw_add_plane_s8_params p = *params;
    const tw_walk walk = {p.size, p.tile, p.a_step, p.b_step, p.rows, 1, 1, 1, p.shape, p.a_jump, p.b_jump};
    tw_rows_apart(&walk, in, out, scratch, tw_add_plane_s8_row, &p);
}

/* int16 with zero points of 0, y = a + b_sign * b; each operand in 15 more bits, then as int8. in: a, b (either may be
 * planned in place if it has the output's shape). out: y [rows * size]. */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5];
    int32_t a_mult, a_shift, b_mult, b_shift, b_sign, mult, shift, low, high;
} tw_add_s16_params;

/* One operand at the common scale, of which it takes at most half: below 2^29. */
TW_INLINE int32_t tw_add_scaled_s16(int32_t x, int32_t mult, int32_t shift) {
    return tw_round_shift_small(tw_mul_high(x * (1 << 15), mult), shift);
}

TW_INLINE void tw_add_s16_row(const void *params, const void *a_row, int32_t a_step, const void *b_row, int32_t b_step,
                              void *y_row) {
    const tw_add_s16_params *p = (const tw_add_s16_params *)params;
    const int16_t *a = (const int16_t *)a_row, *b = (const int16_t *)b_row;
    int16_t *y = (int16_t *)y_row;
    for (int32_t i = 0; i < p->size; ++i) {
        const int32_t left = tw_add_scaled_s16(a[i * a_step], p->a_mult, p->a_shift);
        const int32_t right = tw_add_scaled_s16(b[i * b_step], p->b_mult, p->b_shift);
        const int32_t sum = tw_mul_high(left + p->b_sign * right, p->mult);
        y[i] = (int16_t)tw_clamp(tw_round_shift_small(sum, p->shift), p->low, p->high);
    }
}

TW_KERNEL(tw_add_s16) {
    const tw_add_s16_params p = *params;
    const tw_walk walk = {p.size, p.tile, p.a_step, p.b_step, p.rows, 2, 2, 2, p.shape, p.a_jump, p.b_jump};
    tw_rows_apart(&walk, in, out, scratch, tw_add_s16_row, &p);
}

/* float32, y = a + b_sign * b. in: a, b (either may be planned in place if it has the output's shape).
 * out: y [rows * size]. */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5];
    float b_sign, low, high;
} tw_add_f32_params;

TW_INLINE void tw_add_f32_row(const void *params, const void *a_row, int32_t a_step, const void *b_row, int32_t b_step,
                              void *y_row) {
    const tw_add_f32_params *p = (const tw_add_f32_params *)params;
    const float *a = (const float *)a_row, *b = (const float *)b_row;
    float *y = (float *)y_row;
    for (int32_t i = 0; i < p->size; ++i) {
        y[i] = tw_clampf(a[i * a_step] + p->b_sign * b[i * b_step], p->low, p->high);
    }
}

TW_KERNEL(tw_add_f32) {
    const tw_add_f32_params p = *params;
    const tw_walk walk = {p.size, p.tile, p.a_step, p.b_step, p.rows, 4, 4, 4, p.shape, p.a_jump, p.b_jump};
    tw_rows_apart(&walk, in, out, scratch, tw_add_f32_row, &p);
}

/* int32, y = a + b_sign * b, wrapping on overflow. in: a, b (either may be planned in place if it has the output's
 * shape). out: y [rows * size]. */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5];
    int32_t b_sign, low, high;
} tw_add_s32_params;

TW_INLINE void tw_add_s32_row(const void *params, const void *a_row, int32_t a_step, const void *b_row, int32_t b_step,
                              void *y_row) {
    const tw_add_s32_params *p = (const tw_add_s32_params *)params;
    const int32_t *a = (const int32_t *)a_row, *b = (const int32_t *)b_row;
    int32_t *y = (int32_t *)y_row;
    for (int32_t i = 0; i < p->size; ++i) {
        const int32_t right = (int32_t)((uint32_t)p->b_sign * (uint32_t)b[i * b_step]);
        y[i] = tw_clamp(tw_add(a[i * a_step], right), p->low, p->high);
    }
}

TW_KERNEL(tw_add_s32) {
    const tw_add_s32_params p = *params;
    const tw_walk walk = {p.size, p.tile, p.a_step, p.b_step, p.rows, 4, 4, 4, p.shape, p.a_jump, p.b_jump};
    tw_rows_apart(&walk, in, out, scratch, tw_add_s32_row, &p);
}

#endif
