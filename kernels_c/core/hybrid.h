/* SPDX-License-Identifier: Apache-2.0 */
/* Dynamic-range ("hybrid") operators: float activations are quantised at run time, weights are int8. */
#ifndef TW_HYBRID_H
#define TW_HYBRID_H

#include <math.h>

#include "../isa/wide/wide.h"

TW_NEED(DBL_MANT_DIG == 53, TW_NEED_DOUBLE);

/* real = scale * (q - zero). */
typedef struct {
    float scale;
    int32_t zero;
} tw_hybrid_quant;

/* The largest range of float32, from min(x, 0) to max(x, 0). */
TW_INLINE void tw_hybrid_range(const float *x, int32_t count, float *low, float *high) {
    *low = 0.0F;
    *high = 0.0F;
    for (int32_t i = 0; i < count; ++i) {
        *low = x[i] < *low ? x[i] : *low;
        *high = x[i] > *high ? x[i] : *high;
    }
}

/* Scale and zero point that map [low, high] to [-128, 127]: whichever end gives the smaller error in float64 sets the
 * zero point (LiteRT's AsymmetricQuantizeFloats). */
TW_INLINE tw_hybrid_quant tw_hybrid_asymmetric(float low, float high) {
    tw_hybrid_quant q = {1.0F, 0};
    const double rmin = (double)low, rmax = (double)high;
    if (low >= high) return q;
    const double scale = (double)(high - low) / 255.0;
    const double from_min = -128.0 - rmin / scale, from_max = 127.0 - rmax / scale;
    const double min_error = 128.0 + fabs(rmin / scale), max_error = 127.0 + fabs(rmax / scale);
    const double zero = min_error < max_error ? from_min : from_max;
    q.scale = (float)scale;
    q.zero = zero >= 127.0    ? 127
             : zero <= -128.0 ? -128
             : zero == zero   ? (int32_t)round(zero)
                              : 0; /* of infinities: 0 */
    return q;
}

/* Quantises count floats to int8 with one scale, which is returned. symmetric: zero point 0, range [-127, 127]. The zero
 * point is added to what is rounded. */
TW_INLINE tw_hybrid_quant tw_hybrid_quantize(int8_t *TW_RESTRICT to, const float *TW_RESTRICT x, int32_t count,
                                             int32_t symmetric) {
    float low, high, inverse;
    tw_hybrid_range(x, count, &low, &high);
    tw_hybrid_quant q = {1.0F, 0};
    if (low >= high) {
        for (int32_t i = 0; i < count; ++i) to[i] = 0;
        return q;
    }
    if (symmetric) {
        const float range = -low > high ? -low : high;
        q.scale = range / 127.0F;
        inverse = 127.0F / range;
    } else {
        q = tw_hybrid_asymmetric(low, high);
        inverse = 1.0F / q.scale;
    }
    const float least = symmetric ? -127.0F : -128.0F;
    for (int32_t i = 0; i < count; ++i) {
        const float rounded = roundf(x[i] * inverse) + (float)q.zero;
        to[i] = (int8_t)(rounded > least ? (rounded < 127.0F ? rounded : 127.0F) : least); /* NaN: least */
    }
    return q;
}

/* sums int32 [rows, out padded to 16] = panel uint8 [rows, k] x weights packed as in wide.h; rows is 1 or TW_TILE_ROWS. */
TW_INLINE void tw_hybrid_sums(const uint8_t *x, int rows, int32_t k, const int8_t *w, int32_t *sums, int32_t out) {
    const int32_t blocks = (out + TW_LANES - 1) / TW_LANES;
    if (rows == 1) {
        tw_row_sums(x, k, w, sums, blocks);
        return;
    }
    for (int32_t b = 0; b < blocks; ++b) {
        tw_tile_acc acc;
        const tw_acc start = tw_acc_start(tw_acc_zero(), w + TW_LANES * b * k, k);
        for (int r = 0; r < rows; ++r) acc[r][0] = start;
        tw_tile_sums(acc, x, k, w + TW_LANES * b * k, rows, 1);
        for (int r = 0; r < rows; ++r) memcpy(sums + (r * blocks + b) * TW_LANES, &acc[r][0], sizeof acc[r][0]);
    }
}

#endif
