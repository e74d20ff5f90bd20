/* SPDX-License-Identifier: Apache-2.0 */
/* Surrounds a tensor with one value: PAD and PADV2. */
#ifndef TW_PAD_H
#define TW_PAD_H

#include "move.h"

#define TW_MAX_PAD 4

/* in: x [n[0], ..., n[3], run bytes], value: one element of size bytes (1, 2, 4, 8 or 16). out: y [total bytes], where
 * the first run lies at byte start and neighbours along axis i are step[i] bytes apart, in rising order. */
typedef struct {
    int32_t start, run, size, total;
    int32_t n[TW_MAX_PAD], step[TW_MAX_PAD];
} tw_pad_params;

/* One pass over y in order: the gap before every run is filled, then the run is copied. */
TW_KERNEL(tw_pad) {
    const tw_pad_params p = *params;
    const uint8_t *TW_RESTRICT x = (const uint8_t *)in[0];
    const uint8_t *TW_RESTRICT value = (const uint8_t *)in[1];
    uint8_t *TW_RESTRICT y = (uint8_t *)out[0];
    int32_t done = 0;
    (void)scratch;
    for (int32_t a = 0; a < p.n[0]; ++a)
        for (int32_t b = 0; b < p.n[1]; ++b)
            for (int32_t c = 0; c < p.n[2]; ++c)
                for (int32_t d = 0; d < p.n[3]; ++d) {
                    const int32_t at = p.start + a * p.step[0] + b * p.step[1] + c * p.step[2] + d * p.step[3];
                    tw_fill(y + done, at - done, value, p.size);
                    memcpy(y + at, x, (size_t)p.run);
                    x += p.run;
                    done = at + p.run;
                }
    tw_fill(y + done, p.total - done, value, p.size);
}

#endif
