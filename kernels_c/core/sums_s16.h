/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of products of int16 and int8, and how they become int16. All zero points are 0. */
#ifndef TW_SUMS_S16_H
#define TW_SUMS_S16_H

#include "tw.h"

/* How the sums of a layer's channels end: bias int64, mult int32 and shift int8 of each, the clamp. narrow: sums are of
 * 32 bits and end as those of int8 do (tw_requantize); else mult is of 16 bits, 0..32767, and shift one to the right,
 * 8..46. */
typedef struct {
    const int64_t *bias;
    const int32_t *mult;
    const int8_t *shift;
    int32_t narrow, low, high;
} tw_ends_s16;

/* Those of a kernel whose inputs 2 to 4 they are. */
TW_INLINE tw_ends_s16 tw_ends_s16_of(const void *const *in, int32_t narrow, int32_t low, int32_t high) {
    const tw_ends_s16 e = {(const int64_t *)in[2], (const int32_t *)in[3], (const int8_t *)in[4], narrow, low, high};
    return e;
}

/* a + b without signed overflow: wraps as two's complement does. */
TW_INLINE int64_t tw_add64(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

/* x clamped to the range of int32. */
TW_INLINE int32_t tw_saturate(int64_t x) { return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (int32_t)x; }

/* x * mult / 2^right rounded half up: TFLM's MultiplyByQuantizedMultiplier of 64 bits. Beyond its range, it wraps. */
TW_INLINE int32_t tw_scaled64(int64_t x, int32_t mult, int32_t right) {
    const uint64_t product = (uint64_t)x * (uint32_t)mult + (1ULL << (right - 1));
    return (int32_t)((int64_t)product >> right);
}

/* The output of a sum, bias included. */
TW_INLINE int16_t tw_end_s16(int64_t sum, int32_t mult, int32_t shift, const tw_ends_s16 *e) {
    const int32_t q = e->narrow ? tw_requantize((int32_t)sum, mult, shift) : tw_scaled64(sum, mult, shift);
    return (int16_t)tw_clamp(q, e->low, e->high);
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
