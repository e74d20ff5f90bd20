/* SPDX-License-Identifier: Apache-2.0 */
/* HARD_SWISH, float: x * min(max(x + 3, 0), 6) / 6; int8 goes through a table (lut.h). */
#ifndef TW_HARD_SWISH_H
#define TW_HARD_SWISH_H

#include "../core/each.h"

/* in: x [size] (may be planned in place). out: y [size]. */
typedef struct {
    int32_t size;
} tw_hard_swish_f32_params;

TW_INLINE float tw_hard_swish(float x) {
    const float raised = x + 3.0f > 0.0f ? x + 3.0f : 0.0f;
    return x * (raised < 6.0f ? raised : 6.0f) / 6.0f;
}

TW_KERNEL(tw_hard_swish_f32) { TW_EACH(tw_hard_swish_f32, float, float, tw_hard_swish(x)); }

#endif
