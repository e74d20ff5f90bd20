/* SPDX-License-Identifier: Apache-2.0 */
/* LOGISTIC, float and int16; int8 goes through a table (lut.h). */
#ifndef TW_LOGISTIC_H
#define TW_LOGISTIC_H

#include <math.h>

#include "sigmoid.h"

/* 1 / (1 + exp(-x)). Above the first bound it is 1 in float32; below the second, 1 + exp(-x) is exp(-x). */
TW_INLINE float tw_logistic(float x) {
    if (x > 16.619047164916992188f) return 1.0f;
    if (x < -9.0f) return expf(x);
    return 1.0f / (1.0f + expf(-x));
}

/* in: x [size] (may be planned in place). out: y [size]. */
typedef struct {
    int32_t size;
} tw_logistic_f32_params;

TW_KERNEL(tw_logistic_f32) { TW_EACH(tw_logistic_f32, float, float, tw_logistic(x)); }

typedef tw_sigmoid_s16_params tw_logistic_s16_params;

TW_INLINE int32_t tw_logistic_of_s16(int32_t at, const uint16_t *table) {
    const int32_t upper = tw_sigmoid_at(table, at < 0 ? -at : at, 9, 0x7FFF << 10);
    return (at < 0 ? (1 << 25) - upper + 511 : upper + 512) >> 10;
}

TW_KERNEL(tw_logistic_s16) {
    const uint16_t *TW_RESTRICT table = (const uint16_t *)in[1];
    TW_EACH(tw_logistic_s16, int16_t, int16_t, tw_logistic_of_s16(tw_sigmoid_scaled(x, p.mult, p.shift), table));
}

#endif
