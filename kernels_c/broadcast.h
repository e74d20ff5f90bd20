/* Two operands of different shapes, one output: the walk over rows that element-wise kernels share.
 *
 * runtime/ops/_broadcast.py collapses the dimensions and fills these params, which every such kernel has:
 *   size                    elements of a row, the innermost collapsed dimension
 *   tile                    above 1: b is one row of size / tile elements for all of a. It is laid out tile times in
 *                           scratch (size elements), so that rows are long enough for SIMD
 *   a_step, b_step          1, or 0 where the operand has one value for the whole row (never both 0)
 *   rows                    number of rows
 *   shape, a_jump, b_jump   outer dimensions, innermost first, and how far an operand moves where each counts up
 * The output is written row after row. */
#ifndef TW_BROADCAST_H
#define TW_BROADCAST_H

#include "tw.h"

#define TW_MAX_OUTER 5

/* Where the operands of the current row start, in elements. */
typedef struct {
    int32_t a, b;
    int32_t index[TW_MAX_OUTER];
} tw_row;

TW_INLINE tw_row tw_first_row(void) {
    const tw_row row = {0, 0, {0}};
    return row;
}

TW_INLINE void tw_next_row(tw_row *row, const int32_t *shape, const int32_t *a_jump, const int32_t *b_jump) {
    for (int32_t d = 0; d < TW_MAX_OUTER; ++d) {
        if (++row->index[d] < shape[d]) {
            row->a += a_jump[d];
            row->b += b_jump[d];
            return;
        }
        row->index[d] = 0;
    }
}

/* copies times the row b of bytes bytes, in scratch; b itself if once is enough. */
TW_INLINE const void *tw_tiled(const void *b, int32_t bytes, int32_t copies, void *scratch) {
    if (copies == 1) return b;
    for (int32_t i = 0; i < copies; ++i) memcpy((char *)scratch + i * bytes, b, (size_t)bytes);
    return scratch;
}

#endif
