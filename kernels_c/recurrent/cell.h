/* SPDX-License-Identifier: Apache-2.0 */
/* What recurrent operators share: sizes, and where sequences lie. */
#ifndef TW_CELL_H
#define TW_CELL_H

#include "../core/tw.h"

/* Gates of an LSTM. */
#define TW_MAX_GATES 4

/* The values of step t of sequence b begin at element first + b * batch + t * step. */
typedef struct {
    int32_t first, batch, step;
} tw_sequence;

/* A cell runs over sequences. At each step x [size] and other [extra] (0: there is none) become y [outputs]; units are
 * the cell's own values, as many as outputs if nothing projects them. */
typedef struct {
    int32_t batches, steps, size, extra, units, outputs;
    tw_sequence x, other, y;
} tw_cell;

TW_INLINE ptrdiff_t tw_sequence_at(const tw_sequence *s, int32_t b, int32_t t) {
    return s->first + (ptrdiff_t)b * s->batch + (ptrdiff_t)t * s->step;
}

TW_INLINE int32_t tw_clamp16(int32_t x) { return tw_clamp(x, INT16_MIN, INT16_MAX); }

#endif
