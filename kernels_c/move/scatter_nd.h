/* SPDX-License-Identifier: Apache-2.0 */
/* SCATTER_ND: slices added to zeros, at places picked by numbers along several leading dimensions. */
#ifndef TW_SCATTER_ND_H
#define TW_SCATTER_ND_H

#include "index.h"

/* in: at [count, depth] int32, updates [count, run elements]. depth is 1..TW_MAX_LOOPS, n has its extents in front. out:
 * y [n, run elements], size bytes in all. kind: the bytes of an integer (1, 2, 4 or 8; sums wrap), 0 for float32, -1 for
 * bool (or). A slice outside is left out. */
typedef struct {
    int32_t count, depth, run, size, kind, n[TW_MAX_LOOPS];
} tw_scatter_nd_params;

#define TW_SCATTER(type, sum)                                                                                          \
    for (int32_t i = 0; i < count; ++i) {                                                                              \
        const type a = ((type *)y)[i], b = ((const type *)x)[i];                                                       \
        ((type *)y)[i] = (type)(sum);                                                                                  \
    }                                                                                                                  \
    return

/* y += x, count elements. */
TW_INLINE void tw_scatter_add(void *TW_RESTRICT y, const void *TW_RESTRICT x, int32_t count, int32_t kind) {
    switch (kind) {
    case 0: TW_SCATTER(float, a + b);
    case 1: TW_SCATTER(uint8_t, a + b);
    case 2: TW_SCATTER(uint16_t, a + b);
    case 4: TW_SCATTER(uint32_t, a + b);
    case 8: TW_SCATTER(uint64_t, a + b);
    default: TW_SCATTER(uint8_t, a | b);
    }
}

/* The slice that a row of numbers means; -1 if one is outside. */
TW_INLINE int32_t tw_scatter_at(const int32_t *at, int32_t depth, const int32_t *n) {
    int32_t slice = 0;
    for (int32_t d = 0; d < depth; ++d) {
        if (at[d] < 0 || at[d] >= n[d]) return -1;
        slice = slice * n[d] + at[d];
    }
    return slice;
}

TW_KERNEL(tw_scatter_nd) {
    const tw_scatter_nd_params p = *params;
    const int32_t *at = (const int32_t *)in[0];
    const int32_t bytes = p.run * (p.kind > 0 ? p.kind : p.kind == 0 ? 4 : 1);
    memset(out[0], 0, (size_t)p.size);
    for (int32_t i = 0; i < p.count; ++i) {
        const int32_t slice = tw_scatter_at(at + (ptrdiff_t)i * p.depth, p.depth, p.n);
        if (slice < 0) continue;
        tw_scatter_add((uint8_t *)out[0] + (ptrdiff_t)slice * bytes, (const uint8_t *)in[1] + (ptrdiff_t)i * bytes,
                       p.run, p.kind);
    }
}

#endif
