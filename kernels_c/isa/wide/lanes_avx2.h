/* SPDX-License-Identifier: Apache-2.0 */
/* Sixteen int32 lanes in two vectors of AVX2, with AVX-VNNI where there is that; part of lanes.h, which includes this
 * file. */
#ifndef TW_LANES_AVX2_H
#define TW_LANES_AVX2_H

#include <immintrin.h>

typedef struct {
    __m256i of[2];
} tw_acc;

/* The tile of a convolution: twelve vectors of sums leave room for two of weights and one or two of pixels. */
#define TW_CONV_PIXELS 6
#define TW_CONV_BLOCKS 1

TW_INLINE __m256i tw_load256(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }

TW_INLINE tw_acc tw_acc_load(const int32_t *p) {
    const tw_acc acc = {{tw_load256(p), tw_load256(p + 8)}};
    return acc;
}

TW_INLINE tw_acc tw_acc_zero(void) {
    const tw_acc acc = {{_mm256_setzero_si256(), _mm256_setzero_si256()}};
    return acc;
}

TW_INLINE tw_acc tw_acc_plus(tw_acc a, tw_acc b) {
    const tw_acc acc = {{_mm256_add_epi32(a.of[0], b.of[0]), _mm256_add_epi32(a.of[1], b.of[1])}};
    return acc;
}

TW_INLINE tw_acc tw_acc_minus(tw_acc a, tw_acc b) {
    const tw_acc acc = {{_mm256_sub_epi32(a.of[0], b.of[0]), _mm256_sub_epi32(a.of[1], b.of[1])}};
    return acc;
}

TW_INLINE tw_acc tw_acc_left(tw_acc a, int n) {
    const tw_acc acc = {{_mm256_slli_epi32(a.of[0], n), _mm256_slli_epi32(a.of[1], n)}};
    return acc;
}

/* a * by, which wraps, shifted to the right. */
TW_INLINE tw_acc tw_acc_times_right(tw_acc a, int32_t by, int n) {
    const __m256i all = _mm256_set1_epi32(by);
    for (int i = 0; i < 2; ++i) a.of[i] = _mm256_srai_epi32(_mm256_mullo_epi32(a.of[i], all), n);
    return a;
}

/* acc[lane] += four bytes of x . four of w[lane]. Where no instruction does that: even and odd bytes are multiplied as
 * 16-bit halves of a lane, whose products VPMADDWD adds. */
TW_INLINE __m256i tw_dot4_256(__m256i acc, __m256i x, __m256i w) {
#if defined(__AVXVNNI__)
    return _mm256_dpbusd_avx_epi32(acc, x, w);
#else
    const __m256i even = _mm256_and_si256(x, _mm256_set1_epi16(255)), odd = _mm256_srli_epi16(x, 8);
    const __m256i w_even = _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8), w_odd = _mm256_srai_epi16(w, 8);
    acc = _mm256_add_epi32(acc, _mm256_madd_epi16(even, w_even));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(odd, w_odd));
#endif
}

/* Four bytes in all lanes. */
TW_INLINE __m256i tw_four256(const uint8_t *x) {
    int32_t four;
    memcpy(&four, x, 4);
    return _mm256_set1_epi32(four);
}

TW_INLINE tw_acc tw_acc_dot4(tw_acc acc, const uint8_t *x, const int8_t *w) {
    const __m256i four = tw_four256(x);
    for (int i = 0; i < 2; ++i) acc.of[i] = tw_dot4_256(acc.of[i], four, tw_load256(w + 32 * i));
    return acc;
}

TW_INLINE tw_acc tw_acc_dot4_pair(tw_acc acc, const uint8_t *x, int32_t behind, const int8_t *w) {
    for (int i = 0; i < 2; ++i) acc.of[i] = tw_dot4_256(acc.of[i], tw_four256(x + i * behind), tw_load256(w + 32 * i));
    return acc;
}

/* The same of two int16 each. The addition is in assembly: gcc would compute the products of many pixels first, for which
 * there are no registers, or copy every sum. */
TW_INLINE __m256i tw_dot2_256(__m256i acc, __m256i x, __m256i w) {
    const __m256i products = _mm256_madd_epi16(x, w);
    __asm__("vpaddd %1, %0, %0" : "+x"(acc) : "x"(products));
    return acc;
}

TW_INLINE tw_acc tw_acc_dot2(tw_acc acc, const uint8_t *x, const int8_t *w) {
    const __m256i two = tw_four256(x);
    for (int i = 0; i < 2; ++i) acc.of[i] = tw_dot2_256(acc.of[i], two, tw_load256(w + 32 * i));
    return acc;
}

TW_INLINE tw_acc tw_acc_dot2_pair(tw_acc acc, const uint8_t *x, int32_t behind, const int8_t *w) {
    for (int i = 0; i < 2; ++i) acc.of[i] = tw_dot2_256(acc.of[i], tw_four256(x + i * behind), tw_load256(w + 32 * i));
    return acc;
}

TW_INLINE tw_acc tw_acc_mul(tw_acc acc, const int8_t *x, const int32_t *w, int32_t count) {
    int8_t few[TW_LANES] = {0};
    if (count < TW_LANES) {
        for (int32_t lane = 0; lane < count; ++lane) few[lane] = x[lane];
        x = few;
    }
    for (int i = 0; i < 2; ++i) {
        const __m256i wide = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(x + 8 * i)));
        acc.of[i] = _mm256_add_epi32(acc.of[i], _mm256_madd_epi16(wide, tw_load256(w + 8 * i)));
    }
    return acc;
}

/* As in lanes_vnni.h, for each half. */
typedef struct {
    tw_acc mult, left, right, even, odd;
    tw_epilogue_s8 end;
} tw_ends;

TW_INLINE tw_ends tw_ends_load(const tw_channels_s8 *channels, int32_t c) {
    const __m256i zero = _mm256_setzero_si256(), half = _mm256_set1_epi64x(1 << 30), one = _mm256_set1_epi32(1);
    const __m256i unit = _mm256_set1_epi64x(1 + 2 * channels->end.zero), up = _mm256_set1_epi32(30);
    tw_ends ends;
    ends.mult = tw_acc_load(channels->mult + c);
    ends.end = channels->end;
    for (int i = 0; i < 2; ++i) {
        const __m128i *shift = (const __m128i *)(const void *)(channels->shift + c + 8 * i);
        const __m256i left = _mm256_cvtepi8_epi32(_mm_loadl_epi64(shift));
        const __m256i right = _mm256_max_epi32(_mm256_sub_epi32(zero, left), zero), by = _mm256_add_epi32(right, up);
        ends.left.of[i] = _mm256_max_epi32(left, zero);
        ends.right.of[i] = channels->fast ? _mm256_sub_epi32(right, one) : right;
        ends.even.of[i] = _mm256_add_epi64(_mm256_sllv_epi64(unit, _mm256_blend_epi32(by, zero, 0xAA)), half);
        ends.odd.of[i] = _mm256_add_epi64(_mm256_sllv_epi64(unit, _mm256_srli_epi64(by, 32)), half);
    }
    return ends;
}

/* tw_requantize in every lane of a half. */
TW_INLINE __m256i tw_requantize256(__m256i acc, const tw_ends *ends, int i) {
    const __m256i m = ends->mult.of[i], e = ends->right.of[i], half = _mm256_set1_epi64x(1 << 30);
    const __m256i x = _mm256_sllv_epi32(acc, ends->left.of[i]), ones = _mm256_set1_epi32(-1);
    const __m256i even = _mm256_add_epi64(_mm256_mul_epi32(x, m), half);
    const __m256i odd = _mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64(x, 32), _mm256_srli_epi64(m, 32)), half);
    const __m256i high = _mm256_blend_epi32(_mm256_srli_epi64(even, 31), _mm256_slli_epi64(odd, 1), 0xAA);
    const __m256i mask = _mm256_andnot_si256(_mm256_sllv_epi32(ones, e), ones);
    const __m256i threshold = _mm256_sub_epi32(_mm256_srli_epi32(mask, 1), _mm256_srai_epi32(high, 31));
    const __m256i up = _mm256_cmpgt_epi32(_mm256_and_si256(high, mask), threshold);
    return _mm256_sub_epi32(_mm256_srav_epi32(high, e), up);
}

/* One product of two as one rounding wants it: what is added is less by 2^31 below zero, unless outputs end at zero. */
TW_INLINE __m256i tw_rounded256(__m256i product, __m256i added, int ending) {
    const __m256i below = _mm256_cmpgt_epi64(_mm256_setzero_si256(), product);
    const __m256i sum = _mm256_add_epi64(product, added);
    return ending == TW_ENDS_FAST ? _mm256_add_epi64(sum, _mm256_slli_epi64(below, 31)) : sum;
}

/* The same plus zero in one rounding, as tw_acc_requantize_fast in lanes_vnni.h. */
TW_INLINE __m256i tw_requantize_fast256(__m256i acc, const tw_ends *ends, int ending, int i) {
    const __m256i m = ends->mult.of[i], other = _mm256_srli_epi64(acc, 32);
    const __m256i even = tw_rounded256(_mm256_mul_epi32(acc, m), ends->even.of[i], ending);
    const __m256i odd = tw_rounded256(_mm256_mul_epi32(other, _mm256_srli_epi64(m, 32)), ends->odd.of[i], ending);
    return _mm256_srav_epi32(_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA), ends->right.of[i]);
}

TW_INLINE void tw_acc_end(int8_t *y, tw_acc acc, const tw_ends *ends, int ending, int32_t count) {
    const __m128i low = _mm_set1_epi8((char)ends->end.low), high = _mm_set1_epi8((char)ends->end.high);
    const __m256i zero = _mm256_set1_epi32(ends->end.zero);
    for (int i = 0; i < 2; ++i)
        acc.of[i] = ending == TW_ENDS_SLOW ? _mm256_add_epi32(tw_requantize256(acc.of[i], ends, i), zero)
                                           : tw_requantize_fast256(acc.of[i], ends, ending, i);
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(acc.of[0], acc.of[1]), 0xD8);
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    const __m128i clamped = _mm_min_epi8(_mm_max_epi8(bytes, low), high);
    if (count >= TW_LANES) {
        _mm_storeu_si128((__m128i *)(void *)y, clamped);
        return;
    }
    int8_t outputs[TW_LANES];
    _mm_storeu_si128((__m128i *)(void *)outputs, clamped);
    for (int32_t lane = 0; lane < count; ++lane) y[lane] = outputs[lane];
}

/* As in lanes_vnni.h. */
TW_INLINE __m256i tw_scaled256(__m256i acc, __m256i mult) {
    const __m256i half = _mm256_set1_epi64x(1LL << 31);
    const __m256i even = _mm256_add_epi64(_mm256_mul_epi32(acc, mult), half);
    const __m256i odd =
        _mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64(acc, 32), _mm256_srli_epi64(mult, 32)), half);
    return _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
}

TW_INLINE void tw_acc_end_s16(int16_t *y, tw_acc acc, tw_acc mult, const tw_limits *limits, int32_t count) {
    const __m256i low = _mm256_set1_epi16((int16_t)limits->low), high = _mm256_set1_epi16((int16_t)limits->high);
    const __m256i first = tw_scaled256(acc.of[0], mult.of[0]), second = tw_scaled256(acc.of[1], mult.of[1]);
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(first, second), 0xD8);
    const __m256i clamped = _mm256_min_epi16(_mm256_max_epi16(words, low), high);
    if (count >= TW_LANES) {
        _mm256_storeu_si256((__m256i *)(void *)y, clamped);
        return;
    }
    int16_t outputs[TW_LANES];
    _mm256_storeu_si256((__m256i *)(void *)outputs, clamped);
    for (int32_t lane = 0; lane < count; ++lane) y[lane] = outputs[lane];
}

#endif
