/* SPDX-License-Identifier: Apache-2.0 */
/* MIRROR_PAD: a tensor surrounded by its mirror image. */
#ifndef TW_MIRROR_PAD_H
#define TW_MIRROR_PAD_H

#include "../core/loops.h"

/* in: x [n, size bytes]. out: y [m, size bytes], before[i] more in front along axis i. edge: 1 if the mirror lies
 * behind the last element (SYMMETRIC), 0 if on it (REFLECT). */
typedef struct {
    int32_t size, edge, n[TW_MAX_LOOPS], m[TW_MAX_LOOPS], before[TW_MAX_LOOPS];
} tw_mirror_pad_params;

/* Which of n elements lies at i, counted from the first one; i is within one mirror image. */
TW_INLINE int32_t tw_mirrored(int32_t i, int32_t n, int32_t edge) {
    if (i < 0) return -i - edge;
    return i < n ? i : 2 * n - 2 + edge - i;
}

TW_KERNEL(tw_mirror_pad) {
    const tw_mirror_pad_params p = *params;
    const uint8_t *TW_RESTRICT x = (const uint8_t *)in[0];
    uint8_t *TW_RESTRICT y = (uint8_t *)out[0];
    int32_t index[TW_MAX_LOOPS] = {0}, axis = 0;
    while (axis >= 0) {
        int32_t from = 0;
        for (axis = 0; axis < TW_MAX_LOOPS; ++axis)
            from = from * p.n[axis] + tw_mirrored(index[axis] - p.before[axis], p.n[axis], p.edge);
        memcpy(y, x + (ptrdiff_t)from * p.size, (size_t)p.size);
        y += p.size;
        for (axis = TW_MAX_LOOPS - 1; axis >= 0 && ++index[axis] == p.m[axis]; --axis) index[axis] = 0;
    }
}

#endif
