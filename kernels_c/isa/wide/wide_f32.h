/* SPDX-License-Identifier: Apache-2.0 */
/* Sixteen float lanes, one output channel each: the base of the host's float convolution kernels. */
#ifndef TW_WIDE_F32_H
#define TW_WIDE_F32_H

#include "../../core/epilogue.h"
#include "wide.h"

/* Sixteen float lanes. Sums run over k in order, multiplication and addition are rounded separately: the reference's
 * bits. */
typedef float tw_f32x16 __attribute__((vector_size(64)));
typedef float tw_f32x16_any __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t tw_i32x16 __attribute__((vector_size(64)));

/* tw_clampf in every lane, by masks: compilers turn the scalar form into branches, which a ReLU's data make
 * mispredict. */
TW_INLINE void tw_clamp_f32x16(tw_f32x16 *x, float low, float high) {
    const tw_f32x16 zero = {0}, lows = zero + low, highs = zero + high;
    const tw_i32x16 below = *x < lows;
    const tw_i32x16 raised = (below & (tw_i32x16)lows) | (~below & (tw_i32x16)*x);
    const tw_i32x16 above = highs < (tw_f32x16)raised;
    *x = (tw_f32x16)((above & (tw_i32x16)highs) | (~above & raised));
}

TW_INLINE void tw_tile_f32(const float *x, int32_t k, const float *w, const float *bias, float *y, int32_t out,
                           int32_t c, int rows, int blocks, int32_t valid_rows, const tw_limits_f32 *limits) {
    tw_f32x16 acc[TW_TILE_ROWS][TW_TILE_ROWS], zero;
    memset(&zero, 0, sizeof zero);
    for (int b = 0; b < blocks; ++b)
        for (int r = 0; r < rows; ++r) acc[r][b] = zero;
    for (int32_t i = 0; i < k; ++i)
        for (int b = 0; b < blocks; ++b)
            for (int r = 0; r < rows; ++r)
                acc[r][b] += x[r * k + i] * *(const tw_f32x16_any *)(const void *)(w + TW_LANES * (b * k + i));
    for (int r = 0; r < rows; ++r) {
        if (r >= valid_rows) break;
        for (int b = 0; b < blocks; ++b) {
            const int32_t at = c + TW_LANES * b, count = out - at;
            tw_f32x16 sums = acc[r][b] + *(const tw_f32x16_any *)(const void *)(bias + at);
            tw_clamp_f32x16(&sums, limits->low, limits->high);
            if (count >= TW_LANES)
                memcpy(y + r * out + at, &sums, sizeof sums);
            else
                memcpy(y + r * out + at, &sums, (size_t)count * sizeof *y);
        }
    }
}

/* y [rows, out] = clamp(panel [rows padded to 8, k] x weights packed [out / 16][k][16] + bias). */
TW_INLINE void tw_panel_f32(const float *x, int32_t rows, int32_t k, const float *w, const float *bias, float *y,
                            int32_t out, const tw_limits_f32 *limits) {
    const int32_t blocks = (out + TW_LANES - 1) / TW_LANES;
    for (int32_t b = 0; b < blocks; ++b)
        for (int32_t r = 0; r < rows; r += TW_TILE_ROWS)
            tw_tile_f32(x + r * k, k, w + TW_LANES * b * k, bias, y + r * out, out, TW_LANES * b, TW_TILE_ROWS, 1,
                        rows - r, limits);
}

TW_INLINE void tw_row_f32(const float *x, int32_t k, const float *w, const float *bias, float *y, int32_t out,
                          const tw_limits_f32 *limits) {
    const int32_t blocks = (out + TW_LANES - 1) / TW_LANES;
    int32_t b = 0;
    for (; b + 8 <= blocks; b += 8)
        tw_tile_f32(x, k, w + TW_LANES * b * k, bias, y, out, TW_LANES * b, 1, 8, 1, limits);
    for (; b < blocks; ++b) tw_tile_f32(x, k, w + TW_LANES * b * k, bias, y, out, TW_LANES * b, 1, 1, 1, limits);
}

#endif
