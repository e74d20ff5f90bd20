/* SPDX-License-Identifier: Apache-2.0 */
/* SUM and REDUCE_PROD of float, int32 and int64, REDUCE_MAX and REDUCE_MIN (of bytes 0 and 1: REDUCE_ANY and
 * REDUCE_ALL); int8 and int16 sums are means with a divisor of 1 (mean.h). */
#ifndef TW_REDUCE_H
#define TW_REDUCE_H

#include "reduced.h"

/* in: x [axes]. out: y [the kept ones]. Integers wrap. */
typedef struct {
    tw_axes axes;
} tw_sum_f32_params;
typedef tw_sum_f32_params tw_sum_s32_params;
typedef tw_sum_f32_params tw_sum_s64_params;
typedef tw_sum_f32_params tw_reduce_prod_f32_params;
typedef tw_sum_f32_params tw_reduce_prod_s32_params;
typedef tw_sum_f32_params tw_reduce_prod_s64_params;

/* The same; minimum: 0 or 1. Without values: the least (greatest) value of the type. NaN is skipped. */
typedef struct {
    tw_axes axes;
    int32_t minimum;
} tw_reduce_max_f32_params;
typedef tw_reduce_max_f32_params tw_reduce_max_s64_params;
typedef tw_reduce_max_f32_params tw_reduce_max_s32_params;
typedef tw_reduce_max_f32_params tw_reduce_max_s16_params;
typedef tw_reduce_max_f32_params tw_reduce_max_s8_params;
typedef tw_reduce_max_f32_params tw_reduce_max_u8_params;

#define TW_REDUCE_MAX(name, type, least, most)                                                                         \
    TW_REDUCE(name, type, p.minimum ? most : least, (p.minimum ? m < n : m > n) ? m : n, y[c])

TW_KERNEL(tw_sum_f32) { TW_REDUCE(tw_sum_f32, float, 0.0f, n + m, y[c]); }
TW_KERNEL(tw_sum_s32) { TW_REDUCE(tw_sum_s32, int32_t, 0, tw_add(n, m), y[c]); }
TW_KERNEL(tw_sum_s64) { TW_REDUCE(tw_sum_s64, int64_t, 0, (int64_t)((uint64_t)n + (uint64_t)m), y[c]); }
TW_KERNEL(tw_reduce_prod_f32) { TW_REDUCE(tw_reduce_prod_f32, float, 1.0f, n * m, y[c]); }
TW_KERNEL(tw_reduce_prod_s32) {
    TW_REDUCE(tw_reduce_prod_s32, int32_t, 1, (int32_t)((uint32_t)n * (uint32_t)m), y[c]);
}
TW_KERNEL(tw_reduce_prod_s64) {
    TW_REDUCE(tw_reduce_prod_s64, int64_t, 1, (int64_t)((uint64_t)n * (uint64_t)m), y[c]);
}
TW_KERNEL(tw_reduce_max_f32) { TW_REDUCE_MAX(tw_reduce_max_f32, float, -FLT_MAX, FLT_MAX); }
TW_KERNEL(tw_reduce_max_s64) { TW_REDUCE_MAX(tw_reduce_max_s64, int64_t, INT64_MIN, INT64_MAX); }
TW_KERNEL(tw_reduce_max_s32) { TW_REDUCE_MAX(tw_reduce_max_s32, int32_t, INT32_MIN, INT32_MAX); }
TW_KERNEL(tw_reduce_max_s16) { TW_REDUCE_MAX(tw_reduce_max_s16, int16_t, INT16_MIN, INT16_MAX); }
TW_KERNEL(tw_reduce_max_s8) { TW_REDUCE_MAX(tw_reduce_max_s8, int8_t, INT8_MIN, INT8_MAX); }
TW_KERNEL(tw_reduce_max_u8) { TW_REDUCE_MAX(tw_reduce_max_u8, uint8_t, 0, UINT8_MAX); }

#endif
