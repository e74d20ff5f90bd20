/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of elements that are computed at run time: read from any integer type, and kept inside. */
#ifndef TW_INDEX_H
#define TW_INDEX_H

#include "../core/loops.h"

/* Element i of numbers with wide bytes each: 2, 4 or 8. */
TW_INLINE int64_t tw_index_at(const void *numbers, int32_t i, int32_t wide) {
    switch (wide) {
    case 2: return ((const int16_t *)numbers)[i];
    case 4: return ((const int32_t *)numbers)[i];
    default: return ((const int64_t *)numbers)[i];
    }
}

/* The nearest number in 0..last. */
TW_INLINE int32_t tw_clamped_index(int64_t at, int32_t last) { return at < 0 ? 0 : at < last ? (int32_t)at : last; }

#endif
