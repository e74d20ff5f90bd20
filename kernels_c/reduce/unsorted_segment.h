/* SPDX-License-Identifier: Apache-2.0 */
/* UNSORTED_SEGMENT_SUM, _PROD, _MAX and _MIN: slices with one number put together. */
#ifndef TW_UNSORTED_SEGMENT_H
#define TW_UNSORTED_SEGMENT_H

#include "../core/tw.h"

/* in: x [count, run], numbers [count] int32. out: y [segments, run]. kind: 0 sums, 1 products, 2 the greatest, 3 the
 * least; a segment without slices is 0, 1, the least or the greatest number. Slices with another number are left out. */
typedef struct {
    int32_t count, run, segments, kind;
} tw_unsorted_segment_s32_params;
typedef tw_unsorted_segment_s32_params tw_unsorted_segment_f32_params;

/* Of integers sums and products wrap around. */
TW_INLINE int32_t tw_segment_of_s32(int32_t kind, int32_t a, int32_t b) {
    switch (kind) {
    case 0: return (int32_t)((uint32_t)a + (uint32_t)b);
    case 1: return (int32_t)((uint32_t)a * (uint32_t)b);
    case 2: return a < b ? b : a;
    default: return b < a ? b : a;
    }
}

TW_INLINE float tw_segment_of_f32(int32_t kind, float a, float b) {
    switch (kind) {
    case 0: return a + b;
    case 1: return a * b;
    case 2: return a < b ? b : a;
    default: return b < a ? b : a;
    }
}

/* Puts the run elements of every slice to those of its segment in y. */
#define TW_SEGMENTS(type, put, least, most)                                                                            \
    const int32_t *at = (const int32_t *)in[1], run = params->run, kind = params->kind;                                \
    const type *x = (const type *)in[0], first = kind == 0 ? 0 : kind == 1 ? 1 : kind == 2 ? least : most;             \
    type *y = (type *)out[0];                                                                                          \
    for (int32_t i = 0; i < params->segments * run; ++i) y[i] = first;                                                 \
    for (int32_t i = 0; i < params->count; ++i, x += run)                                                              \
        for (int32_t k = 0; at[i] >= 0 && at[i] < params->segments && k < run; ++k)                                    \
    y[at[i] * run + k] = put(kind, y[at[i] * run + k], x[k])

TW_KERNEL(tw_unsorted_segment_s32) { TW_SEGMENTS(int32_t, tw_segment_of_s32, INT32_MIN, INT32_MAX); }
TW_KERNEL(tw_unsorted_segment_f32) { TW_SEGMENTS(float, tw_segment_of_f32, -FLT_MAX, FLT_MAX); }

#endif
