/* SPDX-License-Identifier: Apache-2.0 */
/* MUL, with broadcasting and a fused clamp. It is commutative: the operand with one value a row comes second. */
#ifndef TW_MUL_H
#define TW_MUL_H

#include "../core/broadcast.h"
#include "../isa/dsp/dsp.h"

/* int8. in: a, b (either may be planned in place if it has the output's shape). out: y [rows * size]. a_step is 1.
 * Zero points -128..127; mult 2^30..2^31-1 or 0, shift -31..30 (left where positive);
 * -128 <= low <= high <= 127. */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5];
    int32_t a_zero, b_zero, out_zero, mult, shift, low, high;
} tw_mul_s8_params;

TW_INLINE void tw_mul_s8_row(const void *params, const void *a_row, int32_t a_step, const void *b_row, int32_t b_step,
                             void *y_row) {
    const tw_mul_s8_params *p = (const tw_mul_s8_params *)params;
    const int8_t *a = (const int8_t *)a_row, *b = (const int8_t *)b_row;
    int8_t *y = (int8_t *)y_row;
    const int32_t left = p->shift > 0 ? p->shift : 0;
    const int32_t right = p->shift > 0 ? 0 : -p->shift;
    for (int32_t i = 0; i < p->size; ++i) {
        const int32_t product = (a[i * a_step] - p->a_zero) * (b[i * b_step] - p->b_zero); /* |product| < 2^16 */
        const int32_t scaled = tw_mul_high(tw_shift_left(product, left), p->mult);
        y[i] = (int8_t)tw_clamp(tw_add(tw_round_shift_small(scaled, right), p->out_zero), p->low, p->high);
    }
}

TW_KERNEL(tw_mul_s8) {
    const tw_mul_s8_params p = *params;
    const tw_walk walk = {p.size, p.tile, 1, p.b_step, p.rows, 1, 1, 1, p.shape, p.a_jump, p.b_jump};
    tw_rows_apart(&walk, in, out, scratch, tw_mul_s8_row, &p);
}

/* The same for the usual scales, in fewer steps: shifts right by right, 1..22, and keeps within int8. rounding is
 * tw_rounding(zero point of y, right). */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5];
    int32_t a_zero, b_zero, mult, right, rounding;
} tw_mul_scaled_s8_params;

TW_INLINE void tw_mul_scaled_s8_row(const void *params, const void *a_row, int32_t a_step, const void *b_row,
                                    int32_t b_step, void *y_row) {
    const tw_mul_scaled_s8_params *p = (const tw_mul_scaled_s8_params *)params;
    const int8_t *a = (const int8_t *)a_row, *b = (const int8_t *)b_row;
    int8_t *y = (int8_t *)y_row;
    TW_ROLLED
    for (int32_t i = 0; i < p->size; ++i) {
        const int32_t product = (a[i * a_step] - p->a_zero) * (b[i * b_step] - p->b_zero); /* |product| < 2^16 */
        y[i] = (int8_t)tw_clamp8(tw_scaled(2 * product, p->mult, p->rounding, p->right));
    }
}

TW_KERNEL(tw_mul_scaled_s8) {
    const tw_mul_scaled_s8_params p = *params;
    const tw_walk walk = {p.size, p.tile, 1, p.b_step, p.rows, 1, 1, 1, p.shape, p.a_jump, p.b_jump};
    tw_rows_apart(&walk, in, out, scratch, tw_mul_scaled_s8_row, &p);
}

/* int16 with zero points of 0: as int8 otherwise. */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5];
    int32_t mult, shift, low, high;
} tw_mul_s16_params;

TW_INLINE void tw_mul_s16_row(const void *params, const void *a_row, int32_t a_step, const void *b_row, int32_t b_step,
                              void *y_row) {
    const tw_mul_s16_params *p = (const tw_mul_s16_params *)params;
    const int16_t *a = (const int16_t *)a_row, *b = (const int16_t *)b_row;
    int16_t *y = (int16_t *)y_row;
    for (int32_t i = 0; i < p->size; ++i) {
        const int32_t product = a[i * a_step] * b[i * b_step]; /* |product| <= 2^30 */
        y[i] = (int16_t)tw_clamp(tw_requantize(product, p->mult, p->shift), p->low, p->high);
    }
}

TW_KERNEL(tw_mul_s16) {
    const tw_mul_s16_params p = *params;
    const tw_walk walk = {p.size, p.tile, 1, p.b_step, p.rows, 2, 2, 2, p.shape, p.a_jump, p.b_jump};
    tw_rows_apart(&walk, in, out, scratch, tw_mul_s16_row, &p);
}

/* float32. in: a, b (either may be planned in place if it has the output's shape).
 * out: y [rows * size]. a_step is 1. */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5];
    float low, high;
} tw_mul_f32_params;

TW_INLINE void tw_mul_f32_row(const void *params, const void *a_row, int32_t a_step, const void *b_row, int32_t b_step,
                              void *y_row) {
    const tw_mul_f32_params *p = (const tw_mul_f32_params *)params;
    const float *a = (const float *)a_row, *b = (const float *)b_row;
    float *y = (float *)y_row;
    for (int32_t i = 0; i < p->size; ++i) y[i] = tw_clampf(a[i * a_step] * b[i * b_step], p->low, p->high);
}

TW_KERNEL(tw_mul_f32) {
    const tw_mul_f32_params p = *params;
    const tw_walk walk = {p.size, p.tile, 1, p.b_step, p.rows, 4, 4, 4, p.shape, p.a_jump, p.b_jump};
    tw_rows_apart(&walk, in, out, scratch, tw_mul_f32_row, &p);
}

/* int32, wrapping on overflow. in: a, b (either may be planned in place if it has the output's shape).
 * out: y [rows * size]. a_step is 1. */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5];
    int32_t low, high;
} tw_mul_s32_params;

TW_INLINE void tw_mul_s32_row(const void *params, const void *a_row, int32_t a_step, const void *b_row, int32_t b_step,
                              void *y_row) {
    const tw_mul_s32_params *p = (const tw_mul_s32_params *)params;
    const int32_t *a = (const int32_t *)a_row, *b = (const int32_t *)b_row;
    int32_t *y = (int32_t *)y_row;
    for (int32_t i = 0; i < p->size; ++i) {
        y[i] = tw_clamp((int32_t)((uint32_t)a[i * a_step] * (uint32_t)b[i * b_step]), p->low, p->high);
    }
}

TW_KERNEL(tw_mul_s32) {
    const tw_mul_s32_params p = *params;
    const tw_walk walk = {p.size, p.tile, 1, p.b_step, p.rows, 4, 4, 4, p.shape, p.a_jump, p.b_jump};
    tw_rows_apart(&walk, in, out, scratch, tw_mul_s32_row, &p);
}

#endif
