/* SPDX-License-Identifier: Apache-2.0 */
/* LEAKY_RELU; int8 goes through lut.h. */
#ifndef TW_LEAKY_RELU_H
#define TW_LEAKY_RELU_H

#include "../core/each.h"

/* float32. in: x [size] (may be planned in place). out: y [size]. */
typedef struct {
    int32_t size;
    float alpha;
} tw_leaky_relu_f32_params;

TW_INLINE float tw_leaky_relu(float x, float alpha) {
    const float scaled = x * alpha;
    return x > 0.0f ? x : scaled;
}

TW_KERNEL(tw_leaky_relu_f32) { TW_EACH(tw_leaky_relu_f32, float, float, tw_leaky_relu(x, p.alpha)); }

/* int16 with zero points of 0: values from zero up by mult and shift, negative ones by those of alpha. in: x [size]
 * (may be planned in place). out: y [size]. alpha_mult has the sign of alpha. */
typedef struct {
    int32_t size, mult, shift, alpha_mult, alpha_shift;
} tw_leaky_relu_s16_params;

TW_INLINE int32_t tw_leaky_relu_of_s16(const tw_leaky_relu_s16_params *p, int32_t x) {
    const int32_t above = x >= 0;
    const int32_t scaled = tw_requantize(x, above ? p->mult : p->alpha_mult, above ? p->shift : p->alpha_shift);
    return tw_clamp(scaled, INT16_MIN, INT16_MAX);
}

TW_KERNEL(tw_leaky_relu_s16) { TW_EACH(tw_leaky_relu_s16, int16_t, int16_t, tw_leaky_relu_of_s16(&p, x)); }

#endif
