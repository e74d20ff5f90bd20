/* SPDX-License-Identifier: Apache-2.0 */
/* HARD_SWISH, float: x * min(max(x + 3, 0), 6) / 6; int8 goes through a table (lut.h). */
#ifndef TW_HARD_SWISH_H
#define TW_HARD_SWISH_H

#include "../core/tw.h"

/* in: x [size] (may be planned in place). out: y [size]. */
typedef struct {
    int32_t size;
} tw_hard_swish_f32_params;

TW_KERNEL(tw_hard_swish_f32) {
    const tw_hard_swish_f32_params p = *params;
    const float *x = (const float *)in[0];
    float *y = (float *)out[0];
    (void)scratch;
    for (int32_t i = 0; i < p.size; ++i) {
        const float raised = x[i] + 3.0f > 0.0f ? x[i] + 3.0f : 0.0f;
        y[i] = x[i] * (raised < 6.0f ? raised : 6.0f) / 6.0f;
    }
}

#endif
