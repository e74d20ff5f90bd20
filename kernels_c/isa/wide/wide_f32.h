/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of floats, one output channel in each lane: the base of the host's float kernels. Sums run over k in order,
 * multiplication and addition are rounded separately or, in fused kernels, once: the reference's bits. */
#ifndef TW_WIDE_F32_H
#define TW_WIDE_F32_H

#include "../../core/epilogue.h"
#include "../../core/madd.h"
#include "lanes.h"

/* Lanes of a vector, and how many pixels (or vectors) a tile sums at once: their sums fill the registers. On Zen 4 only
 * multiplications that read memory reach the peak of one a cycle, so a tile has one vector of weights there. */
#if defined(__AVX512F__)
#include <immintrin.h>
#define TW_F32_LANES 16
#define TW_F32_PIXELS 16
#elif defined(__AVX__)
#include <immintrin.h>
#define TW_F32_LANES 8
#define TW_F32_PIXELS 6
#elif defined(__aarch64__)
#include <arm_neon.h>
#define TW_F32_LANES 4
#define TW_F32_PIXELS 6
#else
#define TW_F32_LANES 4
#define TW_F32_PIXELS 3
#endif

/* Vectors of a block of 16 channels. */
#define TW_F32_VECTORS (TW_LANES / TW_F32_LANES)

typedef float tw_f32v __attribute__((vector_size(4 * TW_F32_LANES)));
typedef float tw_f32v_any __attribute__((vector_size(4 * TW_F32_LANES), aligned(4), may_alias));
typedef int32_t tw_i32v __attribute__((vector_size(4 * TW_F32_LANES)));

TW_INLINE tw_f32v tw_f32v_load(const float *x) { return *(const tw_f32v_any *)(const void *)x; }

/* x in every lane. */
TW_INLINE tw_f32v tw_f32v_all(float x) {
    const tw_f32v zero = {0};
    return x - zero; /* x + zero would turn -0.0 into 0.0 */
}

/* tw_madd in every lane. */
TW_INLINE tw_f32v tw_f32v_madd(tw_f32v a, tw_f32v b, tw_f32v c, int fused) {
    if (!fused) return c + a * b;
#if defined(__AVX512F__)
    return (tw_f32v)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX__) && defined(__FMA__)
    return (tw_f32v)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
    return (tw_f32v)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    for (int32_t i = 0; i < TW_F32_LANES; ++i) c[i] = tw_fma(a[i], b[i], c[i]);
    return c;
#endif
}

/* The first count lanes, zeros in the others. */
TW_INLINE tw_f32v tw_f32v_some(const float *x, int32_t count) {
#if defined(__AVX512F__)
    return (tw_f32v)_mm512_maskz_loadu_ps((__mmask16)((1U << count) - 1U), x);
#else
    tw_f32v some = {0};
    for (int32_t i = 0; i < count; ++i) some[i] = x[i];
    return some;
#endif
}

/* The first count lanes, none if count is not above 0. */
TW_INLINE void tw_f32v_store(float *y, tw_f32v x, int32_t count) {
    if (count >= TW_F32_LANES) {
        *(tw_f32v_any *)(void *)y = x;
        return;
    }
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(y, (__mmask16)((1U << tw_max(count, 0)) - 1U), (__m512)x);
#else
    TW_UNROLLED
    for (int32_t i = 0; i < TW_F32_LANES; ++i)
        if (i < count) y[i] = x[i];
#endif
}

/* tw_clampf in every lane. Its plain form is made of masks: compilers turn the scalar one into branches, which a ReLU's
 * data make mispredict. */
TW_INLINE tw_f32v tw_f32v_clamp(tw_f32v x, const tw_limits_f32 *limits) {
    const tw_f32v zero = {0}, low = zero + limits->low, high = zero + limits->high;
#if defined(__AVX512F__)
    return (tw_f32v)_mm512_min_ps((__m512)high, _mm512_max_ps((__m512)low, (__m512)x));
#elif defined(__AVX__)
    return (tw_f32v)_mm256_min_ps((__m256)high, _mm256_max_ps((__m256)low, (__m256)x));
#else
    const tw_i32v below = x < low;
    const tw_i32v raised = (below & (tw_i32v)low) | (~below & (tw_i32v)x);
    const tw_i32v above = high < (tw_f32v)raised;
    return (tw_f32v)((above & (tw_i32v)high) | (~above & raised));
#endif
}

/* The pixels of a tile, so that as few tiles as can be cover a row of count of them: all have the same size, and the
 * last one begins earlier where they do not fit. */
TW_INLINE int32_t tw_f32_pixels(int32_t count, int32_t most) {
    const int32_t tiles = (count + most - 1) / most;
    return (count + tiles - 1) / tiles;
}

#endif
