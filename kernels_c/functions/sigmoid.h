/* SPDX-License-Identifier: Apache-2.0 */
/* The logistic function of int16 by a table, for LOGISTIC and TANH: TFLM's integers. */
#ifndef TW_SIGMOID_H
#define TW_SIGMOID_H

#include "../core/each.h"

/* in: x [size] (may be planned in place), table (tw_sigmoid_at). out: y [size] with 15 fractional bits. mult 0..65535,
 * shift 0..31. */
typedef struct {
    int32_t size, mult, shift;
} tw_sigmoid_s16_params;

/* x * mult / 2^shift rounded half up: in steps of which 2^17 are 32/3. */
TW_INLINE int32_t tw_sigmoid_scaled(int32_t x, int32_t mult, int32_t shift) {
    return (x * mult + (shift > 0 ? 1 << (shift - 1) : 0)) >> shift;
}

/* table uint16 [256]: 2^16 / (1 + exp(-i / 24)). Its value at magnitude / 2^bits, interpolated, with 16 + bits
 * fractional bits; most beyond its end. */
TW_INLINE int32_t tw_sigmoid_at(const uint16_t *table, int32_t magnitude, int32_t bits, int32_t most) {
    const int32_t i = magnitude >> bits;
    if (i >= 255) return most;
    return (table[i] << bits) + (magnitude & ((1 << bits) - 1)) * (table[i + 1] - table[i]);
}

#endif
