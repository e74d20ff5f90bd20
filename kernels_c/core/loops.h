/* SPDX-License-Identifier: Apache-2.0 */
/* Loops over the dimensions around what a kernel does at one place: nested in compiled layers, in shared code one loop
 * that counts the dimensions up. */
#ifndef TW_LOOPS_H
#define TW_LOOPS_H

#include "tw.h"

#define TW_MAX_LOOPS 5

/* Stands before what is done at every place i of the extents n, both int32_t [TW_MAX_LOOPS], outermost first. Unused
 * dimensions stand in front with an extent of 1; a compiled layer has no loops for them. */
#define TW_EACH_PLACE(i, n)                                                                                            \
    for (i[0] = 0; i[0] < n[0]; ++i[0])                                                                                \
        for (i[1] = 0; i[1] < n[1]; ++i[1])                                                                            \
            for (i[2] = 0; i[2] < n[2]; ++i[2])                                                                        \
                for (i[3] = 0; i[3] < n[3]; ++i[3])                                                                    \
                    for (i[4] = 0; i[4] < n[4]; ++i[4])

/* How far place i lies from the first one in an operand whose neighbours along axis d are step[d] apart. */
TW_INLINE int32_t tw_place(const int32_t *i, const int32_t *step) {
    return i[0] * step[0] + i[1] * step[1] + i[2] * step[2] + i[3] * step[3] + i[4] * step[4];
}

/* Rows of two operands that are walked together: their number, the dimensions around a row, innermost first, and how
 * far each operand moves when a dimension counts up. Unused dimensions are 0. */
typedef struct {
    int32_t rows, shape[TW_MAX_LOOPS], a_jump[TW_MAX_LOOPS], b_jump[TW_MAX_LOOPS];
} tw_outer;

/* Where the operands of the current row start; at first {a, b, {0}}. */
typedef struct {
    const char *a, *b;
    int32_t index[TW_MAX_LOOPS];
} tw_row;

/* Counts up dimension d; returns 0 if it was at its end and starts again. Elements of a and b have a_bytes and
 * b_bytes. */
TW_INLINE int tw_count_up(tw_row *row, const tw_outer *outer, int32_t d, int32_t a_bytes, int32_t b_bytes) {
    if (++row->index[d] < outer->shape[d]) {
        row->a += outer->a_jump[d] * a_bytes;
        row->b += outer->b_jump[d] * b_bytes;
        return 1;
    }
    row->index[d] = 0;
    return 0;
}

/* In a compiled layer, which knows its rows, each dimension has code of its own; that of unused ones folds away. */
TW_INLINE void tw_next_row(tw_row *row, const tw_outer *outer, int32_t a_bytes, int32_t b_bytes) {
    if (__builtin_constant_p(outer->rows)) {
        TW_UNROLLED
        for (int32_t d = 0; d < TW_MAX_LOOPS; ++d)
            if (tw_count_up(row, outer, d, a_bytes, b_bytes)) return;
    } else {
        for (int32_t d = 0; d < TW_MAX_LOOPS; ++d)
            if (tw_count_up(row, outer, d, a_bytes, b_bytes)) return;
    }
}

#endif
