/* SPDX-License-Identifier: Apache-2.0 */
/* SignalWindow: every row times a window in fixed point. */
#ifndef TW_SIGNAL_WINDOW_H
#define TW_SIGNAL_WINDOW_H

#include "../core/tw.h"

/* in: x [rows, size] int16 (may be planned in place), the window [size] int16. out: y [rows, size] int16. Products are
 * shifted right by 0..31 bits, rounded down. */
typedef struct {
    int32_t rows, size, shift;
} tw_signal_window_params;

TW_KERNEL(tw_signal_window) {
    const tw_signal_window_params p = *params;
    const int16_t *x = (const int16_t *)in[0], *window = (const int16_t *)in[1];
    int16_t *y = (int16_t *)out[0];
    for (int32_t row = 0; row < p.rows; ++row, x += p.size, y += p.size)
        for (int32_t i = 0; i < p.size; ++i)
            y[i] = (int16_t)tw_clamp(((int32_t)x[i] * window[i]) >> p.shift, INT16_MIN, INT16_MAX);
}

#endif
