/* SPDX-License-Identifier: Apache-2.0 */
/* Four rows of bytes in vectors of AVX2; part of unpacked.h, which includes this file. */
#ifndef TW_UNPACKED_AVX2_H
#define TW_UNPACKED_AVX2_H

#define TW_STRIP 32
#define TW_STRIPS_AT_ONCE 2

typedef __m256i tw_strip_bytes;

typedef struct {
    __m256i of[4];
} tw_strip_sums;

TW_INLINE void tw_bias64(uint8_t *to, const int8_t *x, int32_t count) { tw_bias128(to, x, count); }

TW_INLINE void tw_split64(uint8_t *even, uint8_t *odd, const int8_t *x, int32_t unit) {
    const __m256i i = _mm256_setr_epi32(0, 1, 2, 3, 0, 1, 2, 3), flip = _mm256_set1_epi8(-128);
    const __m256i words = _mm256_set1_epi32(unit / 4), within = _mm256_and_si256(i, _mm256_set1_epi32(unit / 4 - 1));
    const __m256i first = _mm256_sub_epi32(_mm256_add_epi32(i, i), within);
    const __m256i from = _mm256_blend_epi32(first, _mm256_add_epi32(first, words), 0xF0);
    __m256i a = _mm256_xor_si256(tw_load256(x), flip), b = _mm256_xor_si256(tw_load256(x + 32), flip);
    if (unit < 32) {
        const __m256i low = _mm256_permutevar8x32_epi32(a, from), high = _mm256_permutevar8x32_epi32(b, from);
        a = _mm256_permute2x128_si256(low, high, 0x20);
        b = _mm256_permute2x128_si256(low, high, 0x31);
    }
    _mm256_storeu_si256((__m256i *)(void *)even, a);
    _mm256_storeu_si256((__m256i *)(void *)odd, b);
}

TW_INLINE tw_strip_sums tw_strip_begin(const int32_t *bias, int strip) {
    tw_strip_sums sums;
    for (int a = 0; a < 4; ++a) sums.of[a] = tw_load256(bias + TW_LANES * a + 8 * strip);
    return sums;
}

TW_INLINE void tw_strip_add(tw_strip_sums *sums, const tw_four_rows *rows, ptrdiff_t at, const int8_t *w, int strip) {
    const __m256i r0 = tw_load256(rows->row[0] + at), r1 = tw_load256(rows->row[1] + at);
    const __m256i r2 = tw_load256(rows->row[2] + at), r3 = tw_load256(rows->row[3] + at);
    const __m256i low01 = _mm256_unpacklo_epi8(r0, r1), high01 = _mm256_unpackhi_epi8(r0, r1);
    const __m256i low23 = _mm256_unpacklo_epi8(r2, r3), high23 = _mm256_unpackhi_epi8(r2, r3);
    const __m256i x[4] = {_mm256_unpacklo_epi16(low01, low23), _mm256_unpackhi_epi16(low01, low23),
                          _mm256_unpacklo_epi16(high01, high23), _mm256_unpackhi_epi16(high01, high23)};
    for (int a = 0; a < 4; ++a) sums->of[a] = tw_dot4_256(sums->of[a], x[a], tw_load256(w + 64 * a + 32 * strip));
}

TW_INLINE __m256i tw_strip_end(const tw_strip_sums *sums, const tw_block_ends *ends, int ending, int strip) {
    const tw_epilogue_s8 *end = &ends->of[0].end;
    const __m256i low = _mm256_set1_epi8((char)end->low), high = _mm256_set1_epi8((char)end->high);
    const __m256i zero = _mm256_set1_epi32(end->zero);
    __m256i of[4];
    for (int a = 0; a < 4; ++a)
        of[a] = ending == TW_ENDS_SLOW ? _mm256_add_epi32(tw_requantize256(sums->of[a], &ends->of[a], strip), zero)
                                       : tw_requantize_fast256(sums->of[a], &ends->of[a], ending, strip);
    const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(of[0], of[1]), _mm256_packs_epi32(of[2], of[3]));
    return _mm256_min_epi8(_mm256_max_epi8(packed, low), high);
}

TW_INLINE void tw_strip_store(int8_t *y, __m256i bytes, int32_t count) {
    int8_t outputs[TW_STRIP];
    if (count >= TW_STRIP) {
        _mm256_storeu_si256((__m256i *)(void *)y, bytes);
        return;
    }
    _mm256_storeu_si256((__m256i *)(void *)outputs, bytes);
    for (int32_t i = 0; i < count; ++i) y[i] = outputs[i];
}

#endif
