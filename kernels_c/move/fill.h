/* SPDX-License-Identifier: Apache-2.0 */
/* FILL, ZEROS_LIKE and ONE_HOT: tensors of one value, or of two. */
#ifndef TW_FILL_H
#define TW_FILL_H

#include "index.h"
#include "move.h"

/* in: value, one element of element bytes (1, 2, 4, 8 or 16). out: y [size bytes]. */
typedef struct {
    int32_t size, element;
} tw_fill_all_params;

TW_KERNEL(tw_fill_all) { tw_fill((uint8_t *)out[0], params->size, (const uint8_t *)in[0], params->element); }

/* in: numbers [outer, inner] of wide bytes (4 or 8), on and off: one element of element bytes each. out: y [outer,
 * depth, inner]: on at the place along depth that the number says, off elsewhere, and where it is none of them. */
typedef struct {
    int32_t outer, depth, inner, wide, element;
} tw_one_hot_params;

TW_KERNEL(tw_one_hot) {
    const tw_one_hot_params p = *params;
    uint8_t *y = (uint8_t *)out[0];
    tw_fill(y, p.outer * p.depth * p.inner * p.element, (const uint8_t *)in[2], p.element);
    for (int32_t i = 0; i < p.outer * p.inner; ++i) {
        const int64_t at = tw_index_at(in[0], i, p.wide);
        if (at < 0 || at >= p.depth) continue;
        const ptrdiff_t place = ((ptrdiff_t)(i / p.inner) * p.depth + (ptrdiff_t)at) * p.inner + i % p.inner;
        memcpy(y + place * p.element, in[1], (size_t)p.element);
    }
}

#endif
