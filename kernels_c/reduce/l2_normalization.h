/* SPDX-License-Identifier: Apache-2.0 */
/* L2_NORMALIZATION: x over the root of the sum of its squares, along the last dimension. */
#ifndef TW_L2_NORMALIZATION_H
#define TW_L2_NORMALIZATION_H

#include <math.h>

#include "../core/axis.h"

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
    (void)scratch;
    for (int32_t r = 0; r < p.axis.rows; ++r, x += p.axis.depth, y += p.axis.depth) {
        float sum = 0.0f;
        for (int32_t c = 0; c < p.axis.depth; ++c) sum += x[c] * x[c];
        const float norm = sqrtf(sum) < 1e-6f ? 1e-6f : sqrtf(sum);
        for (int32_t c = 0; c < p.axis.depth; ++c) y[c] = x[c] / norm;
    }
}

/* x * 2^left, saturated. */
TW_INLINE int32_t tw_shift_saturated(int32_t x, int32_t left) {
    const int32_t most = INT32_MAX >> left;
    return x > most ? INT32_MAX : x < -most - 1 ? INT32_MIN : tw_shift_left(x, left);
}

/* 1 / sqrt(x) = mult * 2^-(31 + *right), x >= 0 (0 counts as 1): five Newton steps on numbers with 28 fractional bits.
 * Source: TFLM quantization_util's GetInvSqrtQuantizedMultiplierExp. */
TW_INLINE int32_t tw_inverse_root(int32_t x, int32_t *right) {
    *right = 0;
    if (x <= 1) return INT32_MAX;
    int32_t shift = 11, y = 1 << 28;
    for (; x >= 1 << 29; ++shift) x /= 4;
    const int32_t pairs = (__builtin_clz((uint32_t)x) - 1) / 2 - 1;
    const int32_t value = tw_shift_left(x, 2 * pairs) >> 1, half = tw_round_shift(value, 1);
    for (int i = 0; i < 5; ++i) {
        const int32_t cube = tw_shift_saturated(tw_mul_high(tw_mul_high(y, y), y), 6);
        y = tw_shift_saturated(tw_mul_high(3 << 27, y) - tw_mul_high(half, cube), 3);
    }
    y = tw_mul_high(y, 1518500250); /* sqrt(1 / 2) */
    shift -= pairs;
    *right = tw_max(shift, 0);
    return shift < 0 ? tw_shift_left(y, -shift) : y;
}

TW_KERNEL(tw_l2_normalization_s8) {
    const tw_l2_normalization_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    (void)scratch;
    for (int32_t r = 0; r < p.axis.rows; ++r, x += p.axis.depth, y += p.axis.depth) {
        int32_t sum = 0, right;
        for (int32_t c = 0; c < p.axis.depth; ++c) sum += (x[c] - p.zero) * (x[c] - p.zero);
        const int32_t mult = tw_inverse_root(sum, &right);
        for (int32_t c = 0; c < p.axis.depth; ++c)
            y[c] = (int8_t)tw_clamp(tw_requantize(x[c] - p.zero, mult, 7 - right), INT8_MIN, INT8_MAX);
    }
}

#endif
