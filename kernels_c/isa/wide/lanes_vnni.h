/* SPDX-License-Identifier: Apache-2.0 */
/* Sixteen int32 lanes in a vector of AVX512-VNNI; part of lanes.h, which includes this file. */
#ifndef TW_LANES_VNNI_H
#define TW_LANES_VNNI_H

#include <immintrin.h>

typedef __m512i tw_acc;

/* The tile of a convolution: so many pixels, so many vectors of channels. */
#define TW_CONV_PIXELS 8
#define TW_CONV_BLOCKS 2

TW_INLINE tw_acc tw_acc_load(const int32_t *p) { return _mm512_loadu_si512(p); }
TW_INLINE tw_acc tw_acc_zero(void) { return _mm512_setzero_si512(); }

TW_INLINE tw_acc tw_acc_plus(tw_acc a, tw_acc b) { return _mm512_add_epi32(a, b); }
TW_INLINE tw_acc tw_acc_minus(tw_acc a, tw_acc b) { return _mm512_sub_epi32(a, b); }
TW_INLINE tw_acc tw_acc_left(tw_acc a, int n) { return _mm512_slli_epi32(a, (unsigned)n); }
TW_INLINE tw_acc tw_acc_times_right(tw_acc a, int32_t by, int n) {
    return _mm512_srai_epi32(_mm512_mullo_epi32(a, _mm512_set1_epi32(by)), (unsigned)n);
}

/* Four bytes in all lanes. */
TW_INLINE __m512i tw_four512(const uint8_t *x) {
    int32_t four;
    memcpy(&four, x, 4);
    return _mm512_set1_epi32(four);
}

/* Four bytes in eight lanes, and those that lie so far behind them in the other eight. */
TW_INLINE __m512i tw_pair512(const uint8_t *x, int32_t behind) {
    int32_t high;
    memcpy(&high, x + behind, 4);
    return _mm512_mask_set1_epi32(tw_four512(x), 0xFF00, high);
}

/* acc, which the compiler keeps in one register. Without that gcc 12 copies all sums twice in each step of a loop, or
 * spills two of them: ic_int8 takes 2 to 29 % more time, by -mtune and by which parameters are constants. */
TW_INLINE tw_acc tw_kept(tw_acc acc) {
    __asm__("" : "+v"(acc));
    return acc;
}

/* acc[lane] += sum over j < 4 of x[j] * w[lane][j]. */
TW_INLINE tw_acc tw_acc_dot4(tw_acc acc, const uint8_t *x, const int8_t *w) {
    return tw_kept(_mm512_dpbusd_epi32(acc, tw_four512(x), _mm512_loadu_si512(w)));
}

/* The same of two pixels: the upper eight lanes multiply bytes that lie so far behind x. */
TW_INLINE tw_acc tw_acc_dot4_pair(tw_acc acc, const uint8_t *x, int32_t behind, const int8_t *w) {
    return tw_kept(_mm512_dpbusd_epi32(acc, tw_pair512(x, behind), _mm512_loadu_si512(w)));
}

/* The same two of two int16 each; weights are those of int8, so that products stay within int32. */
TW_INLINE tw_acc tw_acc_dot2(tw_acc acc, const uint8_t *x, const int8_t *w) {
    return tw_kept(_mm512_dpwssd_epi32(acc, tw_four512(x), _mm512_loadu_si512(w)));
}

/* The same of weights that are loaded once for several x. gcc 12 with -mtune=znver3 loads them again for each, which takes
 * 1.4 times as long, unless they are kept. */
TW_INLINE tw_acc tw_acc_dot2_kept(tw_acc acc, const uint8_t *x, tw_acc w) {
    return tw_kept(_mm512_dpwssd_epi32(acc, tw_four512(x), w));
}

TW_INLINE tw_acc tw_acc_dot2_pair(tw_acc acc, const uint8_t *x, int32_t behind, const int8_t *w) {
    return tw_kept(_mm512_dpwssd_epi32(acc, tw_pair512(x, behind), _mm512_loadu_si512(w)));
}

TW_INLINE __mmask16 tw_lanes(int32_t count) { return (__mmask16)((1U << tw_min(count, TW_LANES)) - 1U); }

/* acc[lane] += x[lane] * w[lane] in the first count lanes; w holds int16 values with zeros in the upper halves. */
TW_INLINE tw_acc tw_acc_mul(tw_acc acc, const int8_t *x, const int32_t *w, int32_t count) {
    const __m512i wide = _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(tw_lanes(count), x));
    return _mm512_dpwssd_epi32(acc, wide, _mm512_loadu_si512(w));
}

/* How the sums of 16 channels end. Shifts to the left and to the right, one of them 0. Where the channels are fast:
 * what is added to the products of even and odd lanes, and how far their upper halves are shifted. */
typedef struct {
    tw_acc mult, left, right, even, odd;
    tw_epilogue_s8 end;
} tw_ends;

/* The ends of 16 channels from c on. */
TW_INLINE tw_ends tw_ends_load(const tw_channels_s8 *channels, int32_t c) {
    const __m512i zero = _mm512_setzero_si512(), half = _mm512_set1_epi64(1 << 30);
    const __m512i left = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(channels->shift + c)));
    const __m512i right = _mm512_max_epi32(_mm512_sub_epi32(zero, left), zero), up = _mm512_set1_epi32(30);
    const __m512i unit = _mm512_set1_epi64(1 + 2 * channels->end.zero), by = _mm512_add_epi32(right, up);
    const tw_ends ends = {_mm512_loadu_si512(channels->mult + c),
                          _mm512_max_epi32(left, zero),
                          channels->fast ? _mm512_sub_epi32(right, _mm512_set1_epi32(1)) : right,
                          _mm512_add_epi64(_mm512_sllv_epi64(unit, _mm512_maskz_mov_epi32(0x5555, by)), half),
                          _mm512_add_epi64(_mm512_sllv_epi64(unit, _mm512_srli_epi64(by, 32)), half),
                          channels->end};
    return ends;
}

/* tw_requantize in every lane. */
TW_INLINE tw_acc tw_acc_requantize(tw_acc acc, const tw_ends *ends) {
    const __m512i m = ends->mult, e = ends->right;
    const __m512i x = _mm512_sllv_epi32(acc, ends->left), half = _mm512_set1_epi64(1 << 30);
    const __m512i even = _mm512_add_epi64(_mm512_mul_epi32(x, m), half);
    const __m512i odd = _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(x, 32), _mm512_srli_epi64(m, 32)), half);
    const __m512i high = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 31), _mm512_slli_epi64(odd, 1));
    const __m512i ones = _mm512_set1_epi32(-1), mask = _mm512_andnot_si512(_mm512_sllv_epi32(ones, e), ones);
    const __m512i threshold = _mm512_sub_epi32(_mm512_srli_epi32(mask, 1), _mm512_srai_epi32(high, 31));
    const __mmask16 up = _mm512_cmpgt_epi32_mask(_mm512_and_si512(high, mask), threshold);
    const __m512i down = _mm512_srav_epi32(high, e);
    return _mm512_mask_sub_epi32(down, up, down, ones);
}

/* The same plus zero, in one rounding, for shifts to the right by r = 1 to TW_FAST_RIGHT: with s = -1 below zero, else 0,
 * floor((acc * mult + 2^30 + (2^(r - 1) + s) * 2^31) / 2^(31 + r)) + zero. Where outputs end at zero, s changes none. */
TW_INLINE tw_acc tw_acc_requantize_fast(tw_acc acc, const tw_ends *ends, int ending) {
    const __m512i uppers = _mm512_set_epi32(31, 15, 29, 13, 27, 11, 25, 9, 23, 7, 21, 5, 19, 3, 17, 1);
    const __m512i other = _mm512_srli_epi64(acc, 32), m = ends->mult;
    const __m512i first = _mm512_mul_epi32(acc, m), second = _mm512_mul_epi32(other, _mm512_srli_epi64(m, 32));
    __m512i even = _mm512_add_epi64(first, ends->even), odd = _mm512_add_epi64(second, ends->odd);
    if (ending == TW_ENDS_FAST) {
        const __m512i one = _mm512_set1_epi64(1LL << 31);
        even = _mm512_mask_sub_epi64(even, _mm512_movepi64_mask(first), even, one);
        odd = _mm512_mask_sub_epi64(odd, _mm512_movepi64_mask(second), odd, one);
    }
    return _mm512_srav_epi32(_mm512_permutex2var_epi32(even, uppers, odd), ends->right);
}

/* The outputs of the first count lanes. */
TW_INLINE void tw_acc_end(int8_t *y, tw_acc acc, const tw_ends *ends, int ending, int32_t count) {
    const __m128i low = _mm_set1_epi8((char)ends->end.low), high = _mm_set1_epi8((char)ends->end.high);
    const tw_acc sum = ending == TW_ENDS_SLOW
                           ? _mm512_add_epi32(tw_acc_requantize(acc, ends), _mm512_set1_epi32(ends->end.zero))
                           : tw_acc_requantize_fast(acc, ends, ending);
    const __m128i clamped = _mm_min_epi8(_mm_max_epi8(_mm512_cvtsepi32_epi8(sum), low), high);
    if (count >= TW_LANES)
        _mm_storeu_si128((__m128i *)(void *)y, clamped);
    else
        _mm_mask_storeu_epi8(y, tw_lanes(count), clamped);
}

/* The first count outputs of int16: acc * mult / 2^32 rounded half up, clamped. */
TW_INLINE void tw_acc_end_s16(int16_t *y, tw_acc acc, tw_acc mult, const tw_limits *limits, int32_t count) {
    const __m512i uppers = _mm512_set_epi32(31, 15, 29, 13, 27, 11, 25, 9, 23, 7, 21, 5, 19, 3, 17, 1);
    const __m512i half = _mm512_set1_epi64(1LL << 31), low = _mm512_set1_epi32(limits->low);
    const __m512i even = _mm512_add_epi64(_mm512_mul_epi32(acc, mult), half);
    const __m512i odd =
        _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(acc, 32), _mm512_srli_epi64(mult, 32)), half);
    const __m512i scaled = _mm512_max_epi32(_mm512_permutex2var_epi32(even, uppers, odd), low);
    const __m256i words = _mm512_cvtepi32_epi16(_mm512_min_epi32(scaled, _mm512_set1_epi32(limits->high)));
    if (count >= TW_LANES)
        _mm256_storeu_si256((__m256i *)(void *)y, words);
    else
        _mm256_mask_storeu_epi16(y, tw_lanes(count), words);
}

#endif
