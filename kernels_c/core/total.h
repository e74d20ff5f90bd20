/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of any number of int8 values in steps of an output. */
#ifndef TW_TOTAL_H
#define TW_TOTAL_H

#include "tw.h"

/* How a sum becomes an output: mult 2^30..2^31-1 or 0 and shift 0..31 to the right are for sums times 2^19, as TFLM has
 * them. */
typedef struct {
    int32_t zero, out_zero, mult, shift;
} tw_total;

/* A sum of values less their zero point in steps of the output, rounded twice as by tw_requantize. In 64 bits, where no
 * sum is too large: TFLM's leave int32 from 17 values on. */
TW_INLINE int8_t tw_total_s8(int32_t sum, const tw_total *p) {
    const int64_t high = ((int64_t)sum * p->mult + (1 << 11)) >> 12;
    const int64_t half = p->shift > 0 ? (int64_t)1 << (p->shift - 1) : 0;
    const int64_t steps = (p->shift > 0 && high < 0 ? high + half - 1 : high + half) >> p->shift;
    const int64_t y = steps + p->out_zero;
    return (int8_t)(y < INT8_MIN ? INT8_MIN : y > INT8_MAX ? INT8_MAX : y);
}

#endif
