/* LEAKY_RELU; int8 goes through lut.h. */
#ifndef TW_LEAKY_RELU_H
#define TW_LEAKY_RELU_H

#include "tw.h"

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

#endif
