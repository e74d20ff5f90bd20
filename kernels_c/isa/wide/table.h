/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of bytes looked up in a table of 256: tw_byte_table holds it, TW_TABLE bytes are looked up at once; neither is
 * there on computers without AVX2. */
#ifndef TW_TABLE_H
#define TW_TABLE_H

#include "../../core/tw.h"

#if defined(__AVX512BW__)
#include <immintrin.h>
#define TW_TABLE 64
typedef struct {
    __m512i part[4];
} tw_byte_table;

TW_INLINE tw_byte_table tw_table_load(const uint8_t *bytes) {
    tw_byte_table table;
    for (int i = 0; i < 4; ++i) table.part[i] = _mm512_loadu_si512(bytes + 64 * i);
    return table;
}

#if defined(__AVX512VBMI__)
/* The bytes of x looked up; a permutation takes seven bits, the eighth chooses the half of the table. */
TW_INLINE __m512i tw_table_of(const tw_byte_table *table, __m512i x) {
    const __m512i low = _mm512_permutex2var_epi8(table->part[0], x, table->part[1]);
    const __m512i high = _mm512_permutex2var_epi8(table->part[2], x, table->part[3]);
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high);
}
#else
/* Pairs of neighbours in the table, for the bytes of which index has seven bits; of them the sixth below chooses. */
TW_INLINE __m512i tw_table_pairs(const tw_byte_table *table, __m512i index) {
    const __m512i low = _mm512_permutex2var_epi16(table->part[0], index, table->part[1]);
    const __m512i high = _mm512_permutex2var_epi16(table->part[2], index, table->part[3]);
    return _mm512_mask_blend_epi16(_mm512_test_epi16_mask(index, _mm512_set1_epi16(64)), low, high);
}

/* The bytes of x looked up, even and odd ones apart: as pairs, of which the lowest bit chooses one. */
TW_INLINE __m512i tw_table_of(const tw_byte_table *table, __m512i x) {
    const __mmask32 second = _mm512_test_epi16_mask(x, _mm512_set1_epi16(1));
    const __mmask32 first = _mm512_testn_epi16_mask(x, _mm512_set1_epi16(256));
    const __m512i even = tw_table_pairs(table, _mm512_srli_epi16(x, 1));
    const __m512i odd = tw_table_pairs(table, _mm512_srli_epi16(x, 9));
    return _mm512_mask_blend_epi8(0xAAAAAAAAAAAAAAAA, _mm512_mask_srli_epi16(even, second, even, 8),
                                  _mm512_mask_slli_epi16(odd, first, odd, 8));
}
#endif

TW_INLINE void tw_table_look_up(const tw_byte_table *table, const uint8_t *x, uint8_t *y) {
    _mm512_storeu_si512(y, tw_table_of(table, _mm512_loadu_si512(x)));
}

#elif defined(__AVX2__)
#include <immintrin.h>
#define TW_TABLE 32
/* Sixteen entries each; but for the first of a half, each less (xor) the sixteen before. */
typedef struct {
    __m256i part[16];
} tw_byte_table;

TW_INLINE tw_byte_table tw_table_load(const uint8_t *bytes) {
    const __m128i *from = (const __m128i *)(const void *)bytes;
    tw_byte_table table;
    for (int i = 0; i < 16; ++i) {
        const __m128i own = _mm_loadu_si128(from + i), before = _mm_loadu_si128(from + (i & 7 ? i - 1 : i));
        table.part[i] = _mm256_broadcastsi128_si256(i & 7 ? _mm_xor_si128(own, before) : own);
    }
    return table;
}

/* An index below 0 gives 0. It loses 16 with every part, so that the parts up to its own add up to its entry. */
TW_INLINE void tw_table_look_up(const tw_byte_table *table, const uint8_t *x, uint8_t *y) {
    __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)x);
    __m256i high = _mm256_xor_si256(low, _mm256_set1_epi8(-128));
    __m256i sum = _mm256_xor_si256(_mm256_shuffle_epi8(table->part[0], low), _mm256_shuffle_epi8(table->part[8], high));
    for (int i = 1; i < 8; ++i) {
        low = _mm256_subs_epi8(low, _mm256_set1_epi8(16));
        high = _mm256_subs_epi8(high, _mm256_set1_epi8(16));
        sum = _mm256_xor_si256(sum, _mm256_shuffle_epi8(table->part[i], low));
        sum = _mm256_xor_si256(sum, _mm256_shuffle_epi8(table->part[8 + i], high));
    }
    _mm256_storeu_si256((__m256i *)(void *)y, sum);
}
#endif

#endif
