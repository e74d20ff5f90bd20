/* SPDX-License-Identifier: Apache-2.0 */
/* SLICE and STRIDED_SLICE whose place is known at run time only. */
#ifndef TW_SLICE_AT_H
#define TW_SLICE_AT_H

#include "index.h"
#include "move.h"

/* Number axis of the starts, of wide bytes each, counts from the end of the extent if it is negative (extent 0: it does
 * not). Brought into low..low + last, it moves the box by stride bytes per step above low. last is 0 where a loop is
 * not used. */
typedef struct {
    int32_t axis[TW_MAX_LOOPS], extent[TW_MAX_LOOPS], low[TW_MAX_LOOPS], last[TW_MAX_LOOPS], stride[TW_MAX_LOOPS];
} tw_slice_moves;

/* in: x, read as tw_slice reads it but for moves, numbers. out: y [n, count], contiguous elements. */
typedef struct {
    int32_t start, size, count, step, n[TW_MAX_LOOPS], steps[TW_MAX_LOOPS], wide;
    tw_slice_moves moves;
} tw_slice_at_params;

/* How far the box is moved along loop k, in bytes. */
TW_INLINE int32_t tw_slice_moved(const void *numbers, int32_t wide, const tw_slice_moves *moves, int32_t k) {
    int64_t at = tw_index_at(numbers, moves->axis[k], wide);
    if (at < 0) at += moves->extent[k];
    return at < moves->low[k] ? 0 : tw_clamped_index(at - moves->low[k], moves->last[k]) * moves->stride[k];
}

TW_KERNEL(tw_slice_at) {
    const tw_slice_at_params p = *params;
    const uint8_t *x = (const uint8_t *)in[0] + p.start;
    uint8_t *y = (uint8_t *)out[0];
    int32_t i[TW_MAX_LOOPS];
    for (int32_t k = 0; k < TW_MAX_LOOPS; ++k)
        if (p.moves.last[k] > 0) x += tw_slice_moved(in[1], p.wide, &p.moves, k);
    TW_EACH_PLACE(i, p.n) {
        tw_move(y, p.size, x + tw_place(i, p.steps), p.step, p.count, p.size);
        y += p.count * p.size;
    }
}

#endif
