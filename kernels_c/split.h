/* Takes a tensor apart: SPLIT, SPLIT_V and UNPACK. */
#ifndef TW_SPLIT_H
#define TW_SPLIT_H

#include "move.h"

/* in: x [outer, total bytes], run [count] int32, total = sum of run. out: count tensors y_i [outer, run_i bytes]. */
typedef struct { int32_t count, outer, total; } tw_split_params;

TW_KERNEL(tw_split) {
    const tw_split_params p = *params;
    const int32_t *run = (const int32_t *)in[1];
    const uint8_t *x = (const uint8_t *)in[0];
    (void)scratch;
    for (int32_t i = 0; i < p.count; ++i) {
        tw_move((uint8_t *)out[i], run[i], x, p.total, p.outer, run[i]);
        x += run[i];
    }
}

#endif
