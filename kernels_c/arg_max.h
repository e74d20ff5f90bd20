/* ARG_MAX and ARG_MIN: where the greatest (least) value along one dimension is, the first of equals. */
#ifndef TW_ARG_MAX_H
#define TW_ARG_MAX_H

#include "tw.h"

/* in: x [outer, count, inner], count at least 1. out: y [outer, inner], int64 if wide, else int32. minimum: 0 or 1. */
typedef struct {
    int32_t outer, count, inner, minimum, wide;
} tw_arg_max_f32_params;
typedef tw_arg_max_f32_params tw_arg_max_s32_params;
typedef tw_arg_max_f32_params tw_arg_max_s8_params;

TW_INLINE void tw_put_index(void *y, int32_t at, int32_t index, int32_t wide) {
    if (wide)
        ((int64_t *)y)[at] = index;
    else
        ((int32_t *)y)[at] = index;
}

#define TW_ARG_MAX(type)                                                                                               \
    const type *x = (const type *)in[0];                                                                               \
    (void)scratch;                                                                                                     \
    for (int32_t o = 0; o < p.outer; ++o, x += p.count * p.inner)                                                      \
        for (int32_t i = 0; i < p.inner; ++i) {                                                                        \
            int32_t found = 0;                                                                                         \
            for (int32_t c = 1; c < p.count; ++c) {                                                                    \
                const type m = x[c * p.inner + i], n = x[found * p.inner + i];                                         \
                found = (p.minimum ? m < n : m > n) ? c : found;                                                       \
            }                                                                                                          \
            tw_put_index(out[0], o *p.inner + i, found, p.wide);                                                       \
        }

TW_KERNEL(tw_arg_max_f32) {
    const tw_arg_max_f32_params p = *params;
    TW_ARG_MAX(float)
}

TW_KERNEL(tw_arg_max_s32) {
    const tw_arg_max_s32_params p = *params;
    TW_ARG_MAX(int32_t)
}

TW_KERNEL(tw_arg_max_s8) {
    const tw_arg_max_s8_params p = *params;
    TW_ARG_MAX(int8_t)
}

#endif
