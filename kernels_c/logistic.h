/* LOGISTIC, float; int8 goes through a table (lut.h). */
#ifndef TW_LOGISTIC_H
#define TW_LOGISTIC_H

#include <math.h>

#include "tw.h"

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

#endif
