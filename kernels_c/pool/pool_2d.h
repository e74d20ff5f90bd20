/* SPDX-License-Identifier: Apache-2.0 */
/* AVERAGE_POOL_2D and MAX_POOL_2D. Windows are first cut to the input, so padding is never read or counted; the inner
 * loops run over channels. */
#ifndef TW_POOL_2D_H
#define TW_POOL_2D_H

#include <float.h>

#include "../core/epilogue.h"
#include "../core/window.h"

#define TW_POOL_BLOCK 64

/* in: x. out: y. in_c and out_c are the same, there is no dilation, and every window meets the input. */
typedef struct {
    tw_window window;
    tw_limits limits;
} tw_pool_2d_params;

typedef struct {
    tw_window window;
    tw_limits_f32 limits;
} tw_pool_2d_f32_params;

typedef tw_pool_2d_params tw_average_pool_2d_s8_params;
typedef tw_pool_2d_params tw_average_pool_2d_up_s8_params; /* of what was uint8: rounded half up */
typedef tw_pool_2d_params tw_average_pool_2d_s16_params;
typedef tw_pool_2d_f32_params tw_average_pool_2d_f32_params;
typedef tw_pool_2d_params tw_max_pool_2d_s8_params;
typedef tw_pool_2d_params tw_max_pool_2d_s16_params;
typedef tw_pool_2d_f32_params tw_max_pool_2d_f32_params;

/* The part of a window that lies in the input: its first element, rows and columns, and elements from one row,
 * or one column, to the next. */
typedef struct {
    const void *x;
    int32_t rows, cols, row, col;
} tw_pool_window;

/* The window at a pixel. */
TW_INLINE tw_pool_window tw_pool_cut(const tw_pixel *at, const tw_window *w) {
    if (w->dilation_h != 1 || w->dilation_w != 1) __builtin_unreachable();
    const tw_inside inside = tw_inside_of(at, w);
    const int32_t row = w->in_w * w->in_c;
    const int32_t top = tw_max(at->y, 0), left = tw_max(at->x, 0);
    const tw_pool_window window = {at->image + top * row * at->size + left * w->in_c * at->size,
                                   inside.bottom - inside.top, inside.end - inside.first, row, w->in_c};
    return window;
}

/* sum / count rounded half away from zero, for the sum of count int8 values. reciprocal is 2^31 / count + 1, with which
 * multiplication is exact up to 4087 values (128.5 count^2 < 2^31). */
TW_INLINE int32_t tw_pool_average(int32_t sum, int32_t count, uint32_t reciprocal) {
    const uint32_t n = (uint32_t)(sum < 0 ? -sum : sum) + (uint32_t)count / 2;
    const uint32_t q = count <= 4087 ? (uint32_t)(((uint64_t)n * reciprocal) >> 31) : n / (uint32_t)count;
    return sum < 0 ? -(int32_t)q : (int32_t)q;
}

/* sum / count rounded half up; the sum of x + 128 is positive, and multiplication exact up to 2898 values (255.5
 * count^2 < 2^31). */
TW_INLINE int32_t tw_pool_average_up(int32_t sum, int32_t count, uint32_t reciprocal) {
    const uint32_t n = (uint32_t)(sum + 128 * count) + (uint32_t)count / 2;
    return (int32_t)(count <= 2898 ? (uint32_t)(((uint64_t)n * reciprocal) >> 31) : n / (uint32_t)count) - 128;
}

/* What becomes of a window. A constant at every call. */
typedef enum { TW_POOL_MAX, TW_POOL_AVERAGE, TW_POOL_AVERAGE_UP } tw_pool_kind;

/* y [n] = the average of the window at x, n at most TW_POOL_BLOCK. */
TW_INLINE void tw_average_block_s8(const tw_pool_window *w, const int8_t *TW_RESTRICT x, int8_t *TW_RESTRICT y,
                                   int32_t n, const tw_limits *limits, tw_pool_kind kind) {
    const int32_t count = w->rows * w->cols;
    const uint32_t reciprocal = (1U << 31) / (uint32_t)count + 1;
    int32_t sums[TW_POOL_BLOCK];
    TW_VECTOR
    for (int32_t c = 0; c < n; ++c) sums[c] = 0;
    for (int32_t r = 0; r < w->rows; ++r)
        for (int32_t k = 0; k < w->cols; ++k) {
            const int8_t *tap = x + (r * w->row + k * w->col);
            TW_VECTOR
            for (int32_t c = 0; c < n; ++c) sums[c] += tap[c];
        }
    TW_VECTOR
    for (int32_t c = 0; c < n; ++c) {
        const int32_t average = kind == TW_POOL_AVERAGE_UP ? tw_pool_average_up(sums[c], count, reciprocal)
                                                           : tw_pool_average(sums[c], count, reciprocal);
        y[c] = (int8_t)tw_clamp(average, limits->low, limits->high);
    }
}

/* y [n] = the largest of the window at x, n at most TW_POOL_BLOCK. */
TW_INLINE void tw_max_block_s8(const tw_pool_window *w, const int8_t *TW_RESTRICT x, int8_t *TW_RESTRICT y, int32_t n,
                               const tw_limits *limits) {
    const int8_t least = (int8_t)limits->low, limit = (int8_t)limits->high;
    int8_t most[TW_POOL_BLOCK];
    TW_VECTOR
    for (int32_t c = 0; c < n; ++c) most[c] = least;
    for (int32_t r = 0; r < w->rows; ++r)
        for (int32_t k = 0; k < w->cols; ++k) {
            const int8_t *tap = x + (r * w->row + k * w->col);
            TW_VECTOR
            for (int32_t c = 0; c < n; ++c) most[c] = most[c] < tap[c] ? tap[c] : most[c];
        }
    TW_VECTOR
    for (int32_t c = 0; c < n; ++c) y[c] = most[c] < limit ? most[c] : limit;
}

TW_INLINE void tw_pool_block_s8(const tw_pool_window *w, const int8_t *x, int8_t *y, int32_t n, const tw_limits *limits,
                                tw_pool_kind kind) {
    if (kind != TW_POOL_MAX)
        tw_average_block_s8(w, x, y, n, limits, kind);
    else
        tw_max_block_s8(w, x, y, n, limits);
}

/* All windows: their averages, or their largest values. */
TW_INLINE void tw_pool_2d_s8(const tw_pool_2d_params *params, const void *const *in, void *const *out,
                             tw_pool_kind kind) {
    const tw_pool_2d_params p = *params;
    const int32_t channels = p.window.in_c;
    int8_t *y = (int8_t *)out[0];
    tw_pixel at = tw_pixel_first(in[0], sizeof *y, &p.window);
    TW_EACH_PIXEL(at, &p.window) {
        const tw_pool_window w = tw_pool_cut(&at, &p.window);
        int32_t c = 0;
        for (; c + TW_POOL_BLOCK <= channels; c += TW_POOL_BLOCK)
            tw_pool_block_s8(&w, (const int8_t *)w.x + c, y + c, TW_POOL_BLOCK, &p.limits, kind);
        for (; TW_FILLS && c + 16 <= channels; c += 16)
            tw_pool_block_s8(&w, (const int8_t *)w.x + c, y + c, 16, &p.limits, kind);
        for (; TW_FILLS && c + 8 <= channels; c += 8)
            tw_pool_block_s8(&w, (const int8_t *)w.x + c, y + c, 8, &p.limits, kind);
        if (c < channels) tw_pool_block_s8(&w, (const int8_t *)w.x + c, y + c, channels - c, &p.limits, kind);
        y += channels;
    }
}

TW_KERNEL(tw_average_pool_2d_s8) { tw_pool_2d_s8(params, in, out, TW_POOL_AVERAGE); }
TW_KERNEL(tw_average_pool_2d_up_s8) { tw_pool_2d_s8(params, in, out, TW_POOL_AVERAGE_UP); }
TW_KERNEL(tw_max_pool_2d_s8) { tw_pool_2d_s8(params, in, out, TW_POOL_MAX); }

/* Average of one channel of the window at x, rounded half away from zero; at most 65535 values. */
TW_INLINE int32_t tw_pool_average_s16(const tw_pool_window *w, const int16_t *x) {
    const int32_t count = w->rows * w->cols;
    int32_t sum = 0;
    for (int32_t r = 0; r < w->rows; ++r, x += w->row)
        for (int32_t k = 0; k < w->cols; ++k) sum += x[k * w->col];
    return (int32_t)(((int64_t)sum + (sum > 0 ? count / 2 : -(count / 2))) / count);
}

/* Largest of one channel of the window at x. */
TW_INLINE int32_t tw_pool_most_s16(const tw_pool_window *w, const int16_t *x) {
    int32_t most = INT16_MIN;
    for (int32_t r = 0; r < w->rows; ++r, x += w->row)
        for (int32_t k = 0; k < w->cols; ++k) most = tw_max(most, x[k * w->col]);
    return most;
}

/* All windows: their averages, or their largest values. */
TW_INLINE void tw_pool_2d_s16(const tw_pool_2d_params *params, const void *const *in, void *const *out, int average) {
    const tw_pool_2d_params p = *params;
    int16_t *y = (int16_t *)out[0];
    tw_pixel at = tw_pixel_first(in[0], sizeof *y, &p.window);
    TW_EACH_PIXEL(at, &p.window) {
        const tw_pool_window w = tw_pool_cut(&at, &p.window);
        for (int32_t c = 0; c < p.window.in_c; ++c) {
            const int16_t *first = (const int16_t *)w.x + c;
            const int32_t value = average ? tw_pool_average_s16(&w, first) : tw_pool_most_s16(&w, first);
            *y++ = (int16_t)tw_clamp(value, p.limits.low, p.limits.high);
        }
    }
}

TW_KERNEL(tw_average_pool_2d_s16) { tw_pool_2d_s16(params, in, out, 1); }
TW_KERNEL(tw_max_pool_2d_s16) { tw_pool_2d_s16(params, in, out, 0); }

/* y [n] = the average of the window at x, summed in the order of its elements, or the largest, which is never NaN and at
 * least -FLT_MAX. */
TW_INLINE void tw_pool_block_f32(const tw_pool_window *w, const float *TW_RESTRICT x, float *TW_RESTRICT y, int32_t n,
                                 const tw_limits_f32 *limits, int average) {
    const float count = (float)(w->rows * w->cols);
    TW_VECTOR
    for (int32_t c = 0; c < n; ++c) y[c] = average ? 0.0F : -FLT_MAX;
    for (int32_t r = 0; r < w->rows; ++r)
        for (int32_t k = 0; k < w->cols; ++k) {
            const float *tap = x + (r * w->row + k * w->col);
            TW_VECTOR
            for (int32_t c = 0; c < n; ++c) y[c] = average ? y[c] + tap[c] : y[c] < tap[c] ? tap[c] : y[c];
        }
    TW_VECTOR
    for (int32_t c = 0; c < n; ++c) y[c] = tw_clampf(average ? y[c] / count : y[c], limits->low, limits->high);
}

/* All windows: their averages, or their largest values. */
TW_INLINE void tw_pool_2d_f32(const tw_pool_2d_f32_params *params, const void *const *in, void *const *out,
                              int average) {
    const tw_pool_2d_f32_params p = *params;
    const int32_t channels = p.window.in_c;
    float *y = (float *)out[0];
    tw_pixel at = tw_pixel_first(in[0], sizeof *y, &p.window);
    TW_EACH_PIXEL(at, &p.window) {
        const tw_pool_window w = tw_pool_cut(&at, &p.window);
        int32_t c = 0;
        for (; TW_FILLS && c + 16 <= channels; c += 16)
            tw_pool_block_f32(&w, (const float *)w.x + c, y + c, 16, &p.limits, average);
        for (; TW_FILLS && c + 8 <= channels; c += 8)
            tw_pool_block_f32(&w, (const float *)w.x + c, y + c, 8, &p.limits, average);
        if (c < channels) tw_pool_block_f32(&w, (const float *)w.x + c, y + c, channels - c, &p.limits, average);
        y += channels;
    }
}

TW_KERNEL(tw_average_pool_2d_f32) { tw_pool_2d_f32(params, in, out, 1); }
TW_KERNEL(tw_max_pool_2d_f32) { tw_pool_2d_f32(params, in, out, 0); }

#endif
