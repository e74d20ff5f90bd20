/* SPDX-License-Identifier: Apache-2.0 */
/* FULLY_CONNECTED of what was uint8: LiteRT scales its sums in float64. Almost always integers give the same outputs. */
#ifndef TW_FULLY_CONNECTED_UNSIGNED_H
#define TW_FULLY_CONNECTED_UNSIGNED_H

#include "../core/hybrid.h"
#include "../core/sums.h"

/* In float64. in: x [batches, depth], w packed (wide.h), bias int32 [out] with x's zero point and the +128 of its panel
 * folded in, scale float64 [1]. depth4: depth rounded up to 4. out: y [batches, out]. scratch: uint8 [depth4] rounded up
 * to 16, int32 [out padded to 16]. */
typedef struct {
    tw_epilogue_s8 end;
    int32_t batches, depth, depth4, out, w_zero;
} tw_fully_connected_unsigned_f64_s8_params;

/* sum * scale rounded half away from zero, the zero point added, clamped. */
TW_INLINE int8_t tw_end_unsigned(int32_t sum, double scale, const tw_epilogue_s8 *end) {
    const double real = (double)sum * scale;
    const double bounded = real > -1024.0 ? (real < 1024.0 ? real : 1024.0) : -1024.0;
    const int32_t twice = (int32_t)(bounded * 2.0); /* truncated towards zero: keeps the half, drops the rest */
    return (int8_t)tw_clamp(((twice + 1 + (twice >> 31)) >> 1) + end->zero, end->low, end->high);
}

TW_KERNEL(tw_fully_connected_unsigned_f64_s8) {
    const tw_fully_connected_unsigned_f64_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    const int32_t *TW_RESTRICT bias = (const int32_t *)in[2];
    const double scale = *(const double *)in[3];
    int8_t *TW_RESTRICT y = (int8_t *)out[0];
    uint8_t *panel = (uint8_t *)scratch;
    int32_t *sums = (int32_t *)(void *)(panel + (p.depth4 + 15) / 16 * 16);
    for (int32_t b = 0; b < p.batches; ++b, x += p.depth, y += p.out) {
        int32_t less = 0;
        tw_bias128(panel, x, p.depth);
        tw_hybrid_sums(panel, 1, p.depth4, (const int8_t *)in[1], sums, p.out);
        for (int32_t i = 0; i < p.depth; ++i) less += panel[i];
        less *= -p.w_zero;
        for (int32_t c = 0; c < p.out; ++c)
            y[c] = tw_end_unsigned(tw_add(tw_add(sums[c], bias[c]), less), scale, &p.end);
    }
}

/* In integers. in: x [batches, depth], w [out, depth] without a zero point, bias int32 [out] with x's zero point folded
 * in. out: y [batches, out]. */
typedef struct {
    tw_unsigned_end end;
    int32_t batches, depth, out;
} tw_fully_connected_unsigned_s8_params;

TW_KERNEL(tw_fully_connected_unsigned_s8) {
    const tw_fully_connected_unsigned_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    const int32_t *bias = (const int32_t *)in[2];
    int8_t *y = (int8_t *)out[0];
    const tw_rows rows = tw_rows_of(p.out, TW_TILE);
    for (int32_t b = 0; b < p.batches; ++b, x += p.depth, y += p.out)
        for (int32_t next = 0; next < p.out; next += rows.step) {
            const int32_t first = tw_min(next, p.out - rows.step);
            int32_t acc[TW_TILE];
            for (int j = 0; j < TW_TILE; ++j) acc[j] = bias[first + j * rows.apart];
            tw_rows_s8(acc, x, (const int8_t *)in[1] + first * p.depth, p.depth, rows.apart * p.depth);
            for (int j = 0; j < TW_TILE; ++j) y[first + j * rows.apart] = tw_output_unsigned(acc[j], &p.end);
        }
}

#endif
