/* SPDX-License-Identifier: Apache-2.0 */
/* SELECT and SELECT_V2: per element a value of one of two tensors, with broadcasting. */
#ifndef TW_SELECT_H
#define TW_SELECT_H

#include "../core/loops.h"

/* in: condition (bytes 0 or 1), a, b. out: y [n, count] of size bytes each: a where the condition holds. Elements of a
 * row lie step, a_step and b_step apart, neighbours along loop i steps[i], a_steps[i] and b_steps[i]: in elements, 0 if
 * the operand broadcasts. */
typedef struct {
    int32_t size, count, step, a_step, b_step;
    int32_t n[TW_MAX_LOOPS], steps[TW_MAX_LOOPS], a_steps[TW_MAX_LOOPS], b_steps[TW_MAX_LOOPS];
} tw_select_params;

TW_KERNEL(tw_select) {
    const tw_select_params p = *params;
    const uint8_t *a = (const uint8_t *)in[1], *b = (const uint8_t *)in[2];
    uint8_t *y = (uint8_t *)out[0];
    int32_t i[TW_MAX_LOOPS];
    TW_EACH_PLACE(i, p.n) {
        const uint8_t *condition = (const uint8_t *)in[0] + tw_place(i, p.steps);
        const int32_t of_a = tw_place(i, p.a_steps), of_b = tw_place(i, p.b_steps);
        for (int32_t k = 0; k < p.count; ++k, y += p.size) {
            const ptrdiff_t from_a = of_a + k * p.a_step, from_b = of_b + k * p.b_step;
            memcpy(y, condition[k * p.step] ? a + from_a * p.size : b + from_b * p.size, (size_t)p.size);
        }
    }
}

#endif
