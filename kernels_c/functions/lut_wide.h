/* SPDX-License-Identifier: Apache-2.0 */
/* y = table[x] of bytes, many at once on computers; lut.h is the same for microcontrollers. */
#ifndef TW_LUT_WIDE_H
#define TW_LUT_WIDE_H

#include "../isa/wide/table.h"

/* in: x [size] bytes (may be planned in place), table [256], indexed by the byte as unsigned. out: y [size] bytes. */
typedef struct {
    int32_t size;
} tw_lut_wide_params;

TW_KERNEL(tw_lut_wide) {
    const int32_t size = params->size;
    const uint8_t *x = (const uint8_t *)in[0], *bytes = (const uint8_t *)in[1];
    uint8_t *y = (uint8_t *)out[0];
    int32_t i = 0;
#if defined(TW_TABLE)
    if (size >= 2 * TW_TABLE) {
        const tw_byte_table table = tw_table_load(bytes);
        for (; i <= size - TW_TABLE; i += TW_TABLE) tw_table_look_up(&table, x + i, y + i);
    }
#endif
    for (; i < size; ++i) y[i] = bytes[x[i]];
}

#endif
