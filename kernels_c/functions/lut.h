/* SPDX-License-Identifier: Apache-2.0 */
/* y = table[x]: any function of one byte or of one int16, computed when planning. */
#ifndef TW_LUT_H
#define TW_LUT_H

#include "../core/each.h"
#include "../core/lookup.h"

/* in: x [size] bytes (may be planned in place), table [256], indexed by the byte as unsigned. out: y [size] bytes. */
typedef struct {
    int32_t size;
} tw_lut_params;

TW_KERNEL(tw_lut) {
    const uint8_t *TW_RESTRICT table = (const uint8_t *)in[1];
    TW_EACH(tw_lut, uint8_t, uint8_t, table[x]);
}

/* in: x int16 [size] (may be planned in place), table int16 [513]: from -32768 on every 128. out: y int16 [size],
 * interpolated. */
typedef struct {
    int32_t size;
} tw_lut_s16_params;

TW_KERNEL(tw_lut_s16) {
    const int16_t *TW_RESTRICT table = (const int16_t *)in[1];
    TW_EACH(tw_lut_s16, int16_t, int16_t, tw_lookup_s16(table, x));
}

#endif
