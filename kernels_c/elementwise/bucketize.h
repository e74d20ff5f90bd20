/* SPDX-License-Identifier: Apache-2.0 */
/* BUCKETIZE: how many of some rising numbers each value has reached. */
#ifndef TW_BUCKETIZE_H
#define TW_BUCKETIZE_H

#include "../core/tw.h"

/* in: x [size], boundaries [count] float32, which rise. out: y [size] int32. */
typedef struct {
    int32_t size, count;
} tw_bucketize_f32_params;
typedef tw_bucketize_f32_params tw_bucketize_s32_params;
typedef tw_bucketize_f32_params tw_bucketize_s64_params;

/* The first boundary above x, by halves. */
TW_INLINE int32_t tw_bucket(const float *boundaries, int32_t count, float x) {
    int32_t low = 0, high = count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (x < boundaries[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

#define TW_BUCKETS(type)                                                                                               \
    const int32_t size = params->size, count = params->count;                                                          \
    for (int32_t i = 0; i < size; ++i)                                                                                 \
    ((int32_t *)out[0])[i] = tw_bucket((const float *)in[1], count, (float)((const type *)in[0])[i])

TW_KERNEL(tw_bucketize_f32) { TW_BUCKETS(float); }
TW_KERNEL(tw_bucketize_s32) { TW_BUCKETS(int32_t); }
TW_KERNEL(tw_bucketize_s64) { TW_BUCKETS(int64_t); }

#endif
