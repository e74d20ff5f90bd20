/* SPDX-License-Identifier: Apache-2.0 */
/* SignalFilterBank: triangular filters over a spectrum of energies. A channel's rising side is its neighbour's falling
 * one: each energy counts with its weight in one channel and with its other weight in the next. */
#ifndef TW_FILTER_BANK_H
#define TW_FILTER_BANK_H

#include "../core/tw.h"

/* in: x uint32, weights, other weights int16, and of each of channels + 1 bands int16: its first energy, its first
 * weight, its width. out: y [channels] uint64. Sums wrap. */
typedef struct {
    int32_t channels;
} tw_filter_bank_params;

TW_KERNEL(tw_filter_bank) {
    const uint32_t *x = (const uint32_t *)in[0];
    const int16_t *weights = (const int16_t *)in[1], *others = (const int16_t *)in[2];
    const int16_t *energies = (const int16_t *)in[3], *firsts = (const int16_t *)in[4],
                  *widths = (const int16_t *)in[5];
    uint64_t *y = (uint64_t *)out[0], sum = 0;
    for (int32_t band = 0; band <= params->channels; ++band) {
        uint64_t next = 0;
        for (int32_t i = 0; i < widths[band]; ++i) {
            const int64_t energy = (int64_t)x[energies[band] + i];
            sum += (uint64_t)(weights[firsts[band] + i] * energy);
            next += (uint64_t)(others[firsts[band] + i] * energy);
        }
        if (band > 0) y[band - 1] = sum;
        sum = next;
    }
}

#endif
