/* SPDX-License-Identifier: Apache-2.0 */
/* y = table[x]: any function of one byte, computed when planning. */
#ifndef TW_LUT_H
#define TW_LUT_H

#include "../core/each.h"

/* in: x [size] bytes (may be planned in place), table [256], indexed by the byte as unsigned. out: y [size] bytes. */
typedef struct {
    int32_t size;
} tw_lut_params;

TW_KERNEL(tw_lut) {
    const uint8_t *TW_RESTRICT table = (const uint8_t *)in[1];
    TW_EACH(tw_lut, uint8_t, uint8_t, table[x]);
}

#endif
