/* TANH, float; int8 goes through a table (lut.h). */
#ifndef TW_TANH_H
#define TW_TANH_H

#include <math.h>

#include "tw.h"

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

#endif
