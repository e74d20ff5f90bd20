/* SPDX-License-Identifier: Apache-2.0 */
/* AVERAGE_POOL_2D and MAX_POOL_2D. Windows are cut to the input first, so padding costs nothing and is never counted;
 * the inner loops run over channels. */
#ifndef TW_POOL_2D_H
#define TW_POOL_2D_H

#include <float.h>

#include "../core/tw.h"

#define TW_POOL_BLOCK 64

/* in: x [batches, in_h, in_w, channels]. out: y [batches, out_h, out_w, channels]. Every window meets the input.
 * Results are clamped to act_min .. act_max (integers) or low .. high (float). */
typedef struct {
    int32_t batches, in_h, in_w, channels, out_h, out_w;
    int32_t filter_h, filter_w, stride_h, stride_w, pad_h, pad_w;
    int32_t act_min, act_max;
    float low, high;
} tw_pool_2d_params;

typedef tw_pool_2d_params tw_average_pool_2d_s8_params;
typedef tw_pool_2d_params tw_average_pool_2d_s16_params;
typedef tw_pool_2d_params tw_average_pool_2d_f32_params;
typedef tw_pool_2d_params tw_max_pool_2d_s8_params;
typedef tw_pool_2d_params tw_max_pool_2d_s16_params;
typedef tw_pool_2d_params tw_max_pool_2d_f32_params;

/* The part of a window that lies in the input: index of its first element, rows and columns. */
typedef struct {
    ptrdiff_t at;
    int32_t rows, cols;
} tw_pool_window;

/* The window of output column j in output row i, which counts over batches. */
TW_INLINE tw_pool_window tw_pool_cut(const tw_pool_2d_params *p, int32_t i, int32_t j) {
    const int32_t y = i % p->out_h * p->stride_h - p->pad_h, x = j * p->stride_w - p->pad_w;
    const int32_t top = tw_max(y, 0), left = tw_max(x, 0);
    tw_pool_window window;
    window.at = ((ptrdiff_t)(i / p->out_h * p->in_h + top) * p->in_w + left) * p->channels;
    window.rows = tw_min(y + p->filter_h, p->in_h) - top;
    window.cols = tw_min(x + p->filter_w, p->in_w) - left;
    return window;
}

/* sum / count rounded half away from zero, for the sum of count int8 values. reciprocal is 2^31 / count + 1, with which
 * the product is exact up to 4087 values (128.5 count^2 < 2^31). */
TW_INLINE int32_t tw_pool_average(int32_t sum, int32_t count, uint32_t reciprocal) {
    const uint32_t n = (uint32_t)(sum < 0 ? -sum : sum) + (uint32_t)count / 2;
    const uint32_t q = count <= 4087 ? (uint32_t)(((uint64_t)n * reciprocal) >> 31) : n / (uint32_t)count;
    return sum < 0 ? -(int32_t)q : (int32_t)q;
}

/* y [n] = the average of the window at x, n at most TW_POOL_BLOCK. */
TW_INLINE void tw_average_block_s8(const tw_pool_2d_params *p, tw_pool_window w, const int8_t *TW_RESTRICT x,
                                   int8_t *TW_RESTRICT y, int32_t n) {
    const int32_t count = w.rows * w.cols;
    const uint32_t reciprocal = (1U << 31) / (uint32_t)count + 1;
    int32_t sums[TW_POOL_BLOCK];
    for (int32_t c = 0; c < n; ++c) sums[c] = 0;
    for (int32_t r = 0; r < w.rows; ++r) {
        for (int32_t k = 0; k < w.cols; ++k) {
            const int8_t *tap = x + ((ptrdiff_t)r * p->in_w + k) * p->channels;
            for (int32_t c = 0; c < n; ++c) sums[c] += tap[c];
        }
    }
    for (int32_t c = 0; c < n; ++c) {
        y[c] = (int8_t)tw_clamp(tw_pool_average(sums[c], count, reciprocal), p->act_min, p->act_max);
    }
}

/* y [n] = the largest of the window at x, n at most TW_POOL_BLOCK. */
TW_INLINE void tw_max_block_s8(const tw_pool_2d_params *p, tw_pool_window w, const int8_t *TW_RESTRICT x,
                               int8_t *TW_RESTRICT y, int32_t n) {
    const int8_t least = (int8_t)p->act_min, limit = (int8_t)p->act_max;
    int8_t most[TW_POOL_BLOCK];
    for (int32_t c = 0; c < n; ++c) most[c] = least;
    for (int32_t r = 0; r < w.rows; ++r) {
        for (int32_t k = 0; k < w.cols; ++k) {
            const int8_t *tap = x + ((ptrdiff_t)r * p->in_w + k) * p->channels;
            for (int32_t c = 0; c < n; ++c) most[c] = most[c] < tap[c] ? tap[c] : most[c];
        }
    }
    for (int32_t c = 0; c < n; ++c) y[c] = most[c] < limit ? most[c] : limit;
}

TW_KERNEL(tw_average_pool_2d_s8) {
    const tw_pool_2d_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    (void)scratch;
    for (int32_t i = 0; i < p.batches * p.out_h; ++i) {
        for (int32_t j = 0; j < p.out_w; ++j, y += p.channels) {
            const tw_pool_window w = tw_pool_cut(&p, i, j);
            int32_t c = 0;
            for (; c + TW_POOL_BLOCK <= p.channels; c += TW_POOL_BLOCK) {
                tw_average_block_s8(&p, w, x + w.at + c, y + c, TW_POOL_BLOCK);
            }
            if (c < p.channels) tw_average_block_s8(&p, w, x + w.at + c, y + c, p.channels - c);
        }
    }
}

TW_KERNEL(tw_max_pool_2d_s8) {
    const tw_pool_2d_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    (void)scratch;
    for (int32_t i = 0; i < p.batches * p.out_h; ++i) {
        for (int32_t j = 0; j < p.out_w; ++j, y += p.channels) {
            const tw_pool_window w = tw_pool_cut(&p, i, j);
            int32_t c = 0;
            for (; c + TW_POOL_BLOCK <= p.channels; c += TW_POOL_BLOCK) {
                tw_max_block_s8(&p, w, x + w.at + c, y + c, TW_POOL_BLOCK);
            }
            if (c < p.channels) tw_max_block_s8(&p, w, x + w.at + c, y + c, p.channels - c);
        }
    }
}

/* Average of one channel of the window at x, rounded half away from zero; at most 65535 values. */
TW_INLINE int32_t tw_pool_average_s16(const tw_pool_2d_params *p, tw_pool_window w, const int16_t *x) {
    const int32_t count = w.rows * w.cols;
    int32_t sum = 0;
    for (int32_t r = 0; r < w.rows; ++r)
        for (int32_t k = 0; k < w.cols; ++k) sum += x[((ptrdiff_t)r * p->in_w + k) * p->channels];
    return (int32_t)(((int64_t)sum + (sum > 0 ? count / 2 : -(count / 2))) / count);
}

/* Largest of one channel of the window at x. */
TW_INLINE int32_t tw_pool_most_s16(const tw_pool_2d_params *p, tw_pool_window w, const int16_t *x) {
    int32_t most = INT16_MIN;
    for (int32_t r = 0; r < w.rows; ++r)
        for (int32_t k = 0; k < w.cols; ++k) most = tw_max(most, x[((ptrdiff_t)r * p->in_w + k) * p->channels]);
    return most;
}

/* All windows: their averages, or their largest values. */
TW_INLINE void tw_pool_2d_s16(const tw_pool_2d_params *p, const int16_t *x, int16_t *y, int32_t average) {
    for (int32_t i = 0; i < p->batches * p->out_h; ++i)
        for (int32_t j = 0; j < p->out_w; ++j) {
            const tw_pool_window w = tw_pool_cut(p, i, j);
            for (int32_t c = 0; c < p->channels; ++c) {
                const int16_t *first = x + w.at + c;
                const int32_t value = average ? tw_pool_average_s16(p, w, first) : tw_pool_most_s16(p, w, first);
                *y++ = (int16_t)tw_clamp(value, p->act_min, p->act_max);
            }
        }
}

TW_KERNEL(tw_average_pool_2d_s16) {
    const tw_pool_2d_params p = *params;
    (void)scratch;
    tw_pool_2d_s16(&p, (const int16_t *)in[0], (int16_t *)out[0], 1);
}

TW_KERNEL(tw_max_pool_2d_s16) {
    const tw_pool_2d_params p = *params;
    (void)scratch;
    tw_pool_2d_s16(&p, (const int16_t *)in[0], (int16_t *)out[0], 0);
}

/* y [channels] = the sum of the window at x, in the order of its elements. */
TW_INLINE void tw_pool_sum_f32(const tw_pool_2d_params *p, tw_pool_window w, const float *TW_RESTRICT x,
                               float *TW_RESTRICT y) {
    for (int32_t c = 0; c < p->channels; ++c) y[c] = 0.0f;
    for (int32_t r = 0; r < w.rows; ++r) {
        for (int32_t k = 0; k < w.cols; ++k) {
            const float *tap = x + ((ptrdiff_t)r * p->in_w + k) * p->channels;
            for (int32_t c = 0; c < p->channels; ++c) y[c] += tap[c];
        }
    }
}

/* y [channels] = the largest of the window at x, never a NaN and at least -FLT_MAX. */
TW_INLINE void tw_pool_most_f32(const tw_pool_2d_params *p, tw_pool_window w, const float *TW_RESTRICT x,
                                float *TW_RESTRICT y) {
    for (int32_t c = 0; c < p->channels; ++c) y[c] = -FLT_MAX;
    for (int32_t r = 0; r < w.rows; ++r) {
        for (int32_t k = 0; k < w.cols; ++k) {
            const float *tap = x + ((ptrdiff_t)r * p->in_w + k) * p->channels;
            for (int32_t c = 0; c < p->channels; ++c) y[c] = y[c] < tap[c] ? tap[c] : y[c];
        }
    }
}

TW_KERNEL(tw_average_pool_2d_f32) {
    const tw_pool_2d_params p = *params;
    const float *x = (const float *)in[0];
    float *y = (float *)out[0];
    (void)scratch;
    for (int32_t i = 0; i < p.batches * p.out_h; ++i) {
        for (int32_t j = 0; j < p.out_w; ++j, y += p.channels) {
            const tw_pool_window w = tw_pool_cut(&p, i, j);
            const float count = (float)(w.rows * w.cols);
            tw_pool_sum_f32(&p, w, x + w.at, y);
            for (int32_t c = 0; c < p.channels; ++c) y[c] = tw_clampf(y[c] / count, p.low, p.high);
        }
    }
}

TW_KERNEL(tw_max_pool_2d_f32) {
    const tw_pool_2d_params p = *params;
    const float *x = (const float *)in[0];
    float *y = (float *)out[0];
    (void)scratch;
    for (int32_t i = 0; i < p.batches * p.out_h; ++i) {
        for (int32_t j = 0; j < p.out_w; ++j, y += p.channels) {
            const tw_pool_window w = tw_pool_cut(&p, i, j);
            tw_pool_most_f32(&p, w, x + w.at, y);
            for (int32_t c = 0; c < p.channels; ++c) y[c] = tw_clampf(y[c], p.low, p.high);
        }
    }
}

#endif
