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

/* Defines name##_row: y = name##_pair of the size pairs of one row, which lie a_step and b_step elements apart. Offsets
 * are ptrdiff_t: the host's extension is compiled with -fwrapv, where compilers must expect that int32_t wraps and would
 * not vectorise. Pairs and rows are called by name: gcc -Og cannot inline what a pointer in an inlined layer calls. */
#define TW_PAIRS(name, a_type, b_type, y_type)                                                                         \
    enum { name##_a = sizeof(a_type), name##_b = sizeof(b_type), name##_y = sizeof(y_type) };                          \
    TW_INLINE void name##_row(const name##_params *p, int32_t size, const char *a, int32_t a_step, const char *b,      \
                              int32_t b_step, char *y) {                                                               \
        for (int32_t i = 0; i < size; ++i, y += name##_y)                                                              \
            name##_pair(p, a + (ptrdiff_t)i * a_step * name##_a, b + (ptrdiff_t)i * b_step * name##_b, y);             \
    }

/* Defines name##_pair and name##_row for y = value, an expression of a, b and the params p. */
#define TW_PAIR(name, a_type, b_type, y_type, value)                                                                   \
    TW_INLINE void name##_pair(const name##_params *p, const void *from_a, const void *from_b, void *y) {              \
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

/* The bodies of kernels whose params have a walk; TW_PAIR stands before them. With one loop per pair of steps, so that
 * compilers know them; a_step: that of the walk, or 1 if no call of the kernel has another. */
#define TW_ROWS(name, a_step)                                                                                          \
    const name##_params p = *params;                                                                                   \
    const tw_walk *walk = &params->walk;                                                                               \
    const int32_t size = walk->size, tile = walk->tile, b_step = walk->b_step, rows = walk->outer.rows;                \
    char *y = (char *)out[0];                                                                                          \
    const char *tiled = (const char *)tw_tiled(in[1], size / tile * name##_b, tile, scratch);                          \
    tw_row at = {(const char *)in[0], tiled, {0}};                                                                     \
    for (int32_t row = 0; row < rows; ++row, y += size * name##_y) {                                                   \
        if (a_step == 0)                                                                                               \
            name##_row(&p, size, at.a, 0, at.b, 1, y);                                                                 \
        else if (b_step == 0)                                                                                          \
            name##_row(&p, size, at.a, 1, at.b, 0, y);                                                                 \
        else                                                                                                           \
            name##_row(&p, size, at.a, 1, at.b, 1, y);                                                                 \
        tw_next_row(&at, &walk->outer, name##_a, name##_b);                                                            \
    }
#define TW_ROWS_APART(name) TW_ROWS(name, walk->a_step)
#define TW_ROWS_ALONG(name) TW_ROWS(name, 1)

/* The same by one loop for any steps; tile is 1. */
#define TW_EACH_PAIR(name)                                                                                             \
    const name##_params p = *params;                                                                                   \
    const tw_walk *walk = &params->walk;                                                                               \
    const int32_t size = walk->size, a_step = walk->a_step, b_step = walk->b_step, rows = walk->outer.rows;            \
    char *y = (char *)out[0];                                                                                          \
    tw_row at = {(const char *)in[0], (const char *)in[1], {0}};                                                       \
    for (int32_t row = 0; row < rows; ++row, y += size * name##_y) {                                                   \
        name##_row(&p, size, at.a, a_step, at.b, b_step, y);                                                           \
        tw_next_row(&at, &walk->outer, name##_a, name##_b);                                                            \
    }

/* By rows of bytes: row(&p, at.a, at.b, y, size), where both steps are 1. */
#define TW_ROWS_OF_BYTES(name, row_of_bytes)                                                                           \
    const name##_params p = *params;                                                                                   \
    const tw_walk *walk = &params->walk;                                                                               \
    const int32_t size = walk->size, tile = walk->tile, rows = walk->outer.rows;                                       \
    char *y = (char *)out[0];                                                                                          \
    tw_row at = {(const char *)in[0], (const char *)tw_tiled(in[1], size / tile, tile, scratch), {0}};                 \
    for (int32_t row = 0; row < rows; ++row, y += size) {                                                              \
        row_of_bytes(&p, at.a, at.b, y, size);                                                                         \
        tw_next_row(&at, &walk->outer, 1, 1);                                                                          \
    }

#endif
