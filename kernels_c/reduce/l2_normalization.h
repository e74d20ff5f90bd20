/* SPDX-License-Identifier: Apache-2.0 */
/* L2_NORMALIZATION: x over the root of the sum of its squares, along the last dimension. */
#ifndef TW_L2_NORMALIZATION_H
#define TW_L2_NORMALIZATION_H

#include <math.h>

#include "../core/axis.h"
#include "../core/inverse_root.h"

/* in: x [axis] (may be planned in place). out: y [axis]; a root below 1e-6 counts as 1e-6. */
typedef struct {
    tw_last_axis axis;
} tw_l2_normalization_f32_params;

/* int8 of scale 1/128; zero: the zero point of x. The sum of squares fits int32. */
typedef struct {
    tw_last_axis axis;
    int32_t zero;
} tw_l2_normalization_s8_params;

TW_KERNEL(tw_l2_normalization_f32) {
    const tw_l2_normalization_f32_params p = *params;
    const float *x = (const float *)in[0];
    float *y = (float *)out[0];
    for (int32_t r = 0; r < p.axis.rows; ++r, x += p.axis.depth, y += p.axis.depth) {
        float sum = 0.0f;
        for (int32_t c = 0; c < p.axis.depth; ++c) sum += x[c] * x[c];
        const float norm = sqrtf(sum) < 1e-6f ? 1e-6f : sqrtf(sum);
        for (int32_t c = 0; c < p.axis.depth; ++c) y[c] = x[c] / norm;
    }
}

TW_KERNEL(tw_l2_normalization_s8) {
    const tw_l2_normalization_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    for (int32_t r = 0; r < p.axis.rows; ++r, x += p.axis.depth, y += p.axis.depth) {
        int32_t sum = 0, right;
        for (int32_t c = 0; c < p.axis.depth; ++c) sum += (x[c] - p.zero) * (x[c] - p.zero);
        const int32_t mult = tw_inverse_root(sum, &right);
        for (int32_t c = 0; c < p.axis.depth; ++c)
            y[c] = (int8_t)tw_clamp(tw_requantize(x[c] - p.zero, mult, 7 - right), INT8_MIN, INT8_MAX);
    }
}

#endif
