/* SPDX-License-Identifier: Apache-2.0 */
/* SOFTMAX over the last dimension. */
#ifndef TW_SOFTMAX_H
#define TW_SOFTMAX_H

#include <float.h>
#include <math.h>

#include "../core/axis.h"
#include "../core/lookup.h"

/* 1 / (1 + x) with 31 fractional bits, 0 <= x < 1 with 31 fractional bits: gemmlowp's one_over_one_plus_x_for_x_in_0_1,
 * three Newton steps on numbers with 29 fractional bits. */
TW_INLINE int32_t tw_one_over_one_plus(int32_t x) {
    const int32_t half = (int32_t)(((int64_t)x + INT32_MAX + 1) >> 1);
    int32_t y = 1515870810 + tw_mul_high(half, -1010580540); /* 48/17 - 32/17 half */
    TW_ROLLED
    for (int i = 0; i < 3; ++i) {
        const int32_t rest = (1 << 29) - tw_mul_high(half, y);
        y += tw_shift_left(tw_mul_high(y, rest), 2);
    }
    return y > INT32_MAX / 2 ? INT32_MAX : y * 2;
}

/* in: x [axis] (may be planned in place), exp [last + 1] uint32: exp(-i) of a difference of i steps, 31 fractional
 * bits; the last stands for all larger ones. out: y [axis] with scale 1/256 and zero point -128. If even the largest
 * result rounds to 0, all are 0 (TFLM aborts there). */
typedef struct {
    tw_last_axis axis;
    int32_t last;
} tw_softmax_s8_params;

/* The same with results of 16 bits: y int16 with scale 1/65536 and zero point -32768; x is not in place. depth is at
 * most 511, so that sums are below 512. */
typedef tw_softmax_s8_params tw_softmax_s8_s16_params;

/* exps[most - x] / sum. sum has 19 fractional bits and is in [1, 512). wide: y is int16, not int8. */
TW_INLINE void tw_softmax_row_s8(tw_softmax_s8_params p, const int8_t *x, int8_t *y, int32_t most, const uint32_t *exps,
                                 uint32_t sum, int wide) {
    const int32_t headroom = __builtin_clz(sum), shift = (wide ? 27 : 35) - headroom;
    const int32_t scale = tw_one_over_one_plus((int32_t)((sum << headroom) & INT32_MAX));
    TW_ROLLED
    for (int32_t c = 0; c < p.axis.depth; ++c) {
        const int32_t share = tw_mul_high(scale, (int32_t)exps[tw_min(most - x[c], p.last)]);
        const int32_t q = (int32_t)(((uint32_t)share + (1U << (shift - 1))) >> shift); /* 0..256, or 0..65536 */
        if (wide)
            ((int16_t *)(void *)y)[c] = (int16_t)tw_min(q + INT16_MIN, INT16_MAX);
        else
            y[c] = (int8_t)tw_min(q + INT8_MIN, INT8_MAX);
    }
}

TW_INLINE int32_t tw_most_s8(const int8_t *x, int32_t count) {
    int8_t most = INT8_MIN;
    TW_ROLLED
    for (int32_t c = 0; c < count; ++c) most = x[c] > most ? x[c] : most;
    return most;
}

/* The sum of the exponentials of a row, with 19 fractional bits. */
TW_INLINE uint64_t tw_softmax_sum_s8(tw_softmax_s8_params p, const int8_t *x, int32_t most, const uint32_t *exps) {
    uint64_t sum = 0;
    TW_ROLLED
    for (int32_t c = 0; c < p.axis.depth; ++c) sum += (exps[tw_min(most - x[c], p.last)] + 2048) >> 12;
    return sum;
}

TW_INLINE void tw_softmax_rows_s8(const tw_softmax_s8_params *params, const void *const *in, void *const *out,
                                  int wide) {
    const tw_softmax_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    const uint32_t *TW_RESTRICT exps = (const uint32_t *)in[1];
    int8_t *y = (int8_t *)out[0];
    for (int32_t r = 0; r < p.axis.rows; ++r, x += p.axis.depth, y += (1 + wide) * p.axis.depth) {
        const int32_t most = tw_most_s8(x, p.axis.depth);
        const uint64_t sum = tw_softmax_sum_s8(p, x, most, exps);
        if (!wide && sum >> 28)
            memset(y, INT8_MIN, (size_t)p.axis.depth);
        else
            tw_softmax_row_s8(p, x, y, most, exps, (uint32_t)sum, wide);
    }
}

TW_KERNEL(tw_softmax_s8) { tw_softmax_rows_s8(params, in, out, 0); }
TW_KERNEL(tw_softmax_s8_s16) { tw_softmax_rows_s8(params, in, out, 1); }

/* int16. in: x [axis] (may be planned in place), exp int16 [513]: exp from -10 to 0, reciprocal int16 [513]: 1 / (1 +
 * x) from 0 to 1, both with 15 fractional bits. out: y [axis] with 15 fractional bits. mult and shift map a difference
 * of 10 to 65535. depth is at most 65535. */
typedef struct {
    tw_last_axis axis;
    int32_t mult, shift;
} tw_softmax_s16_params;

/* y = x / (the sum of x), for exponentials x with 15 fractional bits. */
TW_INLINE void tw_softmax_divide_s16(int16_t *y, int32_t depth, uint32_t sum, const int16_t *reciprocal) {
    const int32_t headroom = __builtin_clz(sum), right = 31 - headroom;
    const int32_t shifted = (int32_t)(((sum << (headroom - 1)) + (1U << 13)) >> 14); /* 2^16..2^17 */
    const int32_t scale = tw_lookup_s16(reciprocal, shifted - (1 << 15) - (1 << 16));
    for (int32_t c = 0; c < depth; ++c)
        y[c] = (int16_t)tw_min((int32_t)(((uint32_t)(y[c] * scale) + (1U << (right - 1))) >> right), INT16_MAX);
}

TW_KERNEL(tw_softmax_s16) {
    const tw_softmax_s16_params p = *params;
    const int16_t *x = (const int16_t *)in[0], *exps = (const int16_t *)in[1];
    int16_t *y = (int16_t *)out[0];
    for (int32_t r = 0; r < p.axis.rows; ++r, x += p.axis.depth, y += p.axis.depth) {
        int32_t most = INT16_MIN;
        uint32_t sum = 0;
        for (int32_t c = 0; c < p.axis.depth; ++c) most = tw_max(most, x[c]);
        for (int32_t c = 0; c < p.axis.depth; ++c) {
            const int32_t scaled = tw_requantize(x[c] - most, p.mult, p.shift);
            const int32_t value = tw_lookup_s16(exps, tw_add(scaled, 32767));
            y[c] = (int16_t)value;
            sum += (uint32_t)value;
        }
        tw_softmax_divide_s16(y, p.axis.depth, sum, (const int16_t *)in[2]);
    }
}

/* in: x [axis] (may be planned in place). out: y [axis]. */
typedef struct {
    tw_last_axis axis;
    float beta;
} tw_softmax_f32_params;

TW_KERNEL(tw_softmax_f32) {
    const tw_softmax_f32_params p = *params;
    const float *x = (const float *)in[0];
    float *y = (float *)out[0];
    for (int32_t r = 0; r < p.axis.rows; ++r, x += p.axis.depth, y += p.axis.depth) {
        float most = -FLT_MAX, sum = 0.0f;
        for (int32_t c = 0; c < p.axis.depth; ++c) most = most < x[c] ? x[c] : most;
        for (int32_t c = 0; c < p.axis.depth; ++c) {
            y[c] = expf((x[c] - most) * p.beta);
            sum += y[c];
        }
        for (int32_t c = 0; c < p.axis.depth; ++c) y[c] = y[c] / sum;
    }
}

#endif
