/* SPDX-License-Identifier: Apache-2.0 */
/* SPLIT, SPLIT_V and UNPACK: a tensor cut into parts. */
#ifndef TW_SPLIT_H
#define TW_SPLIT_H

#include "move.h"

/* in: x [outer, count, run bytes]. out: count tensors y_i [outer, run bytes]. */
typedef struct {
    int32_t count, outer, run;
} tw_split_params;

TW_KERNEL(tw_split) {
    const tw_split_params p = *params;
    const uint8_t *x = (const uint8_t *)in[0];
    for (int32_t i = 0; i < p.count; ++i)
        tw_move((uint8_t *)out[i], p.run, x + i * p.run, p.count * p.run, p.outer, p.run);
}

/* in: x [outer, total bytes], run [count] int32, total = sum of run. out: count tensors y_i [outer, run_i bytes].
 * word: 1, 2, 4, 8 or 16, a divisor of every run; 0: runs are long. */
typedef struct {
    int32_t count, outer, total, word;
} tw_split_ragged_params;

TW_INLINE void tw_split_words(tw_split_ragged_params p, const void *const *in, void *const *out, int32_t word) {
    const uint8_t *x = (const uint8_t *)in[0];
    const int32_t *run = (const int32_t *)in[1];
    for (int32_t i = 0; i < p.count; ++i) {
        tw_move_words((uint8_t *)out[i], run[i], x, p.total, p.outer, run[i], word);
        x += run[i];
    }
}

TW_KERNEL(tw_split_ragged) {
    const tw_split_ragged_params p = *params;
    switch (p.word) {
    case 1: tw_split_words(p, in, out, 1); break;
    case 2: tw_split_words(p, in, out, 2); break;
    case 4: tw_split_words(p, in, out, 4); break;
    case 8: tw_split_words(p, in, out, 8); break;
    case 16: tw_split_words(p, in, out, 16); break;
    default: tw_split_words(p, in, out, 0); break;
    }
}

#endif
