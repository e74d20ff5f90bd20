/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D of int8 on AVX-VNNI: vectors of 256 bits, for processors without AVX-512. */
#ifndef TW_CONV2D_AVX_VNNI_H
#define TW_CONV2D_AVX_VNNI_H

#include "conv2d.h"

/* Pixels of a tile: with two vectors of sums per pixel, registers are left for two vectors of weights and one of
 * pixels. */
#define TW_AVX_ROWS 6

#if defined(__AVXVNNI__) || (defined(__AVX512VNNI__) && defined(__AVX512VL__))
#include <immintrin.h>
#if defined(__AVXVNNI__)
#define TW_DPBUSD(acc, x, w) _mm256_dpbusd_avx_epi32(acc, x, w)
#else
#define TW_DPBUSD(acc, x, w) _mm256_dpbusd_epi32(acc, x, w)
#endif

/* sums[r][lane] += row r of x [TW_AVX_ROWS, k] . lane of a packed block of weights (wide.h). */
TW_INLINE void tw_avx_vnni_sums(int32_t sums[TW_AVX_ROWS][TW_LANES], const uint8_t *x, int32_t k, const int8_t *w) {
    __m256i low[TW_AVX_ROWS], high[TW_AVX_ROWS];
    for (int r = 0; r < TW_AVX_ROWS; ++r) {
        low[r] = _mm256_loadu_si256((const __m256i *)(const void *)sums[r]);
        high[r] = _mm256_loadu_si256((const __m256i *)(const void *)(sums[r] + 8));
    }
    for (int32_t i = 0; i < k; i += 4) {
        const __m256i *at = (const __m256i *)(const void *)(w + TW_LANES * i);
        const __m256i first = _mm256_loadu_si256(at), second = _mm256_loadu_si256(at + 1);
        for (int r = 0; r < TW_AVX_ROWS; ++r) {
            int32_t four;
            memcpy(&four, x + r * k + i, 4);
            const __m256i pixels = _mm256_set1_epi32(four);
            low[r] = TW_DPBUSD(low[r], pixels, first);
            high[r] = TW_DPBUSD(high[r], pixels, second);
        }
    }
    for (int r = 0; r < TW_AVX_ROWS; ++r) {
        _mm256_storeu_si256((__m256i *)(void *)sums[r], low[r]);
        _mm256_storeu_si256((__m256i *)(void *)(sums[r] + 8), high[r]);
    }
}

/* TW_AVX_ROWS x 16 outputs at channel c, as tw_tile_s8 with one block; w: the block. */
TW_INLINE void tw_avx_vnni_tile(const uint8_t *x, int32_t k, const int8_t *w, int8_t *y, int32_t out, int32_t c,
                                int32_t valid_rows, const tw_channels_s8 *channels) {
    int32_t sums[TW_AVX_ROWS][TW_LANES];
    for (int r = 0; r < TW_AVX_ROWS; ++r) memcpy(sums[r], channels->bias + c, sizeof sums[r]);
    tw_avx_vnni_sums(sums, x, k, w);
    const tw_ends ends = tw_ends_load(channels, c);
    for (int32_t r = 0; r < tw_min(valid_rows, TW_AVX_ROWS); ++r)
        tw_acc_end(y + r * out + c, tw_acc_load(sums[r]), &ends, out - c);
}
#else
TW_INLINE void tw_avx_vnni_tile(const uint8_t *x, int32_t k, const int8_t *w, int8_t *y, int32_t out, int32_t c,
                                int32_t valid_rows, const tw_channels_s8 *channels) {
    tw_tile_s8(x, k, w, y, out, c, TW_AVX_ROWS, 1, valid_rows, channels);
}
#endif

/* As tw_panel_s8, but the panel's rows are padded to 6. */
TW_INLINE void tw_avx_vnni_panel_s8(const uint8_t *x, int32_t rows, int32_t k, const int8_t *w, int8_t *y, int32_t out,
                                    const tw_channels_s8 *channels) {
    for (int32_t c = 0; c < out; c += TW_LANES)
        for (int32_t r = 0; r < rows; r += TW_AVX_ROWS)
            tw_avx_vnni_tile(x + r * k, k, w + c * k, y + r * out, out, c, rows - r, channels);
}

/* As tw_conv2d_wide_s8, but panel is a multiple of 6. */
typedef tw_conv2d_wide_s8_params tw_conv2d_avx_vnni_s8_params;

TW_KERNEL(tw_conv2d_avx_vnni_s8) { tw_conv2d_panels_s8(params, in, out, scratch, tw_avx_vnni_panel_s8); }

#endif
