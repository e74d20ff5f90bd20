/* SPDX-License-Identifier: Apache-2.0 */
/* SignalDelay: rows of a stream, as many values late. */
#ifndef TW_DELAY_H
#define TW_DELAY_H

#include "../core/tw.h"

/* in: x [rows, size] int16. out: y [rows, size] int16, state [rows, delay] int16, which holds the last values. */
typedef struct {
    int32_t rows, size, delay;
} tw_delay_params;

TW_KERNEL(tw_delay) {
    const tw_delay_params p = *params;
    const int16_t *x = (const int16_t *)in[0];
    int16_t *y = (int16_t *)out[0], *held = (int16_t *)out[1];
    const int32_t old = tw_min(p.delay, p.size), kept = p.delay - old, fresh = p.size - old;
    const size_t bytes = sizeof *x;
    for (int32_t row = 0; row < p.rows; ++row, x += p.size, y += p.size, held += p.delay) {
        memcpy(y, held, (size_t)old * bytes);
        memcpy(y + old, x, (size_t)fresh * bytes);
        memmove(held, held + old, (size_t)kept * bytes);
        memcpy(held + kept, x + fresh, (size_t)old * bytes);
    }
}

#endif
