/* SPDX-License-Identifier: Apache-2.0 */
/* Joins tensors: CONCATENATION and PACK. */
#ifndef TW_CONCATENATION_H
#define TW_CONCATENATION_H

#include "move.h"

/* in: count tensors x_i [outer, run bytes]. out: y [outer, count, run bytes]. */
typedef struct {
    int32_t count, outer, run;
} tw_concatenation_params;

TW_KERNEL(tw_concatenation) {
    const tw_concatenation_params p = *params;
    uint8_t *y = (uint8_t *)out[0];
    for (int32_t i = 0; i < p.count; ++i)
        tw_move(y + i * p.run, p.count * p.run, (const uint8_t *)in[i], p.run, p.outer, p.run);
}

/* in: count tensors x_i [outer, run_i bytes], run [count] int32. out: y [outer, total bytes], total = sum of run.
 * word: 1, 2, 4, 8 or 16, a divisor of every run; 0: runs are long. */
typedef struct {
    int32_t count, outer, total, word;
} tw_concatenation_ragged_params;

TW_INLINE void tw_concatenation_words(tw_concatenation_ragged_params p, const void *const *in, uint8_t *y,
                                      int32_t word) {
    const int32_t *run = (const int32_t *)in[p.count];
    for (int32_t i = 0; i < p.count; ++i) {
        tw_move_words(y, p.total, (const uint8_t *)in[i], run[i], p.outer, run[i], word);
        y += run[i];
    }
}

TW_KERNEL(tw_concatenation_ragged) {
    const tw_concatenation_ragged_params p = *params;
    uint8_t *y = (uint8_t *)out[0];
    switch (p.word) {
    case 1: tw_concatenation_words(p, in, y, 1); break;
    case 2: tw_concatenation_words(p, in, y, 2); break;
    case 4: tw_concatenation_words(p, in, y, 4); break;
    case 8: tw_concatenation_words(p, in, y, 8); break;
    case 16: tw_concatenation_words(p, in, y, 16); break;
    default: tw_concatenation_words(p, in, y, 0); break;
    }
}

#endif
