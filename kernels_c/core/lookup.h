/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of functions of one int16 value. */
#ifndef TW_LOOKUP_H
#define TW_LOOKUP_H

#include "tw.h"

/* A table of 513 values at x, clamped to int16 and interpolated. */
TW_INLINE int32_t tw_lookup_s16(const int16_t *table, int32_t x) {
    const int32_t at = tw_clamp(x, INT16_MIN, INT16_MAX) + 32768, i = at >> 7;
    return table[i] + (((table[i + 1] - table[i]) * (at & 127) + 64) >> 7);
}

#endif
