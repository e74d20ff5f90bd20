/* SPDX-License-Identifier: Apache-2.0 */
/* Two operands of different shapes, one output: the walk over rows that element-wise kernels share. */
#ifndef TW_BROADCAST_H
#define TW_BROADCAST_H

#include "loops.h"

/* runtime/ops/core/broadcast.py collapses the dimensions and fills this, a member of every such kernel's params:
 *   size             elements of a row, the innermost collapsed dimension
 *   tile             above 1: b is one row of size / tile elements for all of a. It is laid out tile times in scratch
 *                    (size elements), so that rows are long enough for SIMD
 *   a_step, b_step   1, or 0 where the operand has one value for the whole row (never both 0)
 *   outer            the rows
 * The output is written row after row. */
typedef struct {
    int32_t size, tile, a_step, b_step;
    tw_outer outer;
} tw_walk;

/* One element: *y from *a and *b. */
typedef void tw_pair_fn(const void *params, const void *a, const void *b, void *y);

/* What pairs consist of: the bytes of an element of a, b and y, and the kernel's params. */
typedef struct {
    int32_t a, b, y;
    const void *params;
} tw_pairs;

/* Defines name##_pairs, which TW_ROWS_APART and the macros below take with name##_pair. */
#define TW_PAIRS(name, a_type, b_type, y_type)                                                                         \
    TW_INLINE tw_pairs name##_pairs(const name##_params *p) {                                                          \
        const tw_pairs pairs = {sizeof(a_type), sizeof(b_type), sizeof(y_type), p};                                    \
        return pairs;                                                                                                  \
    }

/* Defines both for y = value, an expression of a, b and the params p. */
#define TW_PAIR(name, a_type, b_type, y_type, value)                                                                   \
    TW_INLINE void name##_pair(const void *params, const void *from_a, const void *from_b, void *y) {                  \
        const name##_params *p = (const name##_params *)params;                                                        \
        const a_type a = *(const a_type *)from_a;                                                                      \
        const b_type b = *(const b_type *)from_b;                                                                      \
        (void)p;                                                                                                       \
        *(y_type *)y = (y_type)(value);                                                                                \
    }                                                                                                                  \
    TW_PAIRS(name, a_type, b_type, y_type)

/* The row b of bytes bytes, copies times in scratch; b itself if copies is 1. */
TW_INLINE const void *tw_tiled(const void *b, int32_t bytes, int32_t copies, void *scratch) {
    if (copies == 1) return b;
    for (int32_t i = 0; i < copies; ++i) memcpy((char *)scratch + i * bytes, b, (size_t)bytes);
    return scratch;
}

/* The pairs of one row of size elements, which lie a_step and b_step elements apart. Offsets are ptrdiff_t: the host's
 * extension is compiled with -fwrapv, where compilers must expect that int32_t wraps and would not vectorise. */
TW_INLINE void tw_each_of_row(tw_pair_fn *fn, tw_pairs pairs, int32_t size, const char *a, int32_t a_step,
                              const char *b, int32_t b_step, char *y) {
    for (int32_t i = 0; i < size; ++i, y += pairs.y)
        fn(pairs.params, a + (ptrdiff_t)i * a_step * pairs.a, b + (ptrdiff_t)i * b_step * pairs.b, y);
}

/* All pairs by one loop for any steps; tile is 1. */
TW_INLINE void tw_each_pair(const tw_walk *walk, tw_pair_fn *fn, tw_pairs pairs, const void *const *in,
                            void *const *out) {
    const int32_t size = walk->size, a_step = walk->a_step, b_step = walk->b_step, rows = walk->outer.rows;
    char *y = (char *)out[0];
    tw_row at = {(const char *)in[0], (const char *)in[1], {0}};
    for (int32_t row = 0; row < rows; ++row, y += size * pairs.y) {
        tw_each_of_row(fn, pairs, size, at.a, a_step, at.b, b_step, y);
        tw_next_row(&at, &walk->outer, pairs.a, pairs.b);
    }
}

/* All pairs, with one loop per pair of steps, so that compilers know them. a_step: that of the walk, or 1 if no call of
 * the kernel has another. */
TW_INLINE void tw_rows_apart(const tw_walk *walk, int32_t a_step, tw_pair_fn *fn, tw_pairs pairs, const void *const *in,
                             void *const *out, void *scratch) {
    const int32_t size = walk->size, tile = walk->tile, b_step = walk->b_step, rows = walk->outer.rows;
    char *y = (char *)out[0];
    const char *b = (const char *)tw_tiled(in[1], size / tile * pairs.b, tile, scratch);
    tw_row at = {(const char *)in[0], b, {0}};
    for (int32_t row = 0; row < rows; ++row, y += size * pairs.y) {
        if (a_step == 0)
            tw_each_of_row(fn, pairs, size, at.a, 0, at.b, 1, y);
        else if (b_step == 0)
            tw_each_of_row(fn, pairs, size, at.a, 1, at.b, 0, y);
        else
            tw_each_of_row(fn, pairs, size, at.a, 1, at.b, 1, y);
        tw_next_row(&at, &walk->outer, pairs.a, pairs.b);
    }
}

/* A row of size bytes of both operands and the output. */
typedef void tw_bytes_fn(const void *params, const char *a, const char *b, char *y, int32_t size);

/* All rows of bytes; both steps are 1. */
TW_INLINE void tw_rows_of_bytes(const tw_walk *walk, tw_bytes_fn *fn, const void *params, const void *const *in,
                                void *const *out, void *scratch) {
    const int32_t size = walk->size, tile = walk->tile, rows = walk->outer.rows;
    char *y = (char *)out[0];
    tw_row at = {(const char *)in[0], (const char *)tw_tiled(in[1], size / tile, tile, scratch), {0}};
    for (int32_t row = 0; row < rows; ++row, y += size) {
        fn(params, at.a, at.b, y, size);
        tw_next_row(&at, &walk->outer, 1, 1);
    }
}

/* The bodies of kernels whose params have a walk; TW_PAIR stands before them. */
#define TW_ROWS_APART(name)                                                                                            \
    const name##_params p = *params;                                                                                   \
    tw_rows_apart(&params->walk, params->walk.a_step, name##_pair, name##_pairs(&p), in, out, scratch)
/* a_step is 1. */
#define TW_ROWS_ALONG(name)                                                                                            \
    const name##_params p = *params;                                                                                   \
    tw_rows_apart(&params->walk, 1, name##_pair, name##_pairs(&p), in, out, scratch)
/* tile is 1. */
#define TW_EACH_PAIR(name)                                                                                             \
    const name##_params p = *params;                                                                                   \
    (void)scratch;                                                                                                     \
    tw_each_pair(&params->walk, name##_pair, name##_pairs(&p), in, out)

#endif
