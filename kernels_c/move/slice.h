/* SPDX-License-Identifier: Apache-2.0 */
/* Picks evenly spaced elements: SLICE, STRIDED_SLICE and any TRANSPOSE. */
#ifndef TW_SLICE_H
#define TW_SLICE_H

#include "../core/loops.h"
#include "move.h"

/* in: x, read from byte start on: rows of count elements of size bytes, step bytes apart; neighbours along loop i are
 * steps[i] bytes apart. Steps are negative to run backwards. out: y [n, count], contiguous elements. An element is a
 * contiguous run of any length. */
typedef struct {
    int32_t start, size, count, step, n[TW_MAX_LOOPS], steps[TW_MAX_LOOPS];
} tw_slice_params;

TW_KERNEL(tw_slice) {
    const tw_slice_params p = *params;
    const uint8_t *x = (const uint8_t *)in[0] + p.start;
    uint8_t *y = (uint8_t *)out[0];
    int32_t i[TW_MAX_LOOPS];
    TW_EACH_PLACE(i, p.n) {
        tw_move(y, p.size, x + tw_place(i, p.steps), p.step, p.count, p.size);
        y += p.count * p.size;
    }
}

#endif
