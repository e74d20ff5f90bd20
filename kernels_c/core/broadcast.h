/* SPDX-License-Identifier: Apache-2.0 */
/* Two operands of different shapes, one output: the walk over rows that element-wise kernels share.
 *
 * runtime/ops/core/broadcast.py collapses the dimensions and fills these params, which every such kernel has:
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

/* What the walk needs of a kernel's params, and the bytes of an element of a, b and y. */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, a_bytes, b_bytes, y_bytes;
    const int32_t *shape, *a_jump, *b_jump;
} tw_walk;

/* One row: y of the row a and the row b, whose elements are a_step and b_step apart. */
typedef void tw_row_fn(const void *params, const void *a, int32_t a_step, const void *b, int32_t b_step, void *y);

/* One element: *y of *a and *b. */
typedef void tw_pair_fn(const void *params, const void *a, const void *b, void *y);

/* copies times the row b of bytes bytes, in scratch; b itself if once is enough. */
TW_INLINE const void *tw_tiled(const void *b, int32_t bytes, int32_t copies, void *scratch) {
    if (copies == 1) return b;
    for (int32_t i = 0; i < copies; ++i) memcpy((char *)scratch + i * bytes, b, (size_t)bytes);
    return scratch;
}

/* fn, which folds away, of all pairs; the steps are read at run time, tile is 1. */
TW_INLINE void tw_each_pair(const tw_walk *walk, const void *const *in, void *const *out, tw_pair_fn *fn,
                            const void *params) {
    const char *a = (const char *)in[0], *b = (const char *)in[1];
    char *y = (char *)out[0];
    tw_row at = tw_first_row();
    for (int32_t row = 0; row < walk->rows; ++row, y += walk->size * walk->y_bytes) {
        for (int32_t i = 0; i < walk->size; ++i) {
            const int32_t m = at.a + i * walk->a_step, n = at.b + i * walk->b_step;
            fn(params, a + m * walk->a_bytes, b + n * walk->b_bytes, y + i * walk->y_bytes);
        }
        tw_next_row(&at, walk->shape, walk->a_jump, walk->b_jump);
    }
}

/* fn, which folds away, of all rows, with a loop for each pair of steps, so that compilers know them. */
TW_INLINE void tw_rows_apart(const tw_walk *walk, const void *const *in, void *const *out, void *scratch, tw_row_fn *fn,
                             const void *params) {
    const char *a = (const char *)in[0];
    const char *b = (const char *)tw_tiled(in[1], walk->size / walk->tile * walk->b_bytes, walk->tile, scratch);
    char *y = (char *)out[0];
    tw_row at = tw_first_row();
    for (int32_t row = 0; row < walk->rows; ++row, y += walk->size * walk->y_bytes) {
        const char *a_row = a + at.a * walk->a_bytes, *b_row = b + at.b * walk->b_bytes;
        if (walk->a_step == 0)
            fn(params, a_row, 0, b_row, 1, y);
        else if (walk->b_step == 0)
            fn(params, a_row, 1, b_row, 0, y);
        else
            fn(params, a_row, 1, b_row, 1, y);
        tw_next_row(&at, walk->shape, walk->a_jump, walk->b_jump);
    }
}

#endif
