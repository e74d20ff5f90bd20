/* SPDX-License-Identifier: Apache-2.0 */
/* Products of short rows of bytes, as recurrent operators have them. */
#ifndef TW_DOT_H
#define TW_DOT_H

#include "tw.h"

#if defined(__AVX2__)
#include <immintrin.h>

/* Eight bytes, the last of them 0 if there are only four. */
TW_INLINE __m128i tw_dot_bytes(const int8_t *p, size_t count) {
    int64_t bytes = 0;
    memcpy(&bytes, p, count);
    return _mm_cvtepi8_epi16(_mm_cvtsi64_si128(bytes));
}

/* sums += the products of count values, 4 or 8. */
TW_INLINE __m128i tw_dot_add(__m128i sums, const int8_t *x, const int8_t *w, __m128i zero, size_t count) {
    const __m128i values = _mm_sub_epi16(tw_dot_bytes(x, count), zero);
    return _mm_add_epi32(sums, _mm_madd_epi16(values, tw_dot_bytes(w, count)));
}

/* The sum of the first n - n % 4 products. */
TW_INLINE int32_t tw_dot_fours(const int8_t *x, const int8_t *w, int32_t n, int32_t zero) {
    const __m256i zeros = _mm256_set1_epi16((short)zero);
    __m256i wide = _mm256_setzero_si256();
    int32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m256i values = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(x + i)));
        const __m256i weights = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(w + i)));
        wide = _mm256_add_epi32(wide, _mm256_madd_epi16(_mm256_sub_epi16(values, zeros), weights));
    }
    __m128i sums = _mm_add_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
    for (; i + 8 <= n; i += 8) sums = tw_dot_add(sums, x + i, w + i, _mm256_castsi256_si128(zeros), 8);
    for (; i + 4 <= n; i += 4) sums = tw_dot_add(sums, x + i, w + i, _mm256_castsi256_si128(zeros), 4);
    sums = _mm_add_epi32(sums, _mm_shuffle_epi32(sums, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(sums, _mm_shuffle_epi32(sums, 0xB1)));
}
#endif

/* start + the products of x less zero and w, n of each; sums wrap. zero: -128..127. */
TW_INLINE int32_t tw_dot_s8(int32_t start, const int8_t *x, const int8_t *w, int32_t n, int32_t zero) {
    int32_t i = 0;
#if defined(__AVX2__)
    start = tw_add(start, tw_dot_fours(x, w, n, zero));
    i = n & ~3;
#endif
    for (; i < n; ++i) start = tw_add(start, (x[i] - zero) * w[i]);
    return start;
}

#endif
