/* SPDX-License-Identifier: Apache-2.0 */
/* PAD and PADV2: a tensor surrounded by one value. */
#ifndef TW_PAD_H
#define TW_PAD_H

#include "../core/loops.h"
#include "move.h"

/* in: x [n, run bytes], value: one element of size bytes (1, 2, 4, 8 or 16). out: y [total bytes], where the first run
 * lies at byte start and neighbours along loop i are steps[i] bytes apart, in rising order. */
typedef struct {
    int32_t start, run, size, total, n[TW_MAX_LOOPS], steps[TW_MAX_LOOPS];
} tw_pad_params;

/* One pass over y in order: the gap before every run is filled, then the run is copied. */
TW_KERNEL(tw_pad) {
    const tw_pad_params p = *params;
    const uint8_t *TW_RESTRICT x = (const uint8_t *)in[0];
    const uint8_t *TW_RESTRICT value = (const uint8_t *)in[1];
    uint8_t *TW_RESTRICT y = (uint8_t *)out[0];
    int32_t done = 0, i[TW_MAX_LOOPS];
    TW_EACH_PLACE(i, p.n) {
        const int32_t at = p.start + tw_place(i, p.steps);
        tw_fill(y + done, at - done, value, p.size);
        tw_copy_bytes(y + at, x, p.run);
        x += p.run;
        done = at + p.run;
    }
    tw_fill(y + done, p.total - done, value, p.size);
}

#endif
