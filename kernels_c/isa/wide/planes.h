/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of pairs of int8: y = ((a + 128) * a_mult + (b + 128) * b_mult + offset) >> shift, clamped. TW_PLANES pairs at
 * once; not there on computers with neither AVX2 nor SIMD128. */
#ifndef TW_PLANES_H
#define TW_PLANES_H

#include "../../core/tw.h"

/* a and b as the halves of a word. */
TW_INLINE int32_t tw_halves(int32_t a, int32_t b) { return (int32_t)(((uint32_t)a & 0xFFFFU) | (uint32_t)b << 16); }

#if defined(__AVX512BW__) && defined(__AVX512VNNI__)
#include <immintrin.h>
#define TW_PLANES 64
/* Multipliers' bits from 15 up and below, both as halves of a word. */
typedef struct {
    __m512i upper, lower, offset, low, high;
    __m128i shift;
} tw_plane;

TW_INLINE tw_plane tw_plane_load(int32_t a, int32_t b, int32_t offset, int32_t shift, int32_t low, int32_t high) {
    const tw_plane plane = {_mm512_set1_epi32(tw_halves(a >> 15, b >> 15)),
                            _mm512_set1_epi32(tw_halves(a & 32767, b & 32767)),
                            _mm512_set1_epi32(offset),
                            _mm512_set1_epi8((char)low),
                            _mm512_set1_epi8((char)high),
                            _mm_cvtsi32_si128(shift)};
    return plane;
}

/* Sixteen sums of pairs of uint8 in words. */
TW_INLINE __m512i tw_plane_sums(const tw_plane *plane, __m512i pairs) {
    const __m512i upper = _mm512_slli_epi32(_mm512_madd_epi16(pairs, plane->upper), 15);
    const __m512i sum = _mm512_add_epi32(_mm512_dpwssd_epi32(plane->offset, pairs, plane->lower), upper);
    return _mm512_sra_epi32(sum, plane->shift);
}

/* Packing undoes what unpacking does within 128 bits. */
TW_INLINE void tw_plane_bytes(const tw_plane *plane, const int8_t *a, const int8_t *b, int8_t *y) {
    const __m512i flip = _mm512_set1_epi8(-128), zero = _mm512_setzero_si512();
    const __m512i left = _mm512_xor_si512(_mm512_loadu_si512(a), flip);
    const __m512i right = _mm512_xor_si512(_mm512_loadu_si512(b), flip);
    const __m512i first = _mm512_unpacklo_epi8(left, right), second = _mm512_unpackhi_epi8(left, right);
    const __m512i one = _mm512_packs_epi32(tw_plane_sums(plane, _mm512_unpacklo_epi8(first, zero)),
                                           tw_plane_sums(plane, _mm512_unpackhi_epi8(first, zero)));
    const __m512i two = _mm512_packs_epi32(tw_plane_sums(plane, _mm512_unpacklo_epi8(second, zero)),
                                           tw_plane_sums(plane, _mm512_unpackhi_epi8(second, zero)));
    const __m512i bytes = _mm512_packs_epi16(one, two);
    _mm512_storeu_si512(y, _mm512_min_epi8(_mm512_max_epi8(bytes, plane->low), plane->high));
}

#elif defined(__AVX2__)
#include <immintrin.h>
#define TW_PLANES 32
typedef struct {
    __m256i upper, lower, offset, low, high;
    __m128i shift;
} tw_plane;

TW_INLINE tw_plane tw_plane_load(int32_t a, int32_t b, int32_t offset, int32_t shift, int32_t low, int32_t high) {
    const tw_plane plane = {_mm256_set1_epi32(tw_halves(a >> 15, b >> 15)),
                            _mm256_set1_epi32(tw_halves(a & 32767, b & 32767)),
                            _mm256_set1_epi32(offset),
                            _mm256_set1_epi8((char)low),
                            _mm256_set1_epi8((char)high),
                            _mm_cvtsi32_si128(shift)};
    return plane;
}

TW_INLINE __m256i tw_plane_sums(const tw_plane *plane, __m256i pairs) {
    const __m256i upper = _mm256_slli_epi32(_mm256_madd_epi16(pairs, plane->upper), 15);
    const __m256i lower = _mm256_add_epi32(_mm256_madd_epi16(pairs, plane->lower), plane->offset);
    return _mm256_sra_epi32(_mm256_add_epi32(lower, upper), plane->shift);
}

TW_INLINE void tw_plane_bytes(const tw_plane *plane, const int8_t *a, const int8_t *b, int8_t *y) {
    const __m256i flip = _mm256_set1_epi8(-128), zero = _mm256_setzero_si256();
    const __m256i left = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(const void *)a), flip);
    const __m256i right = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(const void *)b), flip);
    const __m256i first = _mm256_unpacklo_epi8(left, right), second = _mm256_unpackhi_epi8(left, right);
    const __m256i one = _mm256_packs_epi32(tw_plane_sums(plane, _mm256_unpacklo_epi8(first, zero)),
                                           tw_plane_sums(plane, _mm256_unpackhi_epi8(first, zero)));
    const __m256i two = _mm256_packs_epi32(tw_plane_sums(plane, _mm256_unpacklo_epi8(second, zero)),
                                           tw_plane_sums(plane, _mm256_unpackhi_epi8(second, zero)));
    const __m256i bytes = _mm256_min_epi8(_mm256_max_epi8(_mm256_packs_epi16(one, two), plane->low), plane->high);
    _mm256_storeu_si256((__m256i *)(void *)y, bytes);
}

#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#define TW_PLANES 16
typedef struct {
    v128_t upper, lower, offset, low, high;
    int32_t shift;
} tw_plane;

TW_INLINE tw_plane tw_plane_load(int32_t a, int32_t b, int32_t offset, int32_t shift, int32_t low, int32_t high) {
    const tw_plane plane = {wasm_i32x4_splat(tw_halves(a >> 15, b >> 15)),
                            wasm_i32x4_splat(tw_halves(a & 32767, b & 32767)),
                            wasm_i32x4_splat(offset),
                            wasm_i8x16_splat((int8_t)low),
                            wasm_i8x16_splat((int8_t)high),
                            shift};
    return plane;
}

TW_INLINE v128_t tw_plane_sums(const tw_plane *plane, v128_t pairs) {
    const v128_t upper = wasm_i32x4_shl(wasm_i32x4_dot_i16x8(pairs, plane->upper), 15);
    const v128_t lower = wasm_i32x4_add(wasm_i32x4_dot_i16x8(pairs, plane->lower), plane->offset);
    return wasm_i32x4_shr(wasm_i32x4_add(lower, upper), (uint32_t)plane->shift);
}

/* The sums of the pairs of eight bytes each. */
TW_INLINE v128_t tw_plane_half(const tw_plane *plane, v128_t pairs) {
    return wasm_i16x8_narrow_i32x4(tw_plane_sums(plane, wasm_u16x8_extend_low_u8x16(pairs)),
                                   tw_plane_sums(plane, wasm_u16x8_extend_high_u8x16(pairs)));
}

TW_INLINE void tw_plane_bytes(const tw_plane *plane, const int8_t *a, const int8_t *b, int8_t *y) {
    const v128_t flip = wasm_i8x16_const_splat(-128);
    const v128_t left = wasm_v128_xor(wasm_v128_load(a), flip), right = wasm_v128_xor(wasm_v128_load(b), flip);
    const v128_t first = wasm_i8x16_shuffle(left, right, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const v128_t second = wasm_i8x16_shuffle(left, right, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    const v128_t bytes = wasm_i8x16_narrow_i16x8(tw_plane_half(plane, first), tw_plane_half(plane, second));
    wasm_v128_store(y, wasm_i8x16_min(wasm_i8x16_max(bytes, plane->low), plane->high));
}
#endif

#endif
