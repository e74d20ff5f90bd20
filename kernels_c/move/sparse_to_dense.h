/* SPDX-License-Identifier: Apache-2.0 */
/* SPARSE_TO_DENSE: a tensor of one value, and others at places that are picked by numbers. */
#ifndef TW_SPARSE_TO_DENSE_H
#define TW_SPARSE_TO_DENSE_H

#include "index.h"
#include "move.h"

/* in: at [count, depth] integers of wide bytes, values [count], or one if step is 0, of element bytes each, and one
 * element that stands elsewhere. depth is 1..4, n has as many extents in front. out: y [n], size bytes. What lies
 * outside is left out. */
typedef struct {
    int32_t count, depth, wide, step, element, size, n[TW_MAX_LOOPS];
} tw_sparse_to_dense_params;

TW_KERNEL(tw_sparse_to_dense) {
    const tw_sparse_to_dense_params p = *params;
    uint8_t *y = (uint8_t *)out[0];
    const uint8_t *value = (const uint8_t *)in[1];
    tw_fill(y, p.size, (const uint8_t *)in[2], p.element);
    for (int32_t i = 0; i < p.count; ++i, value += p.step * p.element) {
        int32_t place = 0, inside = 1;
        for (int32_t d = 0; d < p.depth; ++d) {
            const int64_t at = tw_index_at(in[0], i * p.depth + d, p.wide);
            if (at < 0 || at >= p.n[d]) inside = 0;
            place = place * p.n[d] + tw_clamped_index(at, p.n[d] - 1);
        }
        if (inside) memcpy(y + (ptrdiff_t)place * p.element, value, (size_t)p.element);
    }
}

#endif
