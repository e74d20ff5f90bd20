/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of products of int16 and int8, and how they become int16. All zero points are 0. */
#ifndef TW_SUMS_S16_H
#define TW_SUMS_S16_H

#include "epilogue.h"

/* a + b without signed overflow: wraps as two's complement does. */
TW_INLINE int64_t tw_add64(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

/* x clamped to the range of int32. */
TW_INLINE int32_t tw_saturate(int64_t x) { return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (int32_t)x; }

/* x * mult / 2^right rounded half up: TFLM's MultiplyByQuantizedMultiplier of 64 bits. Results beyond 32 bits wrap. */
TW_INLINE int32_t tw_scaled64(int64_t x, int32_t mult, int32_t right) {
    const uint64_t product = (uint64_t)x * (uint32_t)mult + (1ULL << (right - 1));
    return (int32_t)((int64_t)product >> right);
}

/* The output of a sum, bias included. */
TW_INLINE int16_t tw_end_s16(int64_t sum, int32_t mult, int32_t shift, const tw_channels_s16 *channels) {
    const int32_t q = channels->narrow ? tw_requantize((int32_t)sum, mult, shift) : tw_scaled64(sum, mult, shift);
    return (int16_t)tw_clamp(q, channels->limits.low, channels->limits.high);
}

/* sum + x . w: 256 products of 2^22 fit 32 bits. */
TW_INLINE int64_t tw_dot_s16(int64_t sum, const int16_t *x, const int8_t *w, int32_t n) {
    for (int32_t first = 0; first < n; first += 256) {
        const int32_t end = tw_min(n, first + 256);
        int32_t part = 0;
        for (int32_t i = first; i < end; ++i) part += x[i] * w[i];
        sum = tw_add64(sum, part);
    }
    return sum;
}

#endif
