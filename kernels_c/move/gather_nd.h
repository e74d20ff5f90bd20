/* SPDX-License-Identifier: Apache-2.0 */
/* GATHER_ND: slices picked by numbers along several leading dimensions. */
#ifndef TW_GATHER_ND_H
#define TW_GATHER_ND_H

#include "../core/bytes.h"
#include "index.h"

/* in: x [n, run bytes], at [count, depth] of wide bytes (2, 4 or 8) each; depth is 1..TW_MAX_LOOPS, n has its extents in
 * front, all above 0. out: y [count, run bytes]. A number outside takes the nearest slice. */
typedef struct {
    int32_t count, depth, wide, run, n[TW_MAX_LOOPS];
} tw_gather_nd_params;

TW_KERNEL(tw_gather_nd) {
    const tw_gather_nd_params p = *params;
    const uint8_t *x = (const uint8_t *)in[0];
    uint8_t *y = (uint8_t *)out[0];
    for (int32_t i = 0; i < p.count; ++i, y += p.run) {
        int32_t at = 0;
        for (int32_t d = 0; d < p.depth; ++d)
            at = at * p.n[d] + tw_clamped_index(tw_index_at(in[1], i * p.depth + d, p.wide), p.n[d] - 1);
        tw_copy_bytes(y, x + (ptrdiff_t)at * p.run, p.run);
    }
}

#endif
