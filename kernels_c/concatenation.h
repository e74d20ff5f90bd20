/* Joins tensors: CONCATENATION and PACK. */
#ifndef TW_CONCATENATION_H
#define TW_CONCATENATION_H

#include "move.h"

/* in: count tensors x_i [outer, run_i bytes], then run [count] int32. out: y [outer, total bytes], total = sum of run. */
typedef struct { int32_t count, outer, total; } tw_concatenation_params;

TW_KERNEL(tw_concatenation) {
    const tw_concatenation_params p = *params;
    const int32_t *run = (const int32_t *)in[p.count];
    uint8_t *y = (uint8_t *)out[0];
    (void)scratch;
    for (int32_t i = 0; i < p.count; ++i) {
        tw_move(y, p.total, (const uint8_t *)in[i], run[i], p.outer, run[i]);
        y += run[i];
    }
}

#endif
