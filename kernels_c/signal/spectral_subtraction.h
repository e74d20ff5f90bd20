/* SPDX-License-Identifier: Apache-2.0 */
/* SignalFilterBankSpectralSubtraction: each channel less a running estimate of its noise. */
#ifndef TW_SPECTRAL_SUBTRACTION_H
#define TW_SPECTRAL_SUBTRACTION_H

#include "../core/tw.h"

/* in: x [size] uint32 (may be planned in place). out: y [size] uint32, the estimates [size] uint32, and they again as
 * state. New values have weight smooth / 2^bits and old estimates rest / 2^bits, in even and in odd channels; estimates
 * have more bits than x. least / 2^bits of x stays. clamp: an estimate is at most x. more 0..31, bits 0..63. */
typedef struct {
    int32_t size, more, bits, clamp;
    uint32_t smooth[2], rest[2], least;
} tw_spectral_subtraction_params;

TW_KERNEL(tw_spectral_subtraction) {
    const tw_spectral_subtraction_params p = *params;
    const uint32_t *x = (const uint32_t *)in[0];
    uint32_t *y = (uint32_t *)out[0], *estimates = (uint32_t *)out[1], *state = (uint32_t *)out[2];
    for (int32_t i = 0; i < p.size; ++i) {
        const uint32_t value = x[i], signal = value << p.more;
        const uint64_t sum = (uint64_t)signal * p.smooth[i & 1] + (uint64_t)state[i] * p.rest[i & 1];
        const uint32_t estimate = (uint32_t)(sum >> p.bits);
        const uint32_t noise = estimate > signal ? signal : estimate;
        const uint32_t least = (uint32_t)((uint64_t)value * p.least >> p.bits);
        const uint32_t left = (signal - noise) >> p.more;
        state[i] = estimates[i] = p.clamp ? noise : estimate;
        y[i] = left > least ? left : least;
    }
}

#endif
