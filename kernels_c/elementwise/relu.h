/* SPDX-License-Identifier: Apache-2.0 */
/* RELU and its bounded kin: clamping. */
#ifndef TW_RELU_H
#define TW_RELU_H

#include "../core/tw.h"

/* Input and output have the same quantisation. in: x [size] (may be planned in place). out: y [size]. */
typedef struct {
    int32_t size, low, high;
} tw_relu_s8_params;

TW_KERNEL(tw_relu_s8) {
    const tw_relu_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    const int8_t low = (int8_t)p.low, high = (int8_t)p.high;
    (void)scratch;
    for (int32_t i = 0; i < p.size; ++i) {
        const int8_t raised = x[i] < low ? low : x[i];
        y[i] = raised > high ? high : raised;
    }
}

/* int16 with zero points of 0, requantised by mult and shift. in: x [size] (may be planned in place). out: y [size]. */
typedef struct {
    int32_t size, mult, shift, low, high;
} tw_relu_s16_params;

TW_KERNEL(tw_relu_s16) {
    const tw_relu_s16_params p = *params;
    const int16_t *x = (const int16_t *)in[0];
    int16_t *y = (int16_t *)out[0];
    (void)scratch;
    for (int32_t i = 0; i < p.size; ++i) y[i] = (int16_t)tw_clamp(tw_requantize(x[i], p.mult, p.shift), p.low, p.high);
}

/* high may be infinite. A NaN stays one. in: x [size] (may be planned in place). out: y [size]. */
typedef struct {
    int32_t size;
    float low, high;
} tw_relu_f32_params;

TW_KERNEL(tw_relu_f32) {
    const tw_relu_f32_params p = *params;
    const float *x = (const float *)in[0];
    float *y = (float *)out[0];
    (void)scratch;
    for (int32_t i = 0; i < p.size; ++i) y[i] = tw_clampf(x[i], p.low, p.high);
}

#endif
