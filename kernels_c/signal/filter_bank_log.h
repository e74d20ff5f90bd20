/* SPDX-License-Identifier: Apache-2.0 */
/* SignalFilterBankLog: natural logarithms in fixed point, by a table. */
#ifndef TW_FILTER_BANK_LOG_H
#define TW_FILTER_BANK_LOG_H

#include "bits.h"

/* in: x [size] uint32, by how much log2(1 + i / 128) exceeds i / 128 [129] uint16, in units of 2^-16. out: y [size]
 * int16: scale * ln(x << shift) / 2^16, shift 0..31. */
typedef struct {
    int32_t size, shift;
    uint32_t scale;
} tw_filter_bank_log_params;

/* log2(x) in units of 2^-16, x > 0. */
TW_INLINE uint32_t tw_log2(uint32_t x, const uint16_t *table) {
    const int32_t whole = tw_bits(x) - 1;
    const uint32_t beyond = x - (1U << whole);
    const int32_t part = (int32_t)(whole < 16 ? beyond << (16 - whole) : beyond >> (whole - 16));
    const int32_t segment = part >> 9, first = table[segment], step = table[segment + 1] - first;
    return ((uint32_t)whole << 16) + (uint32_t)(part + first + ((step * (part & 511)) >> 16));
}

TW_KERNEL(tw_filter_bank_log) {
    const tw_filter_bank_log_params p = *params;
    const uint32_t *x = (const uint32_t *)in[0];
    int16_t *y = (int16_t *)out[0];
    for (int32_t i = 0; i < p.size; ++i) {
        const uint32_t shifted = x[i] << p.shift;
        uint32_t scaled = 0;
        if (shifted > 1) {
            const uint64_t log2 = tw_log2(shifted, (const uint16_t *)in[1]);
            scaled = (p.scale * (uint32_t)((45426 * log2 + 32768) >> 16) + 32768) >> 16; /* ln 2 is 45426 / 2^16 */
        }
        y[i] = (int16_t)(scaled < INT16_MAX ? scaled : INT16_MAX);
    }
}

#endif
