/* SPDX-License-Identifier: Apache-2.0 */
/* a * b + c of float32, fused: rounded once. */
#ifndef TW_MADD_H
#define TW_MADD_H

#include "tw.h"

#if defined(__FP_FAST_FMAF) || defined(__FMA__) || defined(__aarch64__) || defined(__ARM_FEATURE_FMA) ||               \
    (defined(__riscv_flen) && __riscv_flen >= 32)
#define TW_FMA 1
#else
#define TW_FMA 0
#endif

/* By an instruction; without one by doubles, slowly: there the product is exact. The sum is rounded to odd, that is, an
 * inexact one with an even last bit moves towards the exact one. That leaves the second rounding, to float, as it would
 * be from the exact sum. Source: Boldo and Melquiond, Emulation of FMA and correctly rounded sums, 2008. */
TW_INLINE float tw_fma(float a, float b, float c) {
#if TW_FMA
    return __builtin_fmaf(a, b, c);
#else
    const double product = (double)a * (double)b;
    double sum = product + (double)c;
    const double added = sum - product, rest = (product - (sum - added)) + ((double)c - added);
    uint64_t bits = 0;
    memcpy(&bits, &sum, sizeof sum);
    if ((rest > 0 || rest < 0) && bits % 2 == 0) bits += (rest > 0) == (sum > 0) ? 1 : UINT64_MAX;
    memcpy(&sum, &bits, sizeof sum);
    return (float)sum;
#endif
}

/* a * b + c; fused, a constant, says whether the product is rounded, too. */
TW_INLINE float tw_madd(float a, float b, float c, int fused) { return fused ? tw_fma(a, b, c) : c + a * b; }

#endif
