/* SPDX-License-Identifier: Apache-2.0 */
/* SELECT and SELECT_V2: element by element one of two tensors, with broadcasting. */
#ifndef TW_SELECT_H
#define TW_SELECT_H

#include "../core/tw.h"

#define TW_MAX_SELECT 6

/* in: condition (bytes 0 or 1), a, b. out: y [n[0], ..., n[5]] of size bytes each: a where the condition holds. The
 * operands' neighbours along axis i are steps[i] elements apart, 0 where they broadcast. */
typedef struct {
    int32_t size, total;
    int32_t n[TW_MAX_SELECT], steps[TW_MAX_SELECT], a_steps[TW_MAX_SELECT], b_steps[TW_MAX_SELECT];
} tw_select_params;

TW_KERNEL(tw_select) {
    const tw_select_params p = *params;
    const uint8_t *condition = (const uint8_t *)in[0];
    uint8_t *y = (uint8_t *)out[0];
    int32_t index[TW_MAX_SELECT] = {0}, at = 0, a = 0, b = 0;
    (void)scratch;
    for (int32_t i = 0; i < p.total; ++i, y += p.size) {
        const uint8_t *from = condition[at] ? (const uint8_t *)in[1] + (ptrdiff_t)a * p.size
                                            : (const uint8_t *)in[2] + (ptrdiff_t)b * p.size;
        memcpy(y, from, (size_t)p.size);
        for (int32_t d = TW_MAX_SELECT - 1; d >= 0; --d) {
            at += p.steps[d], a += p.a_steps[d], b += p.b_steps[d];
            if (++index[d] < p.n[d]) break;
            at -= p.steps[d] * p.n[d], a -= p.a_steps[d] * p.n[d], b -= p.b_steps[d] * p.n[d];
            index[d] = 0;
        }
    }
}

#endif
