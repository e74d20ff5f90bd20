/* SPDX-License-Identifier: Apache-2.0 */
/* PRELU: negative values times alpha, which broadcasts. */
#ifndef TW_PRELU_H
#define TW_PRELU_H

#include "../core/broadcast.h"

/* int8. in: x (a), alpha (b), either may be planned in place if it has the output's shape. out: y [rows * size].
 * Zero points -128..127; mult 2^30..2^31-1 or 0, shift -31..30 (left where positive), for x and for x * alpha. */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5];
    int32_t zero, alpha_zero, out_zero, mult, shift, alpha_mult, alpha_shift;
} tw_prelu_s8_params;

TW_INLINE void tw_prelu_s8_row(const void *params, const void *a_row, int32_t a_step, const void *b_row, int32_t b_step,
                               void *y_row) {
    const tw_prelu_s8_params *p = (const tw_prelu_s8_params *)params;
    const int8_t *x = (const int8_t *)a_row, *alpha = (const int8_t *)b_row;
    int8_t *y = (int8_t *)y_row;
    const int32_t left = tw_max(p->shift, 0), right = tw_max(-p->shift, 0);
    const int32_t alpha_left = tw_max(p->alpha_shift, 0), alpha_right = tw_max(-p->alpha_shift, 0);
    for (int32_t i = 0; i < p->size; ++i) {
        const int32_t t = x[i * a_step] - p->zero;
        const int32_t product = t * (alpha[i * b_step] - p->alpha_zero); /* |product| < 2^16 */
        const int32_t shifted = t >= 0 ? tw_shift_left(t, left) : tw_shift_left(product, alpha_left);
        const int32_t scaled = tw_mul_high(shifted, t >= 0 ? p->mult : p->alpha_mult);
        const int32_t rounded = tw_round_shift_small(scaled, t >= 0 ? right : alpha_right);
        y[i] = (int8_t)tw_clamp(tw_add(rounded, p->out_zero), -128, 127);
    }
}

TW_KERNEL(tw_prelu_s8) {
    const tw_prelu_s8_params p = *params;
    const tw_walk walk = {p.size, p.tile, p.a_step, p.b_step, p.rows, 1, 1, 1, p.shape, p.a_jump, p.b_jump};
    tw_rows_apart(&walk, in, out, scratch, tw_prelu_s8_row, &p);
}

/* int16 with zero points of 0, alpha int8: as int8 otherwise; alpha is not planned in place. */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5];
    int32_t alpha_zero, mult, shift, alpha_mult, alpha_shift;
} tw_prelu_s16_params;

TW_INLINE void tw_prelu_s16_row(const void *params, const void *a_row, int32_t a_step, const void *b_row,
                                int32_t b_step, void *y_row) {
    const tw_prelu_s16_params *p = (const tw_prelu_s16_params *)params;
    const int16_t *x = (const int16_t *)a_row;
    const int8_t *alpha = (const int8_t *)b_row;
    int16_t *y = (int16_t *)y_row;
    for (int32_t i = 0; i < p->size; ++i) {
        const int32_t t = x[i * a_step];
        const int32_t scaled =
            t >= 0 ? tw_requantize(t, p->mult, p->shift)
                   : tw_requantize(t * (alpha[i * b_step] - p->alpha_zero), p->alpha_mult, p->alpha_shift);
        y[i] = (int16_t)tw_clamp(scaled, INT16_MIN, INT16_MAX);
    }
}

TW_KERNEL(tw_prelu_s16) {
    const tw_prelu_s16_params p = *params;
    const tw_walk walk = {p.size, p.tile, p.a_step, p.b_step, p.rows, 2, 1, 2, p.shape, p.a_jump, p.b_jump};
    tw_rows_apart(&walk, in, out, scratch, tw_prelu_s16_row, &p);
}

/* float32. in: x (a), alpha (b), either may be planned in place if it has the output's shape. out: y [rows * size]. */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5];
} tw_prelu_f32_params;

TW_INLINE void tw_prelu_f32_row(const void *params, const void *a_row, int32_t a_step, const void *b_row,
                                int32_t b_step, void *y_row) {
    const tw_prelu_f32_params *p = (const tw_prelu_f32_params *)params;
    const float *x = (const float *)a_row, *alpha = (const float *)b_row;
    float *y = (float *)y_row;
    for (int32_t i = 0; i < p->size; ++i) {
        const float value = x[i * a_step], scaled = value * alpha[i * b_step];
        y[i] = value >= 0.0f ? value : scaled;
    }
}

TW_KERNEL(tw_prelu_f32) {
    const tw_prelu_f32_params p = *params;
    const tw_walk walk = {p.size, p.tile, p.a_step, p.b_step, p.rows, 4, 4, 4, p.shape, p.a_jump, p.b_jump};
    tw_rows_apart(&walk, in, out, scratch, tw_prelu_f32_row, &p);
}

#endif
