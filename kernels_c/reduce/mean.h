/* SPDX-License-Identifier: Apache-2.0 */
/* MEAN over any dimensions. lower has merged neighbours, so that kept and reduced dimensions alternate. */
#ifndef TW_MEAN_H
#define TW_MEAN_H

#include "../isa/dsp/dsp.h"

#define TW_MEAN_BLOCK 64

/* shape: kept, reduced, kept, reduced, kept, reduced; count is the product of the reduced ones, at most 2^22. zero is
 * the input's zero point times count; mult and shift include 1 / count. in: x [shape]. out: y [kept]. */
typedef struct {
    int32_t shape[6], zero, mult, shift, out_zero;
} tw_mean_s8_params;
typedef tw_mean_s8_params tw_mean_s16_params; /* count at most 65535 */

/* in: x [shape]. out: y [kept]; divisor is the count. */
typedef struct {
    int32_t shape[6];
    float divisor;
} tw_mean_f32_params;

/* in: x [shape]. out: y [kept], rounded towards zero; divisor is the count. */
typedef struct {
    int32_t shape[6], divisor;
} tw_mean_s32_params;

/* Offset of row r (of all shape[1] * shape[3] reduced ones) of kept row k (of shape[0] * shape[2]). */
TW_INLINE ptrdiff_t tw_mean_offset(const int32_t *shape, int32_t k, int32_t r) {
    const int32_t outer = k / shape[2] * shape[1] + r / shape[3];
    const int32_t inner = k % shape[2] * shape[3] + r % shape[3];
    return ((ptrdiff_t)outer * shape[2] * shape[3] + inner) * shape[4] * shape[5];
}

/* sums[c] += the n values of each of the rows x [count, n]. */
TW_INLINE void tw_mean_add_s8(const int8_t *x, int32_t *sums, int32_t count, int32_t n) {
    if (n == 1) {
        for (int32_t c = 0; c < count; ++c) sums[c] += x[c];
        return;
    }
    for (int32_t c = 0; c < count; ++c, x += n) {
        int32_t sum = 0;
        for (int32_t i = 0; i < n; ++i) sum += x[i];
        sums[c] += sum;
    }
}

TW_INLINE void tw_mean_add_f32(const float *x, float *sums, int32_t count, int32_t n) {
    if (n == 1) {
        for (int32_t c = 0; c < count; ++c) sums[c] += x[c];
        return;
    }
    for (int32_t c = 0; c < count; ++c, x += n) {
        for (int32_t i = 0; i < n; ++i) sums[c] += x[i];
    }
}

TW_KERNEL(tw_mean_s8) {
    const tw_mean_s8_params p = *params;
    const int8_t *TW_RESTRICT x = (const int8_t *)in[0];
    int8_t *TW_RESTRICT y = (int8_t *)out[0];
    const int32_t kept = p.shape[0] * p.shape[2], reduced = p.shape[1] * p.shape[3], depth = p.shape[4];
    int32_t sums[TW_MEAN_BLOCK];
    (void)scratch;
    for (int32_t k = 0; k < kept; ++k) {
        for (int32_t c = 0; c < depth; c += TW_MEAN_BLOCK) {
            const int32_t count = tw_min(depth - c, TW_MEAN_BLOCK);
            memset(sums, 0, sizeof sums);
            for (int32_t r = 0; r < reduced; ++r) {
                tw_mean_add_s8(x + tw_mean_offset(p.shape, k, r) + c * p.shape[5], sums, count, p.shape[5]);
            }
            TW_ROLLED
            for (int32_t i = 0; i < count; ++i) {
                const int32_t q = tw_add(tw_requantize(sums[i] - p.zero, p.mult, p.shift), p.out_zero);
                *y++ = (int8_t)tw_clamp(q, INT8_MIN, INT8_MAX);
            }
        }
    }
}

/* Over one dimension, by words of four channels: in: x [kept, reduced, depth]. out: y [kept, depth]. depth is a multiple
 * of 4, right 1..22, rounding is tw_rounding(zero point of y, right), and offset brings a sum of unsigned bytes (x + 128)
 * to one of values less their zero point. */
typedef struct {
    int32_t kept, reduced, depth, offset, mult, right, rounding;
} tw_mean_words_s8_params;

/* sums[4] = the sums of count words, step bytes apart, as unsigned bytes: in halves as long as they fit. */
TW_INLINE void tw_mean_sums4(const int8_t *x, int32_t step, int32_t count, int32_t *sums) {
    for (int32_t i = 0; i < 4; ++i) sums[i] = 0;
    while (count > 0) {
        const int8_t *end = x + tw_min(count, 256) * step;
        uint32_t even = 0, odd = 0;
        for (; x != end; x += step) {
            const uint32_t word = tw_unsigned4(x);
            even = tw_add_even(even, word);
            odd = tw_add_odd(odd, word);
        }
        sums[0] += (int32_t)(even & 0xFFFFU);
        sums[1] += (int32_t)(odd & 0xFFFFU);
        sums[2] += (int32_t)(even >> 16);
        sums[3] += (int32_t)(odd >> 16);
        count -= 256;
    }
}

TW_KERNEL(tw_mean_words_s8) {
    const tw_mean_words_s8_params p = *params;
    const int8_t *TW_RESTRICT x = (const int8_t *)in[0];
    int8_t *TW_RESTRICT y = (int8_t *)out[0];
    (void)scratch;
    for (int32_t k = 0; k < p.kept; ++k, x += p.reduced * p.depth) {
        TW_ROLLED
        for (int32_t c = 0; c < p.depth; c += 4) {
            int32_t sums[4];
            tw_mean_sums4(x + c, p.depth, p.reduced, sums);
            for (int32_t i = 0; i < 4; ++i) {
                *y++ = (int8_t)tw_clamp8(tw_scaled(2 * (sums[i] + p.offset), p.mult, p.rounding, p.right));
            }
        }
    }
}

TW_KERNEL(tw_mean_f32) {
    const tw_mean_f32_params p = *params;
    const float *TW_RESTRICT x = (const float *)in[0];
    float *TW_RESTRICT y = (float *)out[0];
    const int32_t kept = p.shape[0] * p.shape[2], reduced = p.shape[1] * p.shape[3], depth = p.shape[4];
    (void)scratch;
    for (int32_t k = 0; k < kept; ++k, y += depth) {
        memset(y, 0, (size_t)depth * sizeof *y);
        for (int32_t r = 0; r < reduced; ++r) {
            tw_mean_add_f32(x + tw_mean_offset(p.shape, k, r), y, depth, p.shape[5]);
        }
        for (int32_t c = 0; c < depth; ++c) y[c] /= p.divisor;
    }
}

TW_KERNEL(tw_mean_s32) {
    const tw_mean_s32_params p = *params;
    const int32_t *TW_RESTRICT x = (const int32_t *)in[0];
    int32_t *TW_RESTRICT y = (int32_t *)out[0];
    const int32_t kept = p.shape[0] * p.shape[2], reduced = p.shape[1] * p.shape[3], depth = p.shape[4];
    (void)scratch;
    for (int32_t k = 0; k < kept; ++k) {
        for (int32_t c = 0; c < depth; ++c) {
            int64_t sum = 0;
            for (int32_t r = 0; r < reduced; ++r) {
                const int32_t *row = x + tw_mean_offset(p.shape, k, r) + c * p.shape[5];
                for (int32_t i = 0; i < p.shape[5]; ++i) sum += row[i];
            }
            *y++ = (int32_t)(sum / p.divisor);
        }
    }
}

TW_KERNEL(tw_mean_s16) {
    const tw_mean_s16_params p = *params;
    const int16_t *TW_RESTRICT x = (const int16_t *)in[0];
    int16_t *TW_RESTRICT y = (int16_t *)out[0];
    const int32_t kept = p.shape[0] * p.shape[2], reduced = p.shape[1] * p.shape[3], depth = p.shape[4];
    (void)scratch;
    for (int32_t k = 0; k < kept; ++k) {
        for (int32_t c = 0; c < depth; ++c) {
            int32_t sum = 0;
            for (int32_t r = 0; r < reduced; ++r) {
                const int16_t *row = x + tw_mean_offset(p.shape, k, r) + c * p.shape[5];
                for (int32_t i = 0; i < p.shape[5]; ++i) sum += row[i];
            }
            const int32_t q = tw_add(tw_requantize(sum - p.zero, p.mult, p.shift), p.out_zero);
            *y++ = (int16_t)tw_clamp(q, INT16_MIN, INT16_MAX);
        }
    }
}

#endif
