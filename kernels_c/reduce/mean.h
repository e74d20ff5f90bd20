/* SPDX-License-Identifier: Apache-2.0 */
/* MEAN over any dimensions. */
#ifndef TW_MEAN_H
#define TW_MEAN_H

#include "../isa/dsp/dsp.h"
#include "reduced.h"

#define TW_MEAN_BLOCK 64

/* The count of the reduced values is at most 2^22. zero is the input's zero point times count; mult and shift include
 * 1 / count. in: x [axes]. out: y [the kept ones]. */
typedef struct {
    tw_axes axes;
    int32_t zero, mult, shift, out_zero;
} tw_mean_s8_params;
typedef tw_mean_s8_params tw_mean_s16_params; /* count at most 65535 */

/* divisor is the count. */
typedef struct {
    tw_axes axes;
    float divisor;
} tw_mean_f32_params;

/* Rounded towards zero. */
typedef struct {
    tw_axes axes;
    int32_t divisor;
} tw_mean_s32_params;
typedef tw_mean_s32_params tw_mean_s64_params; /* sums wrap */

/* A sum as an output. */
TW_INLINE int32_t tw_mean_of(const tw_mean_s8_params *p, int32_t sum) {
    return tw_add(tw_requantize(sum - p->zero, p->mult, p->shift), p->out_zero);
}

/* sums[c] += the n values of each of the rows x [count, n]. */
TW_INLINE void tw_mean_add_s8(const int8_t *x, int32_t *sums, int32_t count, int32_t n) {
    for (int32_t c = 0; c < count; ++c, x += n) {
        int32_t sum = 0, i = 0;
        for (; TW_FILLS && i + 16 <= n; i += 16) TW_VECTOR
        for (int32_t k = 0; k < 16; ++k) sum += x[i + k];
        for (; i < n; ++i) sum += x[i];
        sums[c] += sum;
    }
}

/* y [count] = the means of as many values from x on, at most TW_MEAN_BLOCK. */
TW_INLINE void tw_mean_block_s8(const tw_mean_s8_params *p, const int8_t *TW_RESTRICT x, int8_t *TW_RESTRICT y,
                                int32_t count) {
    int32_t sums[TW_MEAN_BLOCK];
    TW_VECTOR
    for (int32_t c = 0; c < count; ++c) sums[c] = 0;
    if (p->axes.last == 1) { /* a loop of its own, in which sums stay in registers */
        TW_EACH_REDUCED(p->axes) {
            const int8_t *row = x + tw_axes_row(p->axes, i, j);
            TW_VECTOR
            for (int32_t c = 0; c < count; ++c) sums[c] += row[c];
        }
    } else {
        TW_EACH_REDUCED(p->axes) { tw_mean_add_s8(x + tw_axes_row(p->axes, i, j), sums, count, p->axes.last); }
    }
    TW_ROLLED
    for (int32_t i = 0; i < count; ++i) y[i] = (int8_t)tw_clamp(tw_mean_of(p, sums[i]), INT8_MIN, INT8_MAX);
}

TW_KERNEL(tw_mean_s8) {
    const tw_mean_s8_params p = *params;
    const int32_t kept = p.axes.outer * p.axes.inner;
    int8_t *y = (int8_t *)out[0];
    for (int32_t k = 0; k < kept; ++k, y += p.axes.depth) {
        const int8_t *x = (const int8_t *)in[0] + tw_axes_offset(p.axes, k);
        TW_CHANNELS(p.axes.depth, TW_MEAN_BLOCK, tw_mean_block_s8(&p, x + c * p.axes.last, y + c, n));
    }
}

/* Over one dimension, by words of four channels. in: x [axis]. out: y [outer, inner]. axis.inner is a multiple of 4,
 * right 1..22, rounding is tw_rounding(zero point of y, right), and offset turns a sum of unsigned bytes (x + 128) into
 * one of values less their zero point. */
typedef struct {
    tw_axis axis;
    int32_t offset, mult, right, rounding;
} tw_mean_words_s8_params;

/* sums[4] = the sums of the unsigned bytes of count words, step bytes apart: in halves as long as they fit. */
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
    const tw_axis axis = p.axis;
    const int8_t *TW_RESTRICT x = (const int8_t *)in[0];
    int8_t *TW_RESTRICT y = (int8_t *)out[0];
    for (int32_t k = 0; k < axis.outer; ++k, x += axis.count * axis.inner) {
        TW_ROLLED
        for (int32_t c = 0; c < axis.inner; c += 4) {
            int32_t sums[4];
            tw_mean_sums4(x + c, axis.inner, axis.count, sums);
            for (int32_t i = 0; i < 4; ++i) {
                *y++ = (int8_t)tw_clamp8(tw_scaled(2 * (sums[i] + p.offset), p.mult, p.rounding, p.right));
            }
        }
    }
}

TW_KERNEL(tw_mean_f32) { TW_REDUCE(tw_mean_f32, float, 0.0f, n + m, y[c] / p.divisor); }
TW_KERNEL(tw_mean_s32) { TW_SUM(tw_mean_s32, int32_t, int64_t, sum / p.divisor); }
TW_KERNEL(tw_mean_s64) { TW_REDUCE(tw_mean_s64, int64_t, 0, (int64_t)((uint64_t)n + (uint64_t)m), y[c] / p.divisor); }
TW_KERNEL(tw_mean_s16) { TW_SUM(tw_mean_s16, int16_t, int32_t, tw_clamp(tw_mean_of(&p, sum), INT16_MIN, INT16_MAX)); }

#endif
