/* SPDX-License-Identifier: Apache-2.0 */
/* ADD_N: the sum of any number of tensors of one shape. */
#ifndef TW_ADD_N_H
#define TW_ADD_N_H

#include "../core/total.h"

/* in: count tensors [size] (any may be planned in place). out: y [size]. int32 wraps. */
typedef struct {
    int32_t size, count;
} tw_add_n_f32_params;
typedef tw_add_n_f32_params tw_add_n_s32_params;

/* All inputs have the same quantisation. count is below 2^23. */
typedef struct {
    int32_t size, count;
    tw_total total;
} tw_add_n_s8_params;

TW_KERNEL(tw_add_n_f32) {
    const tw_add_n_f32_params p = *params;
    for (int32_t i = 0; i < p.size; ++i) {
        float sum = 0.0f;
        for (int32_t k = 0; k < p.count; ++k) sum += ((const float *)in[k])[i];
        ((float *)out[0])[i] = sum;
    }
}

TW_KERNEL(tw_add_n_s32) {
    const tw_add_n_s32_params p = *params;
    for (int32_t i = 0; i < p.size; ++i) {
        int32_t sum = 0;
        for (int32_t k = 0; k < p.count; ++k) sum = tw_add(sum, ((const int32_t *)in[k])[i]);
        ((int32_t *)out[0])[i] = sum;
    }
}

TW_KERNEL(tw_add_n_s8) {
    const tw_add_n_s8_params p = *params;
    for (int32_t i = 0; i < p.size; ++i) {
        int32_t sum = 0;
        for (int32_t k = 0; k < p.count; ++k) sum += ((const int8_t *)in[k])[i] - p.total.zero;
        ((int8_t *)out[0])[i] = tw_total_s8(sum, &p.total);
    }
}

#endif
