/* SPDX-License-Identifier: Apache-2.0 */
/* SUM of float and int32, REDUCE_MAX and REDUCE_MIN (of bytes 0 and 1: REDUCE_ANY and REDUCE_ALL); int8 sums are
 * means that are divided by 1 (mean.h). */
#ifndef TW_REDUCE_H
#define TW_REDUCE_H

#include <math.h>

#include "mean.h"

/* shape: kept, reduced, kept, reduced, kept, reduced, as in mean.h. in: x [shape]. out: y [kept]. int32 wraps. */
typedef struct {
    int32_t shape[6];
} tw_sum_f32_params;
typedef tw_sum_f32_params tw_sum_s32_params;

/* The same; minimum: 0 or 1. Of nothing: the least (greatest) value there is. A NaN is passed over. */
typedef struct {
    int32_t shape[6], minimum;
} tw_reduce_max_f32_params;
typedef tw_reduce_max_f32_params tw_reduce_max_s32_params;
typedef tw_reduce_max_f32_params tw_reduce_max_s8_params;

/* y starts as start; every x [c, i] of a reduced row is taken into y[c] as value, where m is x and n is y. */
#define TW_REDUCE(type, start, value)                                                                                  \
    const int32_t kept = p.shape[0] * p.shape[2], reduced = p.shape[1] * p.shape[3];                                   \
    const type *TW_RESTRICT x = (const type *)in[0];                                                                   \
    type *TW_RESTRICT y = (type *)out[0];                                                                              \
    (void)scratch;                                                                                                     \
    for (int32_t k = 0; k < kept; ++k, y += p.shape[4]) {                                                              \
        for (int32_t c = 0; c < p.shape[4]; ++c) y[c] = start;                                                         \
        for (int32_t r = 0; r < reduced; ++r) {                                                                        \
            const type *row = x + tw_mean_offset(p.shape, k, r);                                                       \
            for (int32_t c = 0; c < p.shape[4]; ++c)                                                                   \
                for (int32_t i = 0; i < p.shape[5]; ++i, ++row) {                                                      \
                    const type m = *row, n = y[c];                                                                     \
                    y[c] = value;                                                                                      \
                }                                                                                                      \
        }                                                                                                              \
    }

TW_KERNEL(tw_sum_f32) {
    const tw_sum_f32_params p = *params;
    TW_REDUCE(float, 0.0f, n + m)
}

TW_KERNEL(tw_sum_s32) {
    const tw_sum_s32_params p = *params;
    TW_REDUCE(int32_t, 0, tw_add(n, m))
}

TW_KERNEL(tw_reduce_max_f32) {
    const tw_reduce_max_f32_params p = *params;
    TW_REDUCE(float, p.minimum ? INFINITY : -INFINITY, (p.minimum ? m < n : m > n) ? m : n)
}

TW_KERNEL(tw_reduce_max_s32) {
    const tw_reduce_max_s32_params p = *params;
    TW_REDUCE(int32_t, p.minimum ? INT32_MAX : INT32_MIN, (p.minimum ? m < n : m > n) ? m : n)
}

TW_KERNEL(tw_reduce_max_s8) {
    const tw_reduce_max_s8_params p = *params;
    TW_REDUCE(int8_t, p.minimum ? INT8_MAX : INT8_MIN, (p.minimum ? m < n : m > n) ? m : n)
}

#endif
