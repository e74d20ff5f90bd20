/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of pairs of int8: y = tw_scaled(2 * (a - a_zero) * (b - b_zero), ...) of isa/dsp/dsp.h, clamped to int8.
 * TW_PRODUCTS pairs at once; not there on computers with neither AVX2 nor SIMD128. */
#ifndef TW_PRODUCTS_H
#define TW_PRODUCTS_H

#include "../../core/tw.h"

#if defined(__AVX512BW__)
#include <immintrin.h>
#define TW_PRODUCTS 32
typedef struct {
    __m512i a_zero, b_zero, mult, rounding;
    __m128i right;
} tw_product;

TW_INLINE tw_product tw_product_load(int32_t a_zero, int32_t b_zero, int32_t mult, int32_t right, int32_t rounding) {
    const tw_product product = {
        _mm512_set1_epi16((short)a_zero), _mm512_set1_epi16((short)b_zero), _mm512_set1_epi32(mult),
        _mm512_set1_epi64((int64_t)((uint64_t)(int64_t)rounding << 32) + ((int64_t)1 << 31)), _mm_cvtsi32_si128(right)};
    return product;
}

/* The upper halves of 64 bits, even and odd lanes apart; sums below zero get one less. */
TW_INLINE __m512i tw_product_scaled(const tw_product *p, __m512i twice) {
    const __m512i even = _mm512_add_epi64(_mm512_mul_epi32(twice, p->mult), p->rounding);
    const __m512i odd = _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(twice, 32), p->mult), p->rounding);
    const __m512i top = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
    return _mm512_sra_epi32(_mm512_sub_epi32(top, _mm512_srli_epi32(twice, 31)), p->right);
}

TW_INLINE void tw_product_bytes(const tw_product *p, const int8_t *a, const int8_t *b, int8_t *y) {
    const __m512i wide = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)a));
    const __m512i left = _mm512_sub_epi16(wide, p->a_zero), twice = _mm512_add_epi16(left, left);
    const __m512i other = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)b));
    const __m512i right = _mm512_sub_epi16(other, p->b_zero);
    const __m512i lower = _mm512_mullo_epi16(twice, right), upper = _mm512_mulhi_epi16(twice, right);
    const __m512i scaled = _mm512_packs_epi32(tw_product_scaled(p, _mm512_unpacklo_epi16(lower, upper)),
                                              tw_product_scaled(p, _mm512_unpackhi_epi16(lower, upper)));
    _mm256_storeu_si256((__m256i *)(void *)y, _mm512_cvtsepi16_epi8(scaled));
}

#elif defined(__AVX2__)
#include <immintrin.h>
#define TW_PRODUCTS 16
typedef struct {
    __m256i a_zero, b_zero, mult, rounding;
    __m128i right;
} tw_product;

TW_INLINE tw_product tw_product_load(int32_t a_zero, int32_t b_zero, int32_t mult, int32_t right, int32_t rounding) {
    const tw_product product = {_mm256_set1_epi16((short)a_zero), _mm256_set1_epi16((short)b_zero),
                                _mm256_set1_epi32(mult),
                                _mm256_set1_epi64x((int64_t)((uint64_t)(int64_t)rounding << 32) + ((int64_t)1 << 31)),
                                _mm_cvtsi32_si128(right)};
    return product;
}

TW_INLINE __m256i tw_product_scaled(const tw_product *p, __m256i twice) {
    const __m256i even = _mm256_add_epi64(_mm256_mul_epi32(twice, p->mult), p->rounding);
    const __m256i odd = _mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64(twice, 32), p->mult), p->rounding);
    const __m256i top = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
    return _mm256_sra_epi32(_mm256_sub_epi32(top, _mm256_srli_epi32(twice, 31)), p->right);
}

TW_INLINE void tw_product_bytes(const tw_product *p, const int8_t *a, const int8_t *b, int8_t *y) {
    const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)a));
    const __m256i left = _mm256_sub_epi16(wide, p->a_zero), twice = _mm256_add_epi16(left, left);
    const __m256i other = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)b));
    const __m256i right = _mm256_sub_epi16(other, p->b_zero);
    const __m256i lower = _mm256_mullo_epi16(twice, right), upper = _mm256_mulhi_epi16(twice, right);
    const __m256i scaled = _mm256_packs_epi32(tw_product_scaled(p, _mm256_unpacklo_epi16(lower, upper)),
                                              tw_product_scaled(p, _mm256_unpackhi_epi16(lower, upper)));
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(scaled), _mm256_extracti128_si256(scaled, 1));
    _mm_storeu_si128((__m128i *)(void *)y, bytes);
}

#elif defined(__wasm_simd128__)
#include "simd128.h"
#define TW_PRODUCTS 16
typedef struct {
    v128_t a_zero, b_zero, mult, rounding;
    int32_t right;
} tw_product;

TW_INLINE tw_product tw_product_load(int32_t a_zero, int32_t b_zero, int32_t mult, int32_t right, int32_t rounding) {
    const tw_product product = {
        wasm_i16x8_splat((int16_t)a_zero), wasm_i16x8_splat((int16_t)b_zero), wasm_i32x4_splat(mult),
        wasm_i64x2_splat((int64_t)((uint64_t)(int64_t)rounding << 32) + ((int64_t)1 << 31)), right};
    return product;
}

TW_INLINE v128_t tw_product_scaled(const tw_product *p, v128_t twice) {
    const v128_t low = wasm_i64x2_add(tw_extmul_low128(twice, p->mult), p->rounding);
    const v128_t high = wasm_i64x2_add(tw_extmul_high128(twice, p->mult), p->rounding);
    const v128_t top = wasm_i32x4_shuffle(low, high, 1, 3, 5, 7);
    return wasm_i32x4_shr(wasm_i32x4_add(top, wasm_i32x4_shr(twice, 31)), (uint32_t)p->right);
}

/* Eight pairs. */
TW_INLINE v128_t tw_product_half(const tw_product *p, const int8_t *a, const int8_t *b) {
    const v128_t left = wasm_i16x8_sub(wasm_i16x8_load8x8(a), p->a_zero), twice = wasm_i16x8_add(left, left);
    const v128_t right = wasm_i16x8_sub(wasm_i16x8_load8x8(b), p->b_zero);
    return wasm_i16x8_narrow_i32x4(tw_product_scaled(p, wasm_i32x4_extmul_low_i16x8(twice, right)),
                                   tw_product_scaled(p, wasm_i32x4_extmul_high_i16x8(twice, right)));
}

TW_INLINE void tw_product_bytes(const tw_product *p, const int8_t *a, const int8_t *b, int8_t *y) {
    wasm_v128_store(y, wasm_i8x16_narrow_i16x8(tw_product_half(p, a, b), tw_product_half(p, a + 8, b + 8)));
}
#endif

#endif
