/* SPDX-License-Identifier: Apache-2.0 */
/* MAXIMUM and MINIMUM of the stored values, with broadcasting. The greater is a > b ? a : b as in TFLM, which matters
 * for NaN and signed zeros. */
#ifndef TW_MAXIMUM_H
#define TW_MAXIMUM_H

#include "../core/broadcast.h"

/* in: a, b (either may be planned in place if it has the output's shape). out: y [walk].
 * minimum: 0 or 1. */
typedef struct {
    tw_walk walk;
    int32_t minimum;
} tw_maximum_s8_params;
typedef tw_maximum_s8_params tw_maximum_u8_params;
typedef tw_maximum_s8_params tw_maximum_s16_params;
typedef tw_maximum_s8_params tw_maximum_s32_params;
typedef tw_maximum_s8_params tw_maximum_s64_params;
typedef tw_maximum_s8_params tw_maximum_f32_params;

#define TW_MAXIMUM(name, type) TW_PAIR(name, type, type, type, (p->minimum ? a < b : a > b) ? a : b)

TW_MAXIMUM(tw_maximum_s8, int8_t)
TW_MAXIMUM(tw_maximum_u8, uint8_t)
TW_MAXIMUM(tw_maximum_s16, int16_t)
TW_MAXIMUM(tw_maximum_s32, int32_t)
TW_MAXIMUM(tw_maximum_s64, int64_t)
TW_MAXIMUM(tw_maximum_f32, float)

TW_KERNEL(tw_maximum_s8) { TW_ROWS_APART(tw_maximum_s8); }
TW_KERNEL(tw_maximum_u8) { TW_ROWS_APART(tw_maximum_u8); }
TW_KERNEL(tw_maximum_s16) { TW_ROWS_APART(tw_maximum_s16); }
TW_KERNEL(tw_maximum_s32) { TW_ROWS_APART(tw_maximum_s32); }
TW_KERNEL(tw_maximum_s64) { TW_ROWS_APART(tw_maximum_s64); }
TW_KERNEL(tw_maximum_f32) { TW_ROWS_APART(tw_maximum_f32); }

#endif
