/* SPDX-License-Identifier: Apache-2.0 */
/* Four rows of bytes in vectors of AVX512-VNNI; part of unpacked.h, which includes this file. */
#ifndef TW_UNPACKED_VNNI_H
#define TW_UNPACKED_VNNI_H

/* Bytes of a strip, and how many strips' sums are computed at once. */
#define TW_STRIP 64
#define TW_STRIPS_AT_ONCE 3

/* The outputs of a strip, and its sums. */
typedef __m512i tw_strip_bytes;

typedef struct {
    __m512i of[4];
} tw_strip_sums;

/* The first count of 64 bytes. */
TW_INLINE __mmask64 tw_first64(int32_t count) { return _cvtu64_mask64(~0ULL >> (TW_BLOCK - tw_min(count, TW_BLOCK))); }

/* The first count bytes of x, at most 64, as uint8: x + 128. */
TW_INLINE void tw_bias64(uint8_t *to, const int8_t *x, int32_t count) {
    const __m512i bytes = _mm512_maskz_loadu_epi8(tw_first64(count), x);
    _mm512_mask_storeu_epi8(to, tw_first64(count), _mm512_xor_si512(bytes, _mm512_set1_epi8(-128)));
}

/* 64 bytes of x as uint8, cut into units, which go to even and odd in turn. unit: 4, 8, 16 or 32 bytes. */
TW_INLINE void tw_split64(uint8_t *even, uint8_t *odd, const int8_t *x, int32_t unit) {
    const __m512i i = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7);
    const __m512i words = _mm512_set1_epi32(unit / 4), within = _mm512_and_si512(i, _mm512_set1_epi32(unit / 4 - 1));
    const __m512i first = _mm512_sub_epi32(_mm512_add_epi32(i, i), within);
    const __m512i from = _mm512_mask_add_epi32(first, 0xFF00, first, words);
    const __m512i bytes = _mm512_xor_si512(_mm512_loadu_si512(x), _mm512_set1_epi8(-128));
    const __m512i split = _mm512_permutexvar_epi32(from, bytes);
    _mm256_storeu_si256((__m256i *)(void *)even, _mm512_castsi512_si256(split));
    _mm256_storeu_si256((__m256i *)(void *)odd, _mm512_extracti64x4_epi64(split, 1));
}

/* Sums that begin with those of a block, [4 sums][16]. */
TW_INLINE tw_strip_sums tw_strip_begin(const int32_t *bias, int strip) {
    tw_strip_sums sums;
    (void)strip;
    for (int a = 0; a < 4; ++a) sums.of[a] = _mm512_loadu_si512(bias + TW_LANES * a);
    return sums;
}

/* sums += four taps. at: bytes from where the rows begin. w: of a block, [4 sums][16][4]. */
TW_INLINE void tw_strip_add(tw_strip_sums *sums, const tw_four_rows *rows, ptrdiff_t at, const int8_t *w, int strip) {
    const __m512i r0 = _mm512_loadu_si512(rows->row[0] + at), r1 = _mm512_loadu_si512(rows->row[1] + at);
    const __m512i r2 = _mm512_loadu_si512(rows->row[2] + at), r3 = _mm512_loadu_si512(rows->row[3] + at);
    const __m512i low01 = _mm512_unpacklo_epi8(r0, r1), high01 = _mm512_unpackhi_epi8(r0, r1);
    const __m512i low23 = _mm512_unpacklo_epi8(r2, r3), high23 = _mm512_unpackhi_epi8(r2, r3);
    const __m512i x[4] = {_mm512_unpacklo_epi16(low01, low23), _mm512_unpackhi_epi16(low01, low23),
                          _mm512_unpacklo_epi16(high01, high23), _mm512_unpackhi_epi16(high01, high23)};
    (void)strip;
    for (int a = 0; a < 4; ++a) sums->of[a] = _mm512_dpbusd_epi32(sums->of[a], x[a], _mm512_loadu_si512(w + 64 * a));
}

/* The outputs: packing undoes what unpacking did to their order. */
TW_INLINE __m512i tw_strip_end(const tw_strip_sums *sums, const tw_block_ends *ends, int ending, int strip) {
    const tw_epilogue_s8 *end = &ends->of[0].end;
    const __m512i low = _mm512_set1_epi8((char)end->low), high = _mm512_set1_epi8((char)end->high);
    const __m512i zero = _mm512_set1_epi32(end->zero);
    __m512i of[4];
    (void)strip;
    for (int a = 0; a < 4; ++a)
        of[a] = ending == TW_ENDS_SLOW ? _mm512_add_epi32(tw_acc_requantize(sums->of[a], &ends->of[a]), zero)
                                       : tw_acc_requantize_fast(sums->of[a], &ends->of[a], ending);
    const __m512i packed = _mm512_packs_epi16(_mm512_packs_epi32(of[0], of[1]), _mm512_packs_epi32(of[2], of[3]));
    return _mm512_min_epi8(_mm512_max_epi8(packed, low), high);
}

/* Stores the first count outputs. */
TW_INLINE void tw_strip_store(int8_t *y, __m512i bytes, int32_t count) {
    if (count >= TW_STRIP)
        _mm512_storeu_si512(y, bytes);
    else
        _mm512_mask_storeu_epi8(y, tw_first64(count), bytes);
}

#endif
