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
    const int32_t kept = p.axes.outer * p.axes.inner, depth = p.axes.depth, last = p.axes.last;                        \
    const type *TW_RESTRICT x = (const type *)in[0];                                                                   \
    type *TW_RESTRICT y = (type *)out[0];                                                                              \
    for (int32_t k = 0; k < kept; ++k, y += depth) {                                                                   \
        for (int32_t c = 0; c < depth; ++c) y[c] = start;                                                              \
        const type *first = x + tw_axes_offset(p.axes, k);                                                             \
        TW_EACH_REDUCED(p.axes) {                                                                                      \
            const type *row = first + tw_axes_row(p.axes, i, j);                                                       \
            if (last == 1)                                                                                             \
                for (int32_t c = 0; c < depth; ++c) {                                                                  \
                    const type m = row[c], n = y[c];                                                                   \
                    y[c] = value;                                                                                      \
                }                                                                                                      \
            else                                                                                                       \
                for (int32_t c = 0; c < depth; ++c)                                                                    \
                    for (int32_t a = 0; a < last; ++a) {                                                               \
                        const type m = row[c * last + a], n = y[c];                                                    \
                        y[c] = value;                                                                                  \
                    }                                                                                                  \
        }                                                                                                              \
        for (int32_t c = 0; c < depth; ++c) y[c] = done;                                                               \
    }

/* One output after the other: y = done, an expression of the sum of all its x. */
#define TW_SUM(name, type, sum_type, done)                                                                             \
    const name##_params p = *params;                                                                                   \
    const int32_t kept = p.axes.outer * p.axes.inner;                                                                  \
    const type *TW_RESTRICT x = (const type *)in[0];                                                                   \
    type *TW_RESTRICT y = (type *)out[0];                                                                              \
    for (int32_t k = 0; k < kept; ++k)                                                                                 \
        for (int32_t c = 0; c < p.axes.depth; ++c) {                                                                   \
            sum_type sum = 0;                                                                                          \
            const type *first = x + tw_axes_offset(p.axes, k) + c * p.axes.last;                                       \
            TW_EACH_REDUCED(p.axes) {                                                                                  \
                const type *row = first + tw_axes_row(p.axes, i, j);                                                   \
                for (int32_t a = 0; a < p.axes.last; ++a) sum += row[a];                                               \
            }                                                                                                          \
            *y++ = (type)(done);                                                                                       \
        }

#endif
