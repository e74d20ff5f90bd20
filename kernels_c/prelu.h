/* PRELU: negative values times alpha, which broadcasts. */
#ifndef TW_PRELU_H
#define TW_PRELU_H

#include "broadcast.h"

/* int8. in: x (a), alpha (b), either may be planned in place if it has the output's shape. out: y [rows * size].
 * Zero points -128..127; mult 2^30..2^31-1 or 0, shift -31..30 (left where positive), for x and for x * alpha. */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5];
    int32_t zero, alpha_zero, out_zero, mult, shift, alpha_mult, alpha_shift;
} tw_prelu_s8_params;

TW_INLINE void tw_prelu_s8_row(const tw_prelu_s8_params *p, const int8_t *x, int32_t x_step, const int8_t *alpha,
                               int32_t alpha_step, int8_t *y) {
    const int32_t left = tw_max(p->shift, 0), right = tw_max(-p->shift, 0);
    const int32_t alpha_left = tw_max(p->alpha_shift, 0), alpha_right = tw_max(-p->alpha_shift, 0);
    for (int32_t i = 0; i < p->size; ++i) {
        const int32_t t = x[i * x_step] - p->zero;
        const int32_t product = t * (alpha[i * alpha_step] - p->alpha_zero); /* |product| < 2^16 */
        const int32_t shifted = t >= 0 ? tw_shift_left(t, left) : tw_shift_left(product, alpha_left);
        const int32_t scaled = tw_mul_high(shifted, t >= 0 ? p->mult : p->alpha_mult);
        const int32_t rounded = tw_round_shift_small(scaled, t >= 0 ? right : alpha_right);
        y[i] = (int8_t)tw_clamp(tw_add(rounded, p->out_zero), -128, 127);
    }
}

TW_KERNEL(tw_prelu_s8) {
    const tw_prelu_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    const int8_t *alpha = (const int8_t *)tw_tiled(in[1], p.size / p.tile * (int32_t)sizeof *alpha, p.tile, scratch);
    int8_t *y = (int8_t *)out[0];
    tw_row at = tw_first_row();
    for (int32_t row = 0; row < p.rows; ++row, y += p.size) {
        if (p.a_step == 0)
            tw_prelu_s8_row(&p, x + at.a, 0, alpha + at.b, 1, y);
        else if (p.b_step == 0)
            tw_prelu_s8_row(&p, x + at.a, 1, alpha + at.b, 0, y);
        else
            tw_prelu_s8_row(&p, x + at.a, 1, alpha + at.b, 1, y);
        tw_next_row(&at, p.shape, p.a_jump, p.b_jump);
    }
}

/* int16 with zero points of 0, alpha int8: as int8 otherwise; alpha is not planned in place. */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5];
    int32_t alpha_zero, mult, shift, alpha_mult, alpha_shift;
} tw_prelu_s16_params;

TW_INLINE void tw_prelu_s16_row(const tw_prelu_s16_params *p, const int16_t *x, int32_t x_step, const int8_t *alpha,
                                int32_t alpha_step, int16_t *y) {
    for (int32_t i = 0; i < p->size; ++i) {
        const int32_t t = x[i * x_step];
        const int32_t scaled =
            t >= 0 ? tw_requantize(t, p->mult, p->shift)
                   : tw_requantize(t * (alpha[i * alpha_step] - p->alpha_zero), p->alpha_mult, p->alpha_shift);
        y[i] = (int16_t)tw_clamp(scaled, INT16_MIN, INT16_MAX);
    }
}

TW_KERNEL(tw_prelu_s16) {
    const tw_prelu_s16_params p = *params;
    const int16_t *x = (const int16_t *)in[0];
    const int8_t *alpha = (const int8_t *)tw_tiled(in[1], p.size / p.tile * (int32_t)sizeof *alpha, p.tile, scratch);
    int16_t *y = (int16_t *)out[0];
    tw_row at = tw_first_row();
    for (int32_t row = 0; row < p.rows; ++row, y += p.size) {
        if (p.a_step == 0)
            tw_prelu_s16_row(&p, x + at.a, 0, alpha + at.b, 1, y);
        else if (p.b_step == 0)
            tw_prelu_s16_row(&p, x + at.a, 1, alpha + at.b, 0, y);
        else
            tw_prelu_s16_row(&p, x + at.a, 1, alpha + at.b, 1, y);
        tw_next_row(&at, p.shape, p.a_jump, p.b_jump);
    }
}

/* float32. in: x (a), alpha (b), either may be planned in place if it has the output's shape. out: y [rows * size]. */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5];
} tw_prelu_f32_params;

TW_INLINE void tw_prelu_f32_row(int32_t size, const float *x, int32_t x_step, const float *alpha, int32_t alpha_step,
                                float *y) {
    for (int32_t i = 0; i < size; ++i) {
        const float value = x[i * x_step], scaled = value * alpha[i * alpha_step];
        y[i] = value >= 0.0f ? value : scaled;
    }
}

TW_KERNEL(tw_prelu_f32) {
    const tw_prelu_f32_params p = *params;
    const float *x = (const float *)in[0];
    const float *alpha = (const float *)tw_tiled(in[1], p.size / p.tile * (int32_t)sizeof *alpha, p.tile, scratch);
    float *y = (float *)out[0];
    tw_row at = tw_first_row();
    for (int32_t row = 0; row < p.rows; ++row, y += p.size) {
        if (p.a_step == 0)
            tw_prelu_f32_row(p.size, x + at.a, 0, alpha + at.b, 1, y);
        else if (p.b_step == 0)
            tw_prelu_f32_row(p.size, x + at.a, 1, alpha + at.b, 0, y);
        else
            tw_prelu_f32_row(p.size, x + at.a, 1, alpha + at.b, 1, y);
        tw_next_row(&at, p.shape, p.a_jump, p.b_jump);
    }
}

#endif
