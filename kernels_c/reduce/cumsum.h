/* SPDX-License-Identifier: Apache-2.0 */
/* CUMSUM: sums of all elements before each along an axis. */
#ifndef TW_CUMSUM_H
#define TW_CUMSUM_H

#include "../core/axis.h"
#include "../core/total.h"

/* in: x [axis] (may be planned in place). out: y [axis]. reverse 1: from the end on. exclusive 1: without the element
 * itself. Integers wrap. */
typedef struct {
    tw_axis axis;
    int32_t reverse, exclusive;
} tw_cumsum_f32_params;
typedef tw_cumsum_f32_params tw_cumsum_s32_params;
typedef tw_cumsum_f32_params tw_cumsum_s64_params;

/* At most 2^23 - 1 elements along the axis. */
typedef struct {
    tw_axis axis;
    int32_t reverse, exclusive;
    tw_total total;
} tw_cumsum_s8_params;

/* The body of a kernel: sum, of sum_type, becomes next, an expression of sum and the element x; y shows value, an
 * expression of sum. */
#define TW_CUMSUM(name, type, sum_type, next, value)                                                                   \
    const name##_params p = *params;                                                                                   \
    const ptrdiff_t inner = p.axis.inner, step = p.reverse ? -inner : inner;                                           \
    for (int32_t o = 0; o < p.axis.outer; ++o)                                                                         \
        for (int32_t k = 0; k < p.axis.inner; ++k) {                                                                   \
            const ptrdiff_t first = (ptrdiff_t)o * p.axis.count * inner + k;                                           \
            ptrdiff_t at = p.reverse ? first + (p.axis.count - 1) * inner : first;                                     \
            sum_type sum = 0;                                                                                          \
            for (int32_t i = 0; i < p.axis.count; ++i, at += step) {                                                   \
                const type x = ((const type *)in[0])[at];                                                              \
                const sum_type before = sum;                                                                           \
                sum = (sum_type)(next);                                                                                \
                const sum_type shown = p.exclusive ? before : sum;                                                     \
                ((type *)out[0])[at] = (type)(value);                                                                  \
            }                                                                                                          \
        }

TW_KERNEL(tw_cumsum_f32) { TW_CUMSUM(tw_cumsum_f32, float, float, sum + x, shown); }
TW_KERNEL(tw_cumsum_s32) { TW_CUMSUM(tw_cumsum_s32, int32_t, int32_t, tw_add(sum, x), shown); }
TW_KERNEL(tw_cumsum_s64) { TW_CUMSUM(tw_cumsum_s64, int64_t, uint64_t, sum + (uint64_t)x, shown); }
TW_KERNEL(tw_cumsum_s8) {
    TW_CUMSUM(tw_cumsum_s8, int8_t, int32_t, sum + (x - p.total.zero), tw_total_s8(shown, &p.total));
}

#endif
