/* SPDX-License-Identifier: Apache-2.0 */
/* SignalPCAN: a gain by channel that follows the noise, then a soft threshold. */
#ifndef TW_PCAN_H
#define TW_PCAN_H

#include "bits.h"

/* in: x [size] uint32 (may be planned in place), noise [size] uint32, gains [>= 125] int16: those of noise 0, 1 and 2,
 * then for each number of bits 2..32 three coefficients of a parabola, the first at place 4 * bits - 6. out: y [size]
 * uint32, 6 bits of which are a fraction. shift 0..63. */
typedef struct {
    int32_t size, shift;
} tw_pcan_params;

/* The gain, an int16. */
TW_INLINE int32_t tw_pcan_gain(uint32_t noise, const int16_t *gains) {
    if (noise <= 2) return gains[noise];
    const int32_t bits = tw_bits(noise);
    const int16_t *curve = gains + 4 * bits - 6;
    const int32_t part = (int32_t)((bits < 11 ? noise << (11 - bits) : noise >> (bits - 11)) & 1023);
    const int32_t slope = (curve[2] * part >> 5) + curve[1] * 32;
    return (int16_t)(((slope * part + (1 << 14)) >> 15) + curve[0]);
}

/* x^2 / 4 below 2, x - 1 from there on; x has 12 bits of fraction, the result 6. */
TW_INLINE uint32_t tw_pcan_shrink(uint32_t x) { return x < 2 << 12 ? x * x >> 20 : (x >> 6) - 64; }

TW_KERNEL(tw_pcan) {
    const tw_pcan_params p = *params;
    const uint32_t *x = (const uint32_t *)in[0], *noise = (const uint32_t *)in[1];
    uint32_t *y = (uint32_t *)out[0];
    for (int32_t i = 0; i < p.size; ++i) {
        const uint64_t gain = (uint32_t)tw_pcan_gain(noise[i], (const int16_t *)in[2]);
        y[i] = tw_pcan_shrink((uint32_t)(x[i] * gain >> p.shift));
    }
}

#endif
