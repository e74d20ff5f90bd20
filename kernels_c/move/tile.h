/* SPDX-License-Identifier: Apache-2.0 */
/* TILE along more dimensions than there are loops in tw_slice. */
#ifndef TW_TILE_H
#define TW_TILE_H

#include "../core/bytes.h"
#include "../core/loops.h"

/* in: x [n], its last extent is row bytes. out: y [n * times]. Unused dimensions stand in front: n and times 1. */
typedef struct {
    int32_t row, n[TW_MAX_LOOPS], times[TW_MAX_LOOPS];
} tw_tile_params;

/* Repeats, from the last dimension to the first, what lies in y behind every place of the dimensions before. */
TW_KERNEL(tw_tile) {
    const tw_tile_params p = *params;
    const uint8_t *x = (const uint8_t *)in[0];
    int32_t step[TW_MAX_LOOPS], size = p.row; /* step: from one place of y to the next along a dimension */
    for (int32_t d = TW_MAX_LOOPS - 1; d >= 0; --d) {
        step[d] = d == TW_MAX_LOOPS - 1 ? p.row / p.n[d] : size;
        size = step[d] * p.n[d] * p.times[d];
    }
    for (int32_t d = TW_MAX_LOOPS - 1; d >= 0; --d) {
        const int32_t block = p.n[d] * step[d];
        int32_t places = 1;
        for (int32_t k = 0; k < d; ++k) places *= p.n[k];
        for (int32_t place = 0; place < places; ++place) {
            uint8_t *y = (uint8_t *)out[0];
            for (int32_t k = d - 1, rest = place; k >= 0; rest /= p.n[k--]) y += rest % p.n[k] * step[k];
            if (d == TW_MAX_LOOPS - 1) tw_copy_bytes(y, x + (ptrdiff_t)place * p.row, p.row);
            for (int32_t i = 1; i < p.times[d]; ++i) tw_copy_bytes(y + (ptrdiff_t)i * block, y, block);
        }
    }
}

#endif
