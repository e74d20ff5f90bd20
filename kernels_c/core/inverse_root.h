/* SPDX-License-Identifier: Apache-2.0 */
/* The inverse square root of integers. */
#ifndef TW_INVERSE_ROOT_H
#define TW_INVERSE_ROOT_H

#include "tw.h"

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

#endif
