/* SPDX-License-Identifier: Apache-2.0 */
/* TOPK_V2: the greatest values of each row and where they are, in falling order; of equal ones the first. */
#ifndef TW_TOPK_H
#define TW_TOPK_H

#include "../core/heap.h"

/* in: x [rows, count]. out: values [rows, k], numbers [rows, k] int32, or int16 with narrow 1. k is 0..count. scratch: k
 * int32 with narrow 1. */
typedef struct {
    int32_t rows, count, k, narrow;
} tw_topk_s8_params;
typedef tw_topk_s8_params tw_topk_u8_params;
typedef tw_topk_s8_params tw_topk_s16_params;
typedef tw_topk_s8_params tw_topk_s32_params;
typedef tw_topk_s8_params tw_topk_s64_params;
typedef tw_topk_s8_params tw_topk_f32_params;

/* Numbers of the k elements of row x that stand first, in order. k is above 0. */
TW_INLINE void tw_topk_row(tw_before_fn *before, const void *x, int32_t count, int32_t *heap, int32_t k) {
    for (int32_t i = 0; i < k; ++i) heap[i] = i;
    tw_heap_build(before, x, heap, k);
    for (int32_t i = k; i < count; ++i)
        if (before(x, i, heap[0])) {
            heap[0] = i;
            tw_heap_sink(before, x, heap, k, 0);
        }
    tw_heap_sort(before, x, heap, k);
}

/* A NaN is the least. */
#define TW_GREATER(m, n) ((m) > (n))
#define TW_GREATER_F32(m, n) ((m) > (n) || ((n) != (n) && (m) == (m)))

/* The body of a kernel, behind what says the order of its type. */
#define TW_TOPK(name, type, greater)                                                                                   \
    TW_INLINE int name##_before(const void *row, int32_t a, int32_t b) {                                               \
        const type *x = (const type *)row;                                                                             \
        return greater(x[a], x[b]) || (a < b && !greater(x[b], x[a]));                                                 \
    }                                                                                                                  \
    TW_INLINE void name##_rows(const tw_topk_s8_params p, const type *x, type *y, void *numbers, int32_t *scratch) {   \
        for (int32_t row = 0; row < p.rows; ++row, x += p.count) {                                                     \
            int32_t *heap = p.narrow ? scratch : (int32_t *)numbers + (ptrdiff_t)row * p.k;                            \
            tw_topk_row(name##_before, x, p.count, heap, p.k);                                                         \
            for (int32_t i = 0; i < p.k; ++i, ++y) {                                                                   \
                *y = x[heap[i]];                                                                                       \
                if (p.narrow) ((int16_t *)numbers)[(ptrdiff_t)row * p.k + i] = (int16_t)heap[i];                       \
            }                                                                                                          \
        }                                                                                                              \
    }

#define TW_TOPK_BODY(name, type)                                                                                       \
    if (params->k > 0) name##_rows(*params, (const type *)in[0], (type *)out[0], out[1], (int32_t *)scratch)

TW_TOPK(tw_topk_s8, int8_t, TW_GREATER)
TW_TOPK(tw_topk_u8, uint8_t, TW_GREATER)
TW_TOPK(tw_topk_s16, int16_t, TW_GREATER)
TW_TOPK(tw_topk_s32, int32_t, TW_GREATER)
TW_TOPK(tw_topk_s64, int64_t, TW_GREATER)
TW_TOPK(tw_topk_f32, float, TW_GREATER_F32)

TW_KERNEL(tw_topk_s8) { TW_TOPK_BODY(tw_topk_s8, int8_t); }
TW_KERNEL(tw_topk_u8) { TW_TOPK_BODY(tw_topk_u8, uint8_t); }
TW_KERNEL(tw_topk_s16) { TW_TOPK_BODY(tw_topk_s16, int16_t); }
TW_KERNEL(tw_topk_s32) { TW_TOPK_BODY(tw_topk_s32, int32_t); }
TW_KERNEL(tw_topk_s64) { TW_TOPK_BODY(tw_topk_s64, int64_t); }
TW_KERNEL(tw_topk_f32) { TW_TOPK_BODY(tw_topk_f32, float); }

#endif
