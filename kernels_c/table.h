/* Any function of one 8-bit value: 256 results, worked out when planning. */
#ifndef TW_TABLE_H
#define TW_TABLE_H

#include "tw.h"

/* in: x [size] 8 bits (may be planned in place), table [256] by x taken as unsigned. out: y [size] 8 bits. */
typedef struct { int32_t size; } tw_table_8_params;

TW_KERNEL(tw_table_8) {
    const tw_table_8_params p = *params;
    const uint8_t *x = (const uint8_t *)in[0];
    const uint8_t *TW_RESTRICT table = (const uint8_t *)in[1];
    uint8_t *y = (uint8_t *)out[0];
    (void)scratch;
    for (int32_t i = 0; i < p.size; ++i) y[i] = table[x[i]];
}

#endif
