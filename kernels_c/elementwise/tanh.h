/* SPDX-License-Identifier: Apache-2.0 */
/* TANH, float and int16; int8 goes through a table (lut.h). */
#ifndef TW_TANH_H
#define TW_TANH_H

#include <math.h>

#include "sigmoid.h"

/* in: x [size] (may be planned in place). out: y [size]. */
typedef struct {
    int32_t size;
} tw_tanh_f32_params;

TW_KERNEL(tw_tanh_f32) {
    const tw_tanh_f32_params p = *params;
    const float *x = (const float *)in[0];
    float *y = (float *)out[0];
    (void)scratch;
    for (int32_t i = 0; i < p.size; ++i) y[i] = tanhf(x[i]);
}

/* int16. in: x [size] (may be planned in place), table (sigmoid.h). out: y [size] with 15 fractional bits. mult
 * 0..32767, shift 0..31. */
typedef struct {
    int32_t size, mult, shift;
} tw_tanh_s16_params;

/* tanh(x) = 2 / (1 + exp(-2 x)) - 1. */
TW_KERNEL(tw_tanh_s16) {
    const tw_tanh_s16_params p = *params;
    const int16_t *x = (const int16_t *)in[0];
    const uint16_t *TW_RESTRICT table = (const uint16_t *)in[1];
    int16_t *y = (int16_t *)out[0];
    (void)scratch;
    for (int32_t i = 0; i < p.size; ++i) {
        const int32_t at = tw_sigmoid_scaled(x[i], p.mult, p.shift);
        const int32_t above = tw_sigmoid_at(table, at < 0 ? -at : at, 8, 0xFFFF << 8) - (1 << 23);
        y[i] = (int16_t)((at < 0 ? 127 - above : 128 + above) >> 8);
    }
}

#endif
