/* SPDX-License-Identifier: Apache-2.0 */
/* LOG_SOFTMAX over the last dimension. */
#ifndef TW_LOG_SOFTMAX_H
#define TW_LOG_SOFTMAX_H

#include <float.h>
#include <math.h>

#include "softmax.h"

/* log(x) with 26 fractional bits, x >= 1 with 19 fractional bits, by a rational approximation around the nearest power
 * of 2 or its root. Source: TFLM reference_ops, log_x_for_x_greater_than_or_equal_to_1. */
TW_INLINE int32_t tw_log(int32_t x) {
    const int32_t lead = __builtin_clz((uint32_t)x), less = tw_mul_high(x, 1518500250); /* sqrt(1 / 2) */
    const int32_t other = __builtin_clz((uint32_t)less) - 1;
    const int32_t r_a = tw_mul_high(tw_shift_left(x, lead - 1), 1518500250);
    const int32_t near = r_a > INT32_MAX / 2 ? INT32_MAX : 2 * r_a;
    const int32_t far = x > INT32_MAX >> other ? INT32_MAX : x << other;
    const int32_t r = tw_min(near, far);
    const int32_t power = tw_max((12 - lead) * (1 << 25) + (1 << 23), (12 - other) * (1 << 25) - (1 << 23));
    const int32_t root = 1805811301; /* sqrt(sqrt(1 / 2)) */
    const int32_t p = (int32_t)(((int64_t)r + root + 1) >> 1), q = 2 * (r - root);
    const int32_t square = tw_mul_high(q, q);
    const int32_t top = tw_mul_high(q, r) + tw_mul_high(tw_mul_high(q, square), 117049297);
    const int32_t sum = 1057819769 + q + tw_mul_high(127690142, square);
    const int32_t below = tw_mul_high(p, sum) + tw_mul_high(638450708, q);
    const int32_t whole = tw_mul_high(power, 1488522236); /* log(2) */
    return tw_shift_left(whole + tw_mul_high(tw_round_shift(top, 6), tw_one_over_one_plus(below)), 1);
}

/* in: x [axis] (may be planned in place), steps [256] int32: -i steps with 26 fractional bits, exp [256]: its
 * exponential with 31. out: y [axis]. seen: how many entries count; mult and shift: from 26 fractional bits to
 * steps. */
typedef struct {
    tw_last_axis axis;
    int32_t seen, mult, shift;
} tw_log_softmax_s8_params;

TW_KERNEL(tw_log_softmax_s8) {
    const tw_log_softmax_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    const int32_t *TW_RESTRICT steps = (const int32_t *)in[1];
    const int32_t *TW_RESTRICT exps = (const int32_t *)in[2];
    int8_t *y = (int8_t *)out[0];
    for (int32_t r = 0; r < p.axis.rows; ++r, x += p.axis.depth, y += p.axis.depth) {
        int32_t most = INT8_MIN, sum = 0;
        for (int32_t c = 0; c < p.axis.depth; ++c) most = tw_max(most, x[c]);
        for (int32_t c = 0; c < p.axis.depth; ++c) sum += tw_round_shift(exps[most - x[c]], 12);
        const int32_t log = tw_log(sum);
        const int32_t least = tw_max(-p.seen, tw_requantize(log + INT32_MIN, p.mult, p.shift));
        for (int32_t c = 0; c < p.axis.depth; ++c) {
            const int32_t below = most - x[c];
            const int32_t q = -below > least ? tw_round_shift(tw_add(steps[below], -log), 22) + INT8_MAX : INT8_MIN;
            y[c] = (int8_t)tw_clamp(q, INT8_MIN, INT8_MAX);
        }
    }
}

/* in: x [axis] (may be planned in place). out: y [axis]. */
typedef struct {
    tw_last_axis axis;
} tw_log_softmax_f32_params;

TW_KERNEL(tw_log_softmax_f32) {
    const tw_log_softmax_f32_params p = *params;
    const float *x = (const float *)in[0];
    float *y = (float *)out[0];
    for (int32_t r = 0; r < p.axis.rows; ++r, x += p.axis.depth, y += p.axis.depth) {
        float most = -FLT_MAX, sum = 0.0f;
        for (int32_t c = 0; c < p.axis.depth; ++c) most = most < x[c] ? x[c] : most;
        for (int32_t c = 0; c < p.axis.depth; ++c) sum += expf(x[c] - most);
        const float log = logf(sum);
        for (int32_t c = 0; c < p.axis.depth; ++c) y[c] = x[c] - most - log;
    }
}

#endif
