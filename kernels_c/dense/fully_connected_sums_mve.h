/* SPDX-License-Identifier: Apache-2.0 */
/* FULLY_CONNECTED of one batch whose input comes piece by piece, on Helium. */
#ifndef TW_FULLY_CONNECTED_SUMS_MVE_H
#define TW_FULLY_CONNECTED_SUMS_MVE_H

#include "../core/part.h"
#include "fully_connected_mve.h"

/* int8. in and out as for tw_fully_connected_mve_s8, but x [part.count]; out is at least 4. scratch: int32 [out rounded
 * up to 4], four sums for every four channels of ends. */
typedef struct {
    tw_fully_connected_mve_s8_params all;
    tw_part part;
} tw_fully_connected_sums_mve_s8_params;

TW_KERNEL(tw_fully_connected_sums_mve_s8) {
    const tw_fully_connected_mve_s8_params p = params->all;
    const tw_part part = params->part;
    const int8_t *x = (const int8_t *)in[0], *w = (const int8_t *)in[1] + part.first;
    const int32_t rows[] = {p.depth, 2 * p.depth, 3 * p.depth, part.count};
    const int32_t whole = part.first + part.count == p.depth;
    const int32_t *ends = (const int32_t *)in[2], step = part.first == 0 ? 9 : 4;
    int32_t *sums = (int32_t *)scratch;
    const int32_t *begin = part.first == 0 ? ends : sums;
#pragma GCC unroll 1
    for (int32_t c = 0; c < p.out; c += 4, ends += 9, begin += step, sums += 4) {
        const int32_t at = tw_min(c, p.out - 4);
        const tw_v4 four = tw_mve_tile1(x, w + at * p.depth, rows, begin);
        if (whole) {
            const tw_v4 mult = tw_v4_load(ends + 4, 4), shift = tw_v4_load_s8((const int8_t *)(ends + 8), 4);
            tw_v4_store_s8((int8_t *)out[0] + at, tw_v4_scaled(four, mult, shift), p.end.zero, p.end.low, p.end.high,
                           4);
        } else {
            tw_v4_store(sums, four);
        }
    }
}

#endif
