/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over an input that comes piece by piece; they last from call to call in scratch memory. */
#ifndef TW_PART_H
#define TW_PART_H

#include "tw.h"

/* The elements of the input that a call sees: count of them, from first on. The call with the first ones begins the sums,
 * the one with the last ones writes the output. */
typedef struct {
    int32_t first, count;
} tw_part;

/* sums[channels] += the pixels of a part of an image. */
TW_INLINE void tw_part_sums_s8(const int8_t *TW_RESTRICT x, tw_part part, int32_t channels, int32_t *TW_RESTRICT sums) {
    if (part.first == 0) memset(sums, 0, (size_t)channels * sizeof *sums);
    for (int32_t i = 0; i < part.count; i += channels)
        for (int32_t c = 0; c < channels; ++c) sums[c] += x[i + c];
}

#endif
