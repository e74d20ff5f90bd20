/* SPDX-License-Identifier: Apache-2.0 */
/* AVERAGE_POOL_2D and MAX_POOL_2D of int8 by rows of outputs, for computers: the rows of a window are added over the
 * whole width of the image, then the columns, then all sums of a row end at once. Compilers turn these loops into
 * vectors, as they go over a row instead of over the channels of one pixel. */
#ifndef TW_POOL_2D_WIDE_H
#define TW_POOL_2D_WIDE_H

#include "pool_2d.h"

/* Values of which a vector of sums holds so many. */
#define TW_POOL_LANES 8
typedef int16_t tw_pool_lanes __attribute__((vector_size(2 * TW_POOL_LANES)));

/* As the kernels of pool_2d.h, but averages are over at most 16 elements. scratch: int16 [in_w + out_w, in_c]. */
typedef tw_pool_2d_params tw_average_pool_2d_wide_s8_params;
typedef tw_pool_2d_params tw_average_pool_2d_up_wide_s8_params;
typedef tw_pool_2d_params tw_max_pool_2d_wide_s8_params;

/* What joins two values of a window; kind is a constant at every call. */
#define TW_POOL_JOINED(kind, a, b) ((kind) != TW_POOL_MAX ? (a) + (b) : (a) < (b) ? (b) : (a))

/* sums [n] = the joined values of rows of bytes, step bytes apart. */
TW_INLINE void tw_pool_wide_rows(const int8_t *TW_RESTRICT x, int16_t *TW_RESTRICT sums, int32_t n, int32_t rows,
                                 int32_t step, tw_pool_kind kind) {
    for (int32_t i = 0; i < n; ++i) sums[i] = x[i];
    for (int32_t r = 1; r < rows; ++r) {
        const int8_t *row = x + r * step;
        for (int32_t i = 0; i < n; ++i) sums[i] = (int16_t)TW_POOL_JOINED(kind, sums[i], row[i]);
    }
}

TW_INLINE tw_pool_lanes tw_pool_lanes_load(const int16_t *p) {
    tw_pool_lanes lanes;
    memcpy(&lanes, p, sizeof lanes);
    return lanes;
}

/* sums [channels] = the joined values of columns, channels elements apart. */
TW_INLINE void tw_pool_wide_columns(const int16_t *TW_RESTRICT x, int16_t *TW_RESTRICT sums, int32_t channels,
                                    int32_t columns, tw_pool_kind kind) {
    int32_t c = 0;
    for (; c <= channels - TW_POOL_LANES; c += TW_POOL_LANES) {
        tw_pool_lanes lanes = tw_pool_lanes_load(x + c);
        for (int32_t k = 1; k < columns; ++k) {
            const tw_pool_lanes other = tw_pool_lanes_load(x + k * channels + c);
            const tw_pool_lanes less = lanes < other;
            lanes = kind != TW_POOL_MAX ? lanes + other : (other & less) | (lanes & ~less);
        }
        memcpy(sums + c, &lanes, sizeof lanes);
    }
    for (; c < channels; ++c) {
        int16_t sum = x[c];
        for (int32_t k = 1; k < columns; ++k) sum = (int16_t)TW_POOL_JOINED(kind, sum, x[k * channels + c]);
        sums[c] = sum;
    }
}

/* y [n] = outputs from what windows of count values joined. Averages are floor((sum + count / 2) / count), with one less
 * where a tie is below zero, computed without a sign: v / count = v * (2^16 / count + 1) >> 16 for 255.5 count^2 < 2^16. */
TW_INLINE void tw_pool_wide_end(const int16_t *TW_RESTRICT sums, int8_t *TW_RESTRICT y, int32_t n, int32_t count,
                                const tw_limits *limits, tw_pool_kind kind) {
    const int16_t low = (int16_t)limits->low, high = (int16_t)limits->high;
    if (kind == TW_POOL_MAX || count == 1) {
        for (int32_t i = 0; i < n; ++i) y[i] = (int8_t)tw_clamp(sums[i], low, high);
        return;
    }
    const uint16_t reciprocal = (uint16_t)(65536 / count + 1);
    const int16_t start = (int16_t)(128 * count + count / 2), tie = kind == TW_POOL_AVERAGE && count % 2 == 0;
    for (int32_t i = 0; i < n; ++i) {
        const uint16_t v = (uint16_t)(sums[i] + start - (sums[i] < 0 ? tie : 0));
        const int16_t average = (int16_t)((int16_t)(((uint32_t)v * reciprocal) >> 16) - 128);
        y[i] = (int8_t)(average < low ? low : average > high ? high : average);
    }
}

/* The first column of a window inside the image, and how many there are. */
TW_INLINE int32_t tw_pool_wide_first(int32_t j, const tw_window *w) { return tw_max(j * w->stride_w - w->pad_w, 0); }

TW_INLINE int32_t tw_pool_wide_width(int32_t j, const tw_window *w) {
    return tw_min(j * w->stride_w - w->pad_w + w->k_w, w->in_w) - tw_pool_wide_first(j, w);
}

/* The sums of windows from j on that have so many columns: all that lie inside the image, or one that is cut off by its
 * edge. Returns the window behind them. */
TW_INLINE int32_t tw_pool_wide_alike(const int16_t *x, int16_t *sums, int32_t j, int32_t columns, const tw_window *w,
                                     tw_pool_kind kind) {
    const int32_t channels = w->in_c, step = w->stride_w * channels;
    const int32_t inside = (w->in_w + w->pad_w - w->k_w) / w->stride_w + 1;
    const int32_t end = columns == w->k_w ? tw_min(inside, w->out_w) : j + 1;
    x += tw_pool_wide_first(j, w) * channels, sums += j * channels;
    for (; j < end; ++j, x += step, sums += channels) tw_pool_wide_columns(x, sums, channels, columns, kind);
    return end;
}

/* One row of outputs; x: the first row of the image inside the windows, of which there are rows. */
TW_INLINE void tw_pool_wide_row(const tw_pool_2d_params *p, const int8_t *x, int8_t *y, int32_t rows, int16_t *scratch,
                                tw_pool_kind kind) {
    const tw_window *w = &p->window;
    const int32_t row = w->in_w * w->in_c;
    int16_t *sums = scratch + row;
    tw_pool_wide_rows(x, scratch, row, rows, row, kind);
    for (int32_t j = 0; j < w->out_w;) {
        const int32_t from = j * w->in_c, columns = tw_pool_wide_width(j, w);
        j = columns == 2   ? tw_pool_wide_alike(scratch, sums, j, 2, w, kind)
            : columns == 3 ? tw_pool_wide_alike(scratch, sums, j, 3, w, kind)
                           : tw_pool_wide_alike(scratch, sums, j, columns, w, kind);
        tw_pool_wide_end(sums + from, y + from, j * w->in_c - from, rows * columns, &p->limits, kind);
    }
}

TW_INLINE void tw_pool_2d_wide_s8(const tw_pool_2d_params *params, const void *const *in, void *const *out,
                                  void *scratch, tw_pool_kind kind) {
    const tw_pool_2d_params p = *params;
    const tw_window *w = &p.window;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    for (int32_t b = 0; b < w->batches; ++b, x += tw_window_image(w))
        for (int32_t i = 0; i < w->out_h; ++i, y += w->out_w * w->in_c) {
            const int32_t top = i * w->stride_h - w->pad_h, first = tw_max(top, 0);
            tw_pool_wide_row(&p, x + first * w->in_w * w->in_c, y, tw_min(top + w->k_h, w->in_h) - first,
                             (int16_t *)scratch, kind);
        }
}

TW_KERNEL(tw_average_pool_2d_wide_s8) { tw_pool_2d_wide_s8(params, in, out, scratch, TW_POOL_AVERAGE); }
TW_KERNEL(tw_average_pool_2d_up_wide_s8) { tw_pool_2d_wide_s8(params, in, out, scratch, TW_POOL_AVERAGE_UP); }
TW_KERNEL(tw_max_pool_2d_wide_s8) { tw_pool_2d_wide_s8(params, in, out, scratch, TW_POOL_MAX); }

#endif
