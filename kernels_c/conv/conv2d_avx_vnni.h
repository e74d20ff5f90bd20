/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D of int8 on AVX-VNNI: vectors of 256 bits, for processors without AVX-512. */
#ifndef TW_CONV2D_AVX_VNNI_H
#define TW_CONV2D_AVX_VNNI_H

#include "conv2d.h"

#if defined(__AVXVNNI__) || (defined(__AVX512VNNI__) && defined(__AVX512VL__))
#define TW_AVX_VNNI 1
#include <immintrin.h>
#if defined(__AVXVNNI__)
#define TW_DPBUSD(acc, x, w) _mm256_dpbusd_avx_epi32(acc, x, w)
#else
#define TW_DPBUSD(acc, x, w) _mm256_dpbusd_epi32(acc, x, w)
#endif
#endif

/* Pixels of a tile: with two vectors of sums per pixel, registers are left for two vectors of weights and one of
 * pixels. */
#define TW_AVX_ROWS 6

/* sums[r][lane] += row r of x [TW_AVX_ROWS, k] . lane of a packed block of weights (wide.h). */
TW_INLINE void tw_avx_vnni_sums(int32_t sums[TW_AVX_ROWS][TW_LANES], const uint8_t *x, int32_t k, const int8_t *w) {
#if defined(TW_AVX_VNNI)
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
#else
    for (int r = 0; r < TW_AVX_ROWS; ++r)
        for (int32_t i = 0; i < k; i += 4)
            for (int lane = 0; lane < TW_LANES; ++lane) {
                const uint8_t *p = x + r * k + i;
                const int8_t *q = w + TW_LANES * i + 4 * lane;
                sums[r][lane] = tw_add(sums[r][lane], p[0] * q[0] + p[1] * q[1] + p[2] * q[2] + p[3] * q[3]);
            }
#endif
}

/* Outputs of the first rows of a tile at channel c. */
TW_INLINE void tw_avx_vnni_tile(const uint8_t *x, int32_t k, const int8_t *w, int8_t *y, int32_t out, int32_t c,
                                int32_t rows, const tw_channels_s8 *channels) {
    int32_t sums[TW_AVX_ROWS][TW_LANES];
    for (int r = 0; r < TW_AVX_ROWS; ++r) memcpy(sums[r], channels->bias + c, sizeof sums[r]);
    tw_avx_vnni_sums(sums, x, k, w + c * k);
    const tw_scale scale = tw_scale_load(channels->mult + c, channels->shift + c);
    for (int32_t r = 0; r < tw_min(rows, TW_AVX_ROWS); ++r)
        tw_acc_store(y + r * out + c, tw_acc_requantize(tw_acc_load(sums[r]), &scale), &channels->end, out - c);
}

/* As tw_conv2d_wide_s8, but panel is a multiple of 6. */
typedef tw_conv2d_wide_s8_params tw_conv2d_avx_vnni_s8_params;

TW_KERNEL(tw_conv2d_avx_vnni_s8) {
    const tw_conv2d_wide_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0], *w = (const int8_t *)in[1];
    const uint8_t *panel = (const uint8_t *)scratch;
    int8_t *y = (int8_t *)out[0];
    const tw_channels_s8 channels = tw_channels_s8_of(in, 0, 0, &p.end);
    const int32_t pixels = tw_window_count(&p.window), out_c = p.window.out_c;
    tw_pixel at = tw_pixel_first(x, 1, &p.window);
    for (int32_t first = 0; first < pixels; first += p.panel) {
        const int32_t rows = tw_min(pixels - first, p.panel);
        tw_conv2d_gather_panel((int8_t *)scratch, x, first, rows, &at, &p);
        for (int32_t c = 0; c < out_c; c += TW_LANES)
            for (int32_t r = 0; r < rows; r += TW_AVX_ROWS)
                tw_avx_vnni_tile(panel + r * p.k4, p.k4, w, y + (first + r) * out_c, out_c, c, rows - r, &channels);
    }
}

#endif
