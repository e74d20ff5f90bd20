/* SPDX-License-Identifier: Apache-2.0 */
/* TANH, float and int16; int8 goes through a table (lut.h). */
#ifndef TW_TANH_H
#define TW_TANH_H

#include <math.h>

#include "sigmoid.h"

/* in: x [size] (may be planned in place). out: y [size]. */
typedef struct {
    int32_t size;
} tw_tanh_f32_params;

TW_KERNEL(tw_tanh_f32) { TW_EACH(tw_tanh_f32, float, float, tanhf(x)); }

typedef tw_sigmoid_s16_params tw_tanh_s16_params;

/* tanh(x) = 2 / (1 + exp(-2 x)) - 1. */
TW_INLINE int32_t tw_tanh_of_s16(int32_t at, const uint16_t *table) {
    const int32_t above = tw_sigmoid_at(table, at < 0 ? -at : at, 8, 0xFFFF << 8) - (1 << 23);
    return (at < 0 ? 127 - above : 128 + above) >> 8;
}

TW_KERNEL(tw_tanh_s16) {
    const uint16_t *TW_RESTRICT table = (const uint16_t *)in[1];
    TW_EACH(tw_tanh_s16, int16_t, int16_t, tw_tanh_of_s16(tw_sigmoid_scaled(x, p.mult, p.shift), table));
}

#endif
