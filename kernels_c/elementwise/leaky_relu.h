/* SPDX-License-Identifier: Apache-2.0 */
/* LEAKY_RELU; int8 goes through lut.h. */
#ifndef TW_LEAKY_RELU_H
#define TW_LEAKY_RELU_H

#include "../core/tw.h"

/* float32. in: x [size] (may be planned in place). out: y [size]. */
typedef struct {
    int32_t size;
    float alpha;
} tw_leaky_relu_f32_params;

TW_KERNEL(tw_leaky_relu_f32) {
    const tw_leaky_relu_f32_params p = *params;
    const float *x = (const float *)in[0];
    float *y = (float *)out[0];
    (void)scratch;
    for (int32_t i = 0; i < p.size; ++i) {
        const float value = x[i], scaled = value * p.alpha;
        y[i] = value > 0.0f ? value : scaled;
    }
}

/* int16 with zero points of 0: from zero up by mult and shift, below by those of alpha. in: x [size] (may be planned in
 * place). out: y [size]. alpha_mult has the sign of alpha. */
typedef struct {
    int32_t size, mult, shift, alpha_mult, alpha_shift;
} tw_leaky_relu_s16_params;

TW_KERNEL(tw_leaky_relu_s16) {
    const tw_leaky_relu_s16_params p = *params;
    const int16_t *x = (const int16_t *)in[0];
    int16_t *y = (int16_t *)out[0];
    (void)scratch;
    for (int32_t i = 0; i < p.size; ++i) {
        const int32_t above = x[i] >= 0;
        const int32_t scaled = tw_requantize(x[i], above ? p.mult : p.alpha_mult, above ? p.shift : p.alpha_shift);
        y[i] = (int16_t)tw_clamp(scaled, INT16_MIN, INT16_MAX);
    }
}

#endif
