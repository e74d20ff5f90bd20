/* SPDX-License-Identifier: Apache-2.0 */
/* float16, which C lacks: its bits as a float32 and back. */
#ifndef TW_HALF_H
#define TW_HALF_H

#include "tw.h"

/* The bits of float16 x as a float32. */
TW_INLINE uint32_t tw_bits_of_half(uint16_t x) {
    const uint32_t sign = (uint32_t)(x & 0x8000) << 16;
    const uint32_t bits = x & 0x7fff;
    const float tiny = (float)(int32_t)bits * 5.9604644775390625e-8f; /* 2^-24: the unit of subnormal float16 */
    const uint32_t rebased = (bits << 13) + (bits >= 0x7c00 ? 0x70000000u : 0x38000000u); /* infinity, NaN: 255 */
    uint32_t small;
    memcpy(&small, &tiny, sizeof small);
    return sign | (bits < 0x400 ? small : rebased);
}

/* float16 x as a float. */
TW_INLINE float tw_from_half(uint16_t x) {
    const uint32_t bits = tw_bits_of_half(x);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The bits of the float16 nearest to x, half to even; infinite from 65520 on. */
TW_INLINE uint16_t tw_to_half(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000) return (uint16_t)(sign | 0x7e00); /* NaN */
    if (size >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
    if (size >= 0x38800000) return (uint16_t)(sign | (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13);
    const float steps = (x < 0.0f ? -x : x) * 16777216.0f + 8388608.0f; /* of 2^-24; the sum has no bits for less */
    memcpy(&bits, &steps, sizeof bits);
    return (uint16_t)(sign | (bits & 0x7ff));
}

#endif
