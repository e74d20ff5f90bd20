/* SPDX-License-Identifier: Apache-2.0 */
/* SignalFilterBankSquareRoot: rounded square roots, shifted. */
#ifndef TW_FILTER_BANK_SQUARE_ROOT_H
#define TW_FILTER_BANK_SQUARE_ROOT_H

#include "bits.h"

/* in: x [size] uint64, shift [1] int32, of which the low 5 bits count. out: y [size] uint32. */
typedef struct {
    int32_t size;
} tw_filter_bank_square_root_params;

/* The square root of x, rounded to the nearest, at most 65535. */
TW_INLINE uint32_t tw_root32(uint32_t x) {
    uint32_t root = 0;
    if (x == 0) return 0;
    for (uint32_t bit = 1U << ((tw_bits(x) - 1) & ~1); bit; bit >>= 2) {
        const uint32_t tried = root + bit;
        root >>= 1;
        if (x >= tried) {
            x -= tried;
            root += bit;
        }
    }
    return root + (x > root && root != UINT16_MAX);
}

/* Likewise of 64 bits, at most 2^32 - 1; those below 2^32 have a root of at most 65535. */
TW_INLINE uint32_t tw_root64(uint64_t x) {
    uint64_t root = 0;
    if (x >> 32 == 0) return tw_root32((uint32_t)x);
    for (uint64_t bit = (uint64_t)1 << ((31 + tw_bits((uint32_t)(x >> 32))) & ~1); bit; bit >>= 2) {
        const uint64_t tried = root + bit;
        root >>= 1;
        if (x >= tried) {
            x -= tried;
            root += bit;
        }
    }
    return (uint32_t)(root + (x > root && root != UINT32_MAX));
}

TW_KERNEL(tw_filter_bank_square_root) {
    const uint64_t *x = (const uint64_t *)in[0];
    const int32_t shift = *(const int32_t *)in[1] & 31;
    uint32_t *y = (uint32_t *)out[0];
    for (int32_t i = 0; i < params->size; ++i) y[i] = tw_root64(x[i]) >> shift;
}

#endif
