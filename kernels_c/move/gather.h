/* SPDX-License-Identifier: Apache-2.0 */
/* GATHER: slices along one dimension, picked by number. */
#ifndef TW_GATHER_H
#define TW_GATHER_H

#include "../core/bytes.h"
#include "index.h"

/* in: x [batch, outer, count, run bytes], at [batch, picked] integers of wide bytes. out: y [batch, outer, picked, run
 * bytes]. A number outside 0..count-1 takes the nearest slice. */
typedef struct {
    int32_t batch, outer, count, picked, run, wide;
} tw_gather_params;

TW_KERNEL(tw_gather) {
    const tw_gather_params p = *params;
    const uint8_t *x = (const uint8_t *)in[0];
    uint8_t *y = (uint8_t *)out[0];
    for (int32_t b = 0; b < p.batch; ++b)
        for (int32_t o = 0; o < p.outer; ++o, x += p.count * p.run)
            for (int32_t i = 0; i < p.picked; ++i, y += p.run) {
                const int32_t at = tw_clamped_index(tw_index_at(in[1], b * p.picked + i, p.wide), p.count - 1);
                tw_copy_bytes(y, x + (ptrdiff_t)at * p.run, p.run);
            }
}

/* Slices whose numbers are known, many of them neighbours. in: x [outer, size bytes], runs int32 [runs][2]: where in x
 * some bytes begin, and how many there are. out: y, the runs one after another. */
typedef struct {
    int32_t outer, size, runs;
} tw_gather_runs_params;

TW_KERNEL(tw_gather_runs) {
    const tw_gather_runs_params p = *params;
    const uint8_t *x = (const uint8_t *)in[0];
    uint8_t *y = (uint8_t *)out[0];
    for (int32_t o = 0; o < p.outer; ++o, x += p.size) {
        const int32_t *run = (const int32_t *)in[1];
        for (int32_t i = 0; i < p.runs; ++i, run += 2) {
            if (run[1] == 1)
                *y = x[run[0]];
            else
                tw_copy_bytes(y, x + run[0], run[1]);
            y += run[1];
        }
    }
}

#endif
