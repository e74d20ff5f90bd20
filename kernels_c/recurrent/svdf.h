/* SPDX-License-Identifier: Apache-2.0 */
/* SVDF: a singular-value-decomposed filter: features of the new input, then a filter over the last few of them. */
#ifndef TW_SVDF_H
#define TW_SVDF_H

#include "../core/tw.h"

/* in: x [batches, size], features [filters, size], time [filters, memory], bias [units], filters = units * rank. out: y
 * [batches, units], state [batches, filters, memory], which this call moves by one place. */
typedef struct {
    int32_t batches, size, units, rank, memory;
    float low, high;
} tw_svdf_f32_params;

/* int8 input and features; state and time are int8, or int16 in tw_svdf_s16. */
typedef struct {
    int32_t batches, size, units, rank, memory, in_zero, state_zero, out_zero;
    int32_t mult, shift, out_mult, out_shift, low, high;
} tw_svdf_s8_params;
typedef tw_svdf_s8_params tw_svdf_s16_params;

TW_KERNEL(tw_svdf_f32) {
    const tw_svdf_f32_params p = *params;
    const float *x = (const float *)in[0], *bias = (const float *)in[3];
    float *y = (float *)out[0], *state = (float *)out[1];
    for (int32_t b = 0; b < p.batches; ++b, x += p.size) {
        const float *feature = (const float *)in[1], *time = (const float *)in[2];
        for (int32_t u = 0; u < p.units; ++u) {
            float sum = bias[u];
            for (int32_t r = 0; r < p.rank; ++r, feature += p.size, time += p.memory, state += p.memory) {
                float newest = 0.0f, filtered = 0.0f;
                for (int32_t i = 0; i < p.size; ++i) newest += feature[i] * x[i];
                memmove(state, state + 1, (size_t)(p.memory - 1) * sizeof *state);
                state[p.memory - 1] = newest;
                for (int32_t i = 0; i < p.memory; ++i) filtered += time[i] * state[i];
                sum += filtered;
            }
            *y++ = tw_boundf(sum, p.low, p.high);
        }
    }
}

#define TW_SVDF(type, least, most)                                                                                     \
    const int8_t *x = (const int8_t *)in[0];                                                                           \
    const int32_t *bias = (const int32_t *)in[3];                                                                      \
    int8_t *y = (int8_t *)out[0];                                                                                      \
    type *state = (type *)out[1];                                                                                      \
    for (int32_t b = 0; b < p.batches; ++b, x += p.size) {                                                             \
        const int8_t *feature = (const int8_t *)in[1];                                                                 \
        const type *time = (const type *)in[2];                                                                        \
        for (int32_t u = 0; u < p.units; ++u) {                                                                        \
            int32_t sum = bias[u];                                                                                     \
            for (int32_t r = 0; r < p.rank; ++r, feature += p.size, time += p.memory, state += p.memory) {             \
                int32_t newest = 0;                                                                                    \
                for (int32_t i = 0; i < p.size; ++i) newest = tw_add(newest, feature[i] * (x[i] - p.in_zero));         \
                newest = tw_add(tw_requantize(newest, p.mult, p.shift), p.state_zero);                                 \
                memmove(state, state + 1, (size_t)(p.memory - 1) * sizeof *state);                                     \
                state[p.memory - 1] = (type)tw_clamp(newest, least, most);                                             \
                for (int32_t i = 0; i < p.memory; ++i) sum = tw_add(sum, time[i] * (state[i] - p.state_zero));         \
            }                                                                                                          \
            *y++ = (int8_t)tw_clamp(tw_add(tw_requantize(sum, p.out_mult, p.out_shift), p.out_zero), p.low, p.high);   \
        }                                                                                                              \
    }

TW_KERNEL(tw_svdf_s8) {
    const tw_svdf_s8_params p = *params;
    TW_SVDF(int8_t, INT8_MIN, INT8_MAX)
}

TW_KERNEL(tw_svdf_s16) {
    const tw_svdf_s16_params p = *params;
    TW_SVDF(int16_t, INT16_MIN, INT16_MAX)
}

#endif
