/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of MEAN, SUM, REDUCE_MAX and REDUCE_MIN over any axes: bodies of kernels whose params p have axes. in: x
 * [axes]. out: y [the kept ones]. */
#ifndef TW_REDUCED_H
#define TW_REDUCED_H

#include "../core/axis.h"

/* One pass over x: y begins as start; for every element m of x and its n in y, y becomes value; at the end y becomes
 * done, an expression of y[c]. */
#define TW_REDUCE(name, type, start, value, done)                                                                      \
    const name##_params p = *params;                                                                                   \
    const int32_t kept = p.axes.outer * p.axes.inner, reduced = p.axes.first * p.axes.middle, depth = p.axes.depth;    \
    const type *TW_RESTRICT x = (const type *)in[0];                                                                   \
    type *TW_RESTRICT y = (type *)out[0];                                                                              \
    (void)scratch;                                                                                                     \
    for (int32_t k = 0; k < kept; ++k, y += depth) {                                                                   \
        for (int32_t c = 0; c < depth; ++c) y[c] = start;                                                              \
        for (int32_t r = 0; r < reduced; ++r) {                                                                        \
            const type *row = x + tw_axes_offset(p.axes, k, r);                                                        \
            if (p.axes.last == 1)                                                                                      \
                for (int32_t c = 0; c < depth; ++c, ++row) {                                                           \
                    const type m = *row, n = y[c];                                                                     \
                    y[c] = value;                                                                                      \
                }                                                                                                      \
            else                                                                                                       \
                for (int32_t c = 0; c < depth; ++c)                                                                    \
                    for (int32_t i = 0; i < p.axes.last; ++i, ++row) {                                                 \
                        const type m = *row, n = y[c];                                                                 \
                        y[c] = value;                                                                                  \
                    }                                                                                                  \
        }                                                                                                              \
        for (int32_t c = 0; c < depth; ++c) y[c] = done;                                                               \
    }

/* One output after the other: y = done, an expression of the sum of all its x. */
#define TW_SUM(name, type, sum_type, done)                                                                             \
    const name##_params p = *params;                                                                                   \
    const int32_t kept = p.axes.outer * p.axes.inner, reduced = p.axes.first * p.axes.middle;                          \
    const type *TW_RESTRICT x = (const type *)in[0];                                                                   \
    type *TW_RESTRICT y = (type *)out[0];                                                                              \
    (void)scratch;                                                                                                     \
    for (int32_t k = 0; k < kept; ++k)                                                                                 \
        for (int32_t c = 0; c < p.axes.depth; ++c) {                                                                   \
            sum_type sum = 0;                                                                                          \
            for (int32_t r = 0; r < reduced; ++r) {                                                                    \
                const type *row = x + tw_axes_offset(p.axes, k, r) + c * p.axes.last;                                  \
                for (int32_t i = 0; i < p.axes.last; ++i) sum += row[i];                                               \
            }                                                                                                          \
            *y++ = (type)(done);                                                                                       \
        }

#endif
