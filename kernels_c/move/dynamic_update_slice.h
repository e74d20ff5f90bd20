/* SPDX-License-Identifier: Apache-2.0 */
/* DYNAMIC_UPDATE_SLICE: a tensor with a box of it replaced, whose place is known at run time only. */
#ifndef TW_DYNAMIC_UPDATE_SLICE_H
#define TW_DYNAMIC_UPDATE_SLICE_H

#include "index.h"

/* in: x [size bytes] (may be planned in place), update [n, run bytes], starts of wide bytes each. out: y [size bytes].
 * Neighbours of the box along loop i lie steps[i] bytes apart in y. Number axis[k] of starts, brought into 0..last[k],
 * moves the box by strides[k] bytes; last is 0 where k is not used. */
typedef struct {
    int32_t size, run, wide, n[TW_MAX_LOOPS], steps[TW_MAX_LOOPS];
    int32_t axis[TW_MAX_LOOPS], last[TW_MAX_LOOPS], strides[TW_MAX_LOOPS];
} tw_dynamic_update_slice_params;

TW_KERNEL(tw_dynamic_update_slice) {
    const tw_dynamic_update_slice_params p = *params;
    const uint8_t *update = (const uint8_t *)in[1];
    uint8_t *y = (uint8_t *)out[0];
    int32_t i[TW_MAX_LOOPS];
    if (out[0] != in[0]) memcpy(y, in[0], (size_t)p.size);
    for (int32_t k = 0; k < TW_MAX_LOOPS; ++k)
        if (p.last[k] > 0) y += tw_clamped_index(tw_index_at(in[2], p.axis[k], p.wide), p.last[k]) * p.strides[k];
    TW_EACH_PLACE(i, p.n) {
        memcpy(y + tw_place(i, p.steps), update, (size_t)p.run);
        update += p.run;
    }
}

#endif
