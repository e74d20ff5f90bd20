/* SPDX-License-Identifier: Apache-2.0 */
/* y = table[x]: any function of one byte, computed when planning. */
#ifndef TW_LUT_H
#define TW_LUT_H

#include "../core/tw.h"

/* in: x [size] bytes (may be planned in place), table [256], indexed by the byte as unsigned. out: y [size] bytes. */
typedef struct {
    int32_t size;
} tw_lut_params;

TW_KERNEL(tw_lut) {
    const tw_lut_params p = *params;
    const uint8_t *x = (const uint8_t *)in[0];
    const uint8_t *TW_RESTRICT table = (const uint8_t *)in[1];
    uint8_t *y = (uint8_t *)out[0];
    (void)scratch;
    for (int32_t i = 0; i < p.size; ++i) y[i] = table[x[i]];
}

#endif
