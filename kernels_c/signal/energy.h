/* SPDX-License-Identifier: Apache-2.0 */
/* SignalEnergy: squared magnitudes of a part of a spectrum. */
#ifndef TW_ENERGY_H
#define TW_ENERGY_H

#include "../core/tw.h"

/* in: x [>= end] complex int16. out: y [size] uint32, of which start..end - 1 are computed and the others 0. */
typedef struct {
    int32_t start, end, size;
} tw_energy_params;

TW_KERNEL(tw_energy) {
    const tw_energy_params p = *params;
    const int16_t *x = (const int16_t *)in[0];
    uint32_t *y = (uint32_t *)out[0];
    for (int32_t i = 0; i < p.start; ++i) y[i] = 0;
    for (int32_t i = p.start; i < p.end; ++i) {
        const int32_t r = x[2 * i], imaginary = x[2 * i + 1];
        y[i] = (uint32_t)(r * r) + (uint32_t)(imaginary * imaginary);
    }
    for (int32_t i = p.end; i < p.size; ++i) y[i] = 0;
}

#endif
