/* SPDX-License-Identifier: Apache-2.0 */
/* FULLY_CONNECTED, int16 activations and int8 weights, on Helium. */
#ifndef TW_FULLY_CONNECTED_MVE_S16_H
#define TW_FULLY_CONNECTED_MVE_S16_H

#include "../isa/mve/mve_tile_s16.h"

/* in: x [batches, depth], then fours of channels (mve_tile_s16.h). blocks: depth / 8, rounded up. chunk: activations
 * after which sums are added to the total. out: y [batches, out]. */
typedef struct {
    tw_limits limits;
    int32_t batches, depth, blocks, chunk, out;
} tw_fully_connected_mve_s16_params;

TW_KERNEL(tw_fully_connected_mve_s16) {
    const tw_fully_connected_mve_s16_params p = *params;
    const tw_mve_matrix_s16 m = {p.depth, p.blocks, p.chunk, p.out, p.limits};
    const int16_t *x = (const int16_t *)in[0];
    int16_t *y = (int16_t *)out[0];
    for (int32_t b = 0; b < p.batches; ++b, x += p.depth, y += p.out) tw_mve_row_s16(x, (const int32_t *)in[1], y, &m);
}

#endif
