/* SPDX-License-Identifier: Apache-2.0 */
/* LOGISTIC, float and int16; int8 goes through a table (lut.h). */
#ifndef TW_LOGISTIC_H
#define TW_LOGISTIC_H

#include <math.h>

#include "sigmoid.h"

/* 1 / (1 + exp(-x)). Above the first bound that is one in float32, below the second 1 + exp(-x) is taken as exp(-x). */
TW_INLINE float tw_logistic(float x) {
    if (x > 16.619047164916992188f) return 1.0f;
    if (x < -9.0f) return expf(x);
    return 1.0f / (1.0f + expf(-x));
}

/* in: x [size] (may be planned in place). out: y [size]. */
typedef struct {
    int32_t size;
} tw_logistic_f32_params;

TW_KERNEL(tw_logistic_f32) {
    const tw_logistic_f32_params p = *params;
    const float *x = (const float *)in[0];
    float *y = (float *)out[0];
    (void)scratch;
    for (int32_t i = 0; i < p.size; ++i) y[i] = tw_logistic(x[i]);
}

/* int16. in: x [size] (may be planned in place), table (sigmoid.h). out: y [size] with 15 fractional bits. mult
 * 0..32767, shift 0..31. */
typedef struct {
    int32_t size, mult, shift;
} tw_logistic_s16_params;

TW_KERNEL(tw_logistic_s16) {
    const tw_logistic_s16_params p = *params;
    const int16_t *x = (const int16_t *)in[0];
    const uint16_t *TW_RESTRICT table = (const uint16_t *)in[1];
    int16_t *y = (int16_t *)out[0];
    (void)scratch;
    for (int32_t i = 0; i < p.size; ++i) {
        const int32_t at = tw_sigmoid_scaled(x[i], p.mult, p.shift);
        const int32_t upper = tw_sigmoid_at(table, at < 0 ? -at : at, 9, 0x7FFF << 10);
        y[i] = (int16_t)((at < 0 ? (1 << 25) - upper + 511 : upper + 512) >> 10);
    }
}

#endif
