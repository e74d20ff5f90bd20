/* SPDX-License-Identifier: Apache-2.0 */
/* Sixteen int32 lanes, one output channel each: the base of the host's int8 convolution kernels.
 *
 * An int8 matrix product runs over panels: rows of x as uint8 (x + 128), k padded to a multiple of 4 with anything, and
 * weights packed [out / 16][k / 4][16][4] with zeros in the padding. The +128 and the input zero point are folded into
 * the bias when the weights are packed (runtime/ops/core/packing.py). All sums wrap as two's complement does, so the
 * order of additions does not matter and every instruction-set level gives the same bits. */
#ifndef TW_WIDE_H
#define TW_WIDE_H

#include "../../core/epilogue.h"

#if defined(__AVX512VNNI__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define TW_WIDE_VNNI 1
#include <immintrin.h>
#elif defined(__AVX2__)
#define TW_WIDE_AVX2 1
#include <immintrin.h>
#endif

#define TW_LANES 16

/* How many rows of a panel one tile of accumulators covers; panels are padded to a multiple of it. */
#define TW_TILE_ROWS 8

/* The farthest shift to the right of fast channels (tw_channels_s8). */
#define TW_FAST_RIGHT 20

#if defined(TW_WIDE_VNNI)
typedef __m512i tw_acc;

TW_INLINE tw_acc tw_acc_load(const int32_t *p) { return _mm512_loadu_si512(p); }
TW_INLINE tw_acc tw_acc_zero(void) { return _mm512_setzero_si512(); }

/* acc[lane] += sum over j < 4 of x[j] * w[lane][j]. */
TW_INLINE tw_acc tw_acc_dot4(tw_acc acc, const uint8_t *x, const int8_t *w) {
    int32_t four;
    memcpy(&four, x, 4);
    return _mm512_dpbusd_epi32(acc, _mm512_set1_epi32(four), _mm512_loadu_si512(w));
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
    int32_t fast;
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
                          channels->fast,
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
TW_INLINE tw_acc tw_acc_requantize_fast(tw_acc acc, const tw_ends *ends) {
    const __m512i other = _mm512_srli_epi64(acc, 32), m = ends->mult;
    const __m512i first = _mm512_mul_epi32(acc, m), second = _mm512_mul_epi32(other, _mm512_srli_epi64(m, 32));
    __m512i even = _mm512_add_epi64(first, ends->even), odd = _mm512_add_epi64(second, ends->odd);
    if (ends->end.low != ends->end.zero) {
        const __m512i one = _mm512_set1_epi64(1LL << 31);
        even = _mm512_mask_sub_epi64(even, _mm512_movepi64_mask(first), even, one);
        odd = _mm512_mask_sub_epi64(odd, _mm512_movepi64_mask(second), odd, one);
    }
    return _mm512_srav_epi32(_mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd), ends->right);
}

/* The outputs of the first count lanes. */
TW_INLINE void tw_acc_end(int8_t *y, tw_acc acc, const tw_ends *ends, int32_t count) {
    const int32_t low = ends->end.low, high = ends->end.high;
    tw_acc sum = ends->fast ? tw_acc_requantize_fast(acc, ends)
                            : _mm512_add_epi32(tw_acc_requantize(acc, ends), _mm512_set1_epi32(ends->end.zero));
    if (low > -128 || high < 127)
        sum = _mm512_min_epi32(_mm512_max_epi32(sum, _mm512_set1_epi32(low)), _mm512_set1_epi32(high));
    if (count >= TW_LANES)
        _mm_storeu_si128((__m128i *)(void *)y, _mm512_cvtsepi32_epi8(sum));
    else
        _mm_mask_storeu_epi8(y, tw_lanes(count), _mm512_cvtsepi32_epi8(sum));
}
#else
typedef struct {
    int32_t v[TW_LANES];
} tw_acc;

TW_INLINE tw_acc tw_acc_load(const int32_t *p) {
    tw_acc acc;
    memcpy(&acc, p, sizeof acc);
    return acc;
}

TW_INLINE tw_acc tw_acc_zero(void) {
    tw_acc acc;
    memset(&acc, 0, sizeof acc);
    return acc;
}

TW_INLINE tw_acc tw_acc_dot4(tw_acc acc, const uint8_t *x, const int8_t *w) {
#if defined(TW_WIDE_AVX2)
    int32_t four;
    memcpy(&four, x, 4);
    const __m256i x16 = _mm256_cvtepu8_epi16(_mm_set1_epi32(four));
    for (int i = 0; i < 2; ++i) {
        const __m128i *at = (const __m128i *)(const void *)(w + 32 * i);
        const __m256i low = _mm256_madd_epi16(x16, _mm256_cvtepi8_epi16(_mm_loadu_si128(at)));
        const __m256i high = _mm256_madd_epi16(x16, _mm256_cvtepi8_epi16(_mm_loadu_si128(at + 1)));
        const __m256i sums = _mm256_permute4x64_epi64(_mm256_hadd_epi32(low, high), 0xD8);
        __m256i *to = (__m256i *)(void *)(acc.v + 8 * i);
        _mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), sums));
    }
#else
    for (int lane = 0; lane < TW_LANES; ++lane) {
        const int8_t *p = w + 4 * lane;
        acc.v[lane] = tw_add(acc.v[lane], x[0] * p[0] + x[1] * p[1] + x[2] * p[2] + x[3] * p[3]);
    }
#endif
    return acc;
}

TW_INLINE tw_acc tw_acc_mul(tw_acc acc, const int8_t *x, const int32_t *w, int32_t count) {
    if (count >= TW_LANES)
        for (int lane = 0; lane < TW_LANES; ++lane) acc.v[lane] = tw_add(acc.v[lane], x[lane] * (int16_t)w[lane]);
    else
        for (int lane = 0; lane < count; ++lane) acc.v[lane] = tw_add(acc.v[lane], x[lane] * (int16_t)w[lane]);
    return acc;
}

typedef struct {
    tw_acc mult, left, right;
    tw_epilogue_s8 end;
} tw_ends;

TW_INLINE tw_ends tw_ends_load(const tw_channels_s8 *channels, int32_t c) {
    tw_ends ends;
    ends.mult = tw_acc_load(channels->mult + c);
    ends.end = channels->end;
    for (int lane = 0; lane < TW_LANES; ++lane) {
        ends.left.v[lane] = tw_max(channels->shift[c + lane], 0);
        ends.right.v[lane] = tw_max(-channels->shift[c + lane], 0);
    }
    return ends;
}

TW_INLINE tw_acc tw_acc_requantize(tw_acc acc, const tw_ends *ends) {
    for (int lane = 0; lane < TW_LANES; ++lane) {
        const int32_t high = tw_mul_high(tw_shift_left(acc.v[lane], ends->left.v[lane]), ends->mult.v[lane]);
        acc.v[lane] = tw_round_shift(high, ends->right.v[lane]);
    }
    return acc;
}

TW_INLINE void tw_acc_end(int8_t *y, tw_acc acc, const tw_ends *ends, int32_t count) {
    acc = tw_acc_requantize(acc, ends);
    if (count >= TW_LANES) {
        for (int lane = 0; lane < TW_LANES; ++lane) y[lane] = tw_epilogue_s8_of(acc.v[lane], &ends->end);
        return;
    }
    for (int lane = 0; lane < count; ++lane) y[lane] = tw_epilogue_s8_of(acc.v[lane], &ends->end);
}
#endif

/* acc[r][b] += row r of x [rows, k] . block b of the packed weights. rows and blocks are constants at every call. */
TW_INLINE void tw_tile_sums(tw_acc acc[TW_TILE_ROWS][TW_TILE_ROWS], const uint8_t *x, int32_t k, const int8_t *w,
                            int rows, int blocks) {
    for (int32_t i = 0; i < k; i += 4)
        for (int b = 0; b < blocks; ++b)
            for (int r = 0; r < rows; ++r)
                acc[r][b] = tw_acc_dot4(acc[r][b], x + r * k + i, w + TW_LANES * (b * k + i));
}

/* rows x (16 * blocks) outputs at channel c: y[row * out + c ...], the first valid_rows of them. */
TW_INLINE void tw_tile_s8(const uint8_t *x, int32_t k, const int8_t *w, int8_t *y, int32_t out, int32_t c, int rows,
                          int blocks, int32_t valid_rows, const tw_channels_s8 *channels) {
    tw_acc acc[TW_TILE_ROWS][TW_TILE_ROWS];
    for (int b = 0; b < blocks; ++b)
        for (int r = 0; r < rows; ++r) acc[r][b] = tw_acc_load(channels->bias + c + TW_LANES * b);
    tw_tile_sums(acc, x, k, w, rows, blocks);
    for (int b = 0; b < blocks; ++b) {
        const int32_t at = c + TW_LANES * b;
        const tw_ends ends = tw_ends_load(channels, at);
        for (int r = 0; r < rows; ++r) {
            if (r >= valid_rows) break;
            tw_acc_end(y + r * out + at, acc[r][b], &ends, out - at);
        }
    }
}

/* y [rows, out] = requantized panel [rows padded to 8, k] x packed weights; k a multiple of 4. */
TW_INLINE void tw_panel_s8(const uint8_t *x, int32_t rows, int32_t k, const int8_t *w, int8_t *y, int32_t out,
                           const tw_channels_s8 *channels) {
    const int32_t blocks = (out + TW_LANES - 1) / TW_LANES;
    int32_t b = 0;
    for (; b + 2 <= blocks; b += 2)
        for (int32_t r = 0; r < rows; r += TW_TILE_ROWS)
            tw_tile_s8(x + r * k, k, w + TW_LANES * b * k, y + r * out, out, TW_LANES * b, TW_TILE_ROWS, 2, rows - r,
                       channels);
    for (; b < blocks; ++b)
        for (int32_t r = 0; r < rows; r += TW_TILE_ROWS)
            tw_tile_s8(x + r * k, k, w + TW_LANES * b * k, y + r * out, out, TW_LANES * b, TW_TILE_ROWS, 1, rows - r,
                       channels);
}

/* The same for one row, where most of the work is loading weights. */
TW_INLINE void tw_row_s8(const uint8_t *x, int32_t k, const int8_t *w, int8_t *y, int32_t out,
                         const tw_channels_s8 *channels) {
    const int32_t blocks = (out + TW_LANES - 1) / TW_LANES;
    int32_t b = 0;
    for (; b + 8 <= blocks; b += 8) tw_tile_s8(x, k, w + TW_LANES * b * k, y, out, TW_LANES * b, 1, 8, 1, channels);
    for (; b + 2 <= blocks; b += 2) tw_tile_s8(x, k, w + TW_LANES * b * k, y, out, TW_LANES * b, 1, 2, 1, channels);
    for (; b < blocks; ++b) tw_tile_s8(x, k, w + TW_LANES * b * k, y, out, TW_LANES * b, 1, 1, 1, channels);
}

#endif
