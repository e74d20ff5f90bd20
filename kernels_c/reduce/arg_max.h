/* SPDX-License-Identifier: Apache-2.0 */
/* ARG_MAX and ARG_MIN: where the greatest (least) value along one dimension is, the first of equals. */
#ifndef TW_ARG_MAX_H
#define TW_ARG_MAX_H

#include "../core/axis.h"

/* in: x [axis], count at least 1. out: y [outer, inner], int64 if wide, else int32. minimum: 0 or 1. */
typedef struct {
    tw_axis axis;
    int32_t minimum, wide;
} tw_arg_max_f32_params;
typedef tw_arg_max_f32_params tw_arg_max_s32_params;
typedef tw_arg_max_f32_params tw_arg_max_s8_params;
typedef tw_arg_max_f32_params tw_arg_max_u8_params;

TW_INLINE void tw_put_index(void *y, int32_t at, int32_t index, int32_t wide) {
    if (wide)
        ((int64_t *)y)[at] = index;
    else
        ((int32_t *)y)[at] = index;
}

/* Whether x[m] is greater than x[n]. */
typedef int tw_greater_fn(const void *x, int32_t m, int32_t n);

TW_INLINE int tw_greater_f32(const void *x, int32_t m, int32_t n) {
    return ((const float *)x)[m] > ((const float *)x)[n];
}

TW_INLINE int tw_greater_s32(const void *x, int32_t m, int32_t n) {
    return ((const int32_t *)x)[m] > ((const int32_t *)x)[n];
}

TW_INLINE int tw_greater_s8(const void *x, int32_t m, int32_t n) {
    return ((const int8_t *)x)[m] > ((const int8_t *)x)[n];
}

TW_INLINE int tw_greater_u8(const void *x, int32_t m, int32_t n) {
    return ((const uint8_t *)x)[m] > ((const uint8_t *)x)[n];
}

/* The body for all types, whose elements have size bytes; greater folds away. */
TW_INLINE void tw_arg_max(const tw_arg_max_f32_params *params, const void *from, int32_t bytes, void *y,
                          tw_greater_fn *greater) {
    const tw_arg_max_f32_params p = *params;
    const char *x = (const char *)from;
    for (int32_t o = 0; o < p.axis.outer; ++o, x += p.axis.count * p.axis.inner * bytes)
        for (int32_t i = 0; i < p.axis.inner; ++i) {
            int32_t best = 0;
            for (int32_t c = 1; c < p.axis.count; ++c) {
                const int32_t m = c * p.axis.inner + i, n = best * p.axis.inner + i;
                best = (p.minimum ? greater(x, n, m) : greater(x, m, n)) ? c : best;
            }
            tw_put_index(y, o * p.axis.inner + i, best, p.wide);
        }
}

TW_KERNEL(tw_arg_max_f32) { tw_arg_max(params, in[0], 4, out[0], tw_greater_f32); }
TW_KERNEL(tw_arg_max_s32) { tw_arg_max(params, in[0], 4, out[0], tw_greater_s32); }
TW_KERNEL(tw_arg_max_s8) { tw_arg_max(params, in[0], 1, out[0], tw_greater_s8); }

/* uint8 without scales, and bool. */
TW_KERNEL(tw_arg_max_u8) { tw_arg_max(params, in[0], 1, out[0], tw_greater_u8); }

#endif
