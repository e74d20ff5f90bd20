/* SPDX-License-Identifier: Apache-2.0 */
/* RELU and its bounded variants: clamping. */
#ifndef TW_RELU_H
#define TW_RELU_H

#include "../core/each.h"

/* Input and output have the same quantisation. in: x [size] (may be planned in place). out: y [size]. */
typedef struct {
    int32_t size, low, high;
} tw_relu_s8_params;

TW_KERNEL(tw_relu_s8) {
    const tw_relu_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    const int8_t low = (int8_t)p.low, high = (int8_t)p.high;
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
    TW_EACH(tw_relu_s16, int16_t, int16_t, tw_clamp(tw_requantize(x, p.mult, p.shift), p.low, p.high));
}

/* high may be infinite. NaN stays NaN. in: x [size] (may be planned in place). out: y [size]. */
typedef struct {
    int32_t size;
    float low, high;
} tw_relu_f32_params;

TW_KERNEL(tw_relu_f32) { TW_EACH(tw_relu_f32, float, float, tw_clampf(x, p.low, p.high)); }

#endif
