/* SPDX-License-Identifier: Apache-2.0 */
/* DEPTHWISE_CONV_2D over 16 lanes. */
#ifndef TW_DEPTHWISE_CONV2D_WIDE_H
#define TW_DEPTHWISE_CONV2D_WIDE_H

#include "../core/window.h"
#include "../isa/wide/wide.h"
#include "../isa/wide/wide_f32.h"

/* Over 16 channels at a time, multiplier 1. in: x, w int32 [k_h][k_w][padded] (int16 values, zeros above), bias int32
 * [classes][padded] with the input zero point folded in for the taps inside the image, mult int32 and shift int8
 * [padded], rows int32 [out_h][3], columns int32 [out_w][3]: first tap inside, end of the taps inside, border class.
 * The bias of an output is that of class row_class * column_classes + column_class. padded: in_c rounded up to 16.
 * out: y. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t padded, column_classes, fast;
} tw_depthwise_conv2d_wide_s8_params;

/* Outputs side by side that are computed at once, if their windows lie inside the image along its rows: as many as lie
 * in registers with what they load. */
#if defined(TW_WIDE_RVV)
#define TW_DEPTHWISE_PIXELS 3
#else
#define TW_DEPTHWISE_PIXELS 4
#endif

/* pixels outputs (1 or TW_DEPTHWISE_PIXELS) side by side, 16 channels from c on. x: the image; base: the index of the
 * first window's corner (negative where padding begins there; only taps inside are read). row, column: as above. */
TW_INLINE void tw_depthwise_conv2d_lanes(tw_acc *TW_RESTRICT acc, int pixels, const int8_t *x, int32_t base,
                                         const int32_t *w, const int32_t *row, int32_t kx0, int32_t kx1, int32_t lanes,
                                         const tw_depthwise_conv2d_wide_s8_params *p) {
    const tw_window *window = &p->window;
    for (int32_t ky = row[0]; ky < row[1]; ++ky)
        for (int32_t kx = kx0; kx < kx1; ++kx) {
            const int32_t at = base + tw_window_tap(ky, kx, window);
            const int32_t *tap = w + (ky * window->k_w + kx) * p->padded;
            for (int i = 0; i < pixels; ++i)
                acc[i] = tw_acc_mul(acc[i], x + (at + i * window->stride_w * window->in_c), tap, lanes);
        }
}

/* One row of outputs, 16 channels from c on. */
TW_INLINE void tw_depthwise_conv2d_row(const int8_t *x, int32_t base, const int32_t *w, const int32_t *row,
                                       const int32_t *columns, int8_t *y, int32_t c, const tw_channels_s8 *channels,
                                       const tw_depthwise_conv2d_wide_s8_params *p) {
    const tw_window *window = &p->window;
    const int32_t lanes = tw_min(window->in_c - c, TW_LANES);
    const tw_ends ends = tw_ends_load(channels, c);
    for (int32_t ox = 0; ox < window->out_w;) {
        tw_acc acc[TW_DEPTHWISE_PIXELS];
        const int32_t *column = columns + 3 * ox, *last = column + 3 * (TW_DEPTHWISE_PIXELS - 1);
        const int32_t inside = ox + TW_DEPTHWISE_PIXELS <= window->out_w && column[0] == 0 &&
                               column[1] == window->k_w && last[0] == 0 && last[1] == window->k_w;
        const int32_t at = base + ox * window->stride_w * window->in_c, count = inside ? TW_DEPTHWISE_PIXELS : 1;
        const tw_acc start = tw_acc_load(channels->bias + (row[2] * p->column_classes + column[2]) * p->padded + c);
        for (int i = 0; i < TW_DEPTHWISE_PIXELS; ++i) acc[i] = start;
        if (inside)
            tw_depthwise_conv2d_lanes(acc, TW_DEPTHWISE_PIXELS, x + c, at, w + c, row, 0, window->k_w, lanes, p);
        else
            tw_depthwise_conv2d_lanes(acc, 1, x + c, at, w + c, row, column[0], column[1], lanes, p);
        for (int32_t i = 0; i < count; ++i)
            tw_acc_end(y + (ox + i) * window->in_c + c, acc[i], &ends, tw_ending(channels), lanes);
        ox += count;
    }
}

TW_KERNEL(tw_depthwise_conv2d_wide_s8) {
    const tw_depthwise_conv2d_wide_s8_params p = *params;
    const tw_window *window = &p.window;
    const int8_t *x = (const int8_t *)in[0];
    const int32_t *w = (const int32_t *)in[1], *rows = (const int32_t *)in[5], *columns = (const int32_t *)in[6];
    int8_t *y = (int8_t *)out[0];
    const tw_channels_s8 channels = tw_channels_s8_of(in, 0, p.fast, &p.end);
    for (int32_t b = 0; b < window->batches; ++b, x += tw_window_image(window))
        for (int32_t oy = 0; oy < window->out_h; ++oy, y += window->out_w * window->in_c) {
            const int32_t top = oy * window->stride_h - window->pad_h;
            const int32_t base = (top * window->in_w - window->pad_w) * window->in_c;
            for (int32_t c = 0; c < window->in_c; c += TW_LANES)
                tw_depthwise_conv2d_row(x, base, w, rows + 3 * oy, columns, y, c, &channels, &p);
        }
}

/* float32 over vectors of channels, one output channel from each: some pixels of a row at once, which share the vectors
 * of weights. in: x, w [k_h * k_w][wide], bias [wide]; wide: out_c, at least 16, the channels behind out_c zeros. out: y. out_c is
 * at least 8. pair: out_c is 8 and stride_w 1, and channels 8 to 15 are those of the next pixel: weights and bias come
 * twice. The sum runs over the taps inside the image, in order. */
typedef struct {
    tw_window window;
    tw_limits_f32 limits;
    int32_t wide, pair;
} tw_depthwise_conv2d_wide_f32_params;
typedef tw_depthwise_conv2d_wide_f32_params tw_depthwise_conv2d_wide_fused_f32_params;

#define TW_TAPS_PIXELS 8

/* Outputs of a row and a vector of channels. Their taps inside the image, at least one: x, w and bias begin at the
 * first one, y at the first output. Floats from tap to tap, and from output to output (x_next, y_next). lanes: channels
 * that may be read and written. fused: a constant (madd.h). */
typedef struct {
    const float *x, *w, *bias;
    float *y;
    int32_t rows, columns, x_row, x_column, w_row, w_column, x_next, y_next, lanes;
    tw_limits_f32 limits;
    int fused;
} tw_f32_taps;

/* Some outputs from number first on. pixels and few (whether lanes matters) are constants, columns may be one. */
TW_INLINE void tw_f32_taps_tile(const tw_f32_taps *taps, int32_t first, int pixels, int few, int32_t columns) {
    const float *x = taps->x + first * taps->x_next, *w = taps->w;
    const tw_f32v zero = {0}, bias = tw_f32v_load(taps->bias);
    tw_f32v acc[TW_TAPS_PIXELS];
    int32_t rows = taps->rows;
    for (int r = 0; r < pixels; ++r) acc[r] = zero;
    do {
        int32_t kx = 0;
        do {
            const tw_f32v weights = tw_f32v_load(w + kx * taps->w_column);
            for (int r = 0; r < pixels; ++r) {
                const float *at = x + r * taps->x_next + kx * taps->x_column;
                acc[r] =
                    tw_f32v_madd(few ? tw_f32v_some(at, taps->lanes) : tw_f32v_load(at), weights, acc[r], taps->fused);
            }
        } while (++kx < columns);
        x += taps->x_row;
        w += taps->w_row;
    } while (--rows > 0);
    for (int r = 0; r < pixels; ++r)
        tw_f32v_store(taps->y + (first + r) * taps->y_next, tw_f32v_clamp(acc[r] + bias, &taps->limits),
                      few ? taps->lanes : TW_F32_LANES);
}

/* count outputs, by tiles of so many. */
TW_INLINE void tw_f32_taps_tiles(const tw_f32_taps *taps, int32_t count, int pixels) {
    for (int32_t next = 0; next < count; next += pixels) {
        const int32_t first = tw_min(next, count - pixels);
        if (taps->columns == 3)
            tw_f32_taps_tile(taps, first, pixels, 0, 3);
        else
            tw_f32_taps_tile(taps, first, pixels, 0, taps->columns);
    }
}

#define TW_TILES(n)                                                                                                    \
    case n: tw_f32_taps_tiles(taps, count, n); break;

/* count outputs with the same taps, by tiles of so many pixels. */
TW_INLINE void tw_f32_taps_run(const tw_f32_taps *taps, int32_t count, int32_t pixels) {
    if (taps->lanes < TW_F32_LANES) {
        for (int32_t i = 0; i < count; ++i) tw_f32_taps_tile(taps, i, 1, 1, taps->columns);
        return;
    }
    switch (pixels) {
        TW_TILES(1)
        TW_TILES(2)
        TW_TILES(3)
        TW_TILES(4)
        TW_TILES(5)
        TW_TILES(6)
        TW_TILES(7)
        TW_TILES(8)
    }
}

#undef TW_TILES

/* How a row of outputs is taken: first..end - 1 see whole rows of taps, by tiles of so many pixels (or pairs). */
typedef struct {
    int32_t first, end, pair, pixels;
} tw_f32_spans;

TW_INLINE tw_f32_spans tw_f32_spans_of(const tw_depthwise_conv2d_wide_f32_params *p) {
    const tw_window *window = &p->window;
    const int32_t space = window->in_w + window->pad_w - (window->k_w - 1) * window->dilation_w - 1;
    tw_f32_spans spans = {0, 0, p->pair && TW_F32_LANES == 16, 1};
    if (space >= 0) spans.end = tw_min(space / window->stride_w + 1, window->out_w);
    spans.first = tw_min((window->pad_w + window->stride_w - 1) / window->stride_w, spans.end);
    const int32_t count = (spans.end - spans.first) >> spans.pair;
    if (count > 0) spans.pixels = tw_f32_pixels(count, TW_TAPS_PIXELS);
    return spans;
}

/* The outputs that see whole rows of taps. taps: those of the row's first output, as if all columns were inside. */
TW_INLINE void tw_depthwise_middle_f32(const tw_f32_taps *taps, const tw_f32_spans *spans) {
    const int32_t count = spans->end - spans->first;
    tw_f32_taps from = *taps;
    from.x += spans->first * from.x_next;
    from.y += spans->first * from.y_next;
    if (spans->pair) {
        tw_f32_taps pairs = from;
        pairs.x_next = pairs.y_next = pairs.lanes = TW_F32_LANES;
        if (count > 1) tw_f32_taps_run(&pairs, count / 2, spans->pixels);
        from.x += (count - 1) * from.x_next;
        from.y += (count - 1) * from.y_next;
    }
    if (!spans->pair)
        tw_f32_taps_run(&from, count, spans->pixels);
    else if (count % 2)
        tw_f32_taps_run(&from, 1, 1);
}

/* Outputs that see no tap inside the image: the sum of nothing, and the bias. */
TW_INLINE void tw_depthwise_nothing_f32(const tw_f32_taps *taps, int32_t count) {
    const tw_f32v zero = {0};
    for (int32_t ox = 0; ox < count; ++ox)
        tw_f32v_store(taps->y + ox * taps->y_next, tw_f32v_clamp(zero + tw_f32v_load(taps->bias), &taps->limits),
                      taps->lanes);
}

/* Output ox, which does not see all columns of taps. */
TW_INLINE void tw_depthwise_edge_f32(const tw_f32_taps *taps, int32_t ox, const tw_window *window) {
    const int32_t ix = ox * window->stride_w - window->pad_w, kx = tw_first_inside(ix, window->dilation_w);
    tw_f32_taps from = *taps;
    from.columns = tw_end_inside(ix, window->dilation_w, window->k_w, window->in_w) - kx;
    from.x += ox * from.x_next + kx * from.x_column;
    from.w += kx * from.w_column;
    from.y += ox * from.y_next;
    if (from.columns <= 0)
        tw_depthwise_nothing_f32(&from, 1);
    else if (from.lanes < TW_F32_LANES)
        tw_f32_taps_tile(&from, 0, 1, 1, from.columns);
    else
        tw_f32_taps_tile(&from, 0, 1, 0, from.columns);
}

/* A row of outputs and a vector of channels. */
TW_INLINE void tw_depthwise_vector_f32(const tw_f32_taps *taps, const tw_f32_spans *spans, const tw_window *window) {
    for (int32_t ox = 0; ox < spans->first; ++ox) tw_depthwise_edge_f32(taps, ox, window);
    if (spans->first < spans->end) tw_depthwise_middle_f32(taps, spans);
    for (int32_t ox = spans->end; ox < window->out_w; ++ox) tw_depthwise_edge_f32(taps, ox, window);
}

/* A row of outputs y, whose windows begin in row iy of the image x. */
TW_INLINE void tw_depthwise_row_f32(const float *x, const void *const *in, float *y, int32_t iy,
                                    const tw_f32_spans *spans, const tw_depthwise_conv2d_wide_f32_params *p,
                                    int fused) {
    const tw_window *window = &p->window;
    const int32_t channels = window->in_c, line = window->in_w * channels;
    const int32_t ky = tw_first_inside(iy, window->dilation_h), row = window->k_w * p->wide;
    tw_f32_taps taps = {0,
                        0,
                        0,
                        0,
                        0,
                        window->k_w,
                        window->dilation_h * line,
                        window->dilation_w * channels,
                        row,
                        p->wide,
                        window->stride_w * channels,
                        channels,
                        tw_min(channels, TW_F32_LANES),
                        p->limits,
                        fused};
    taps.rows = tw_end_inside(iy, window->dilation_h, window->k_h, window->in_h) - ky;
    for (int32_t next = 0; next < channels; next += TW_F32_LANES) {
        const int32_t c = tw_max(tw_min(next, channels - TW_F32_LANES), 0);
        taps.bias = (const float *)in[2] + c;
        taps.y = y + c;
        if (taps.rows <= 0) {
            tw_depthwise_nothing_f32(&taps, window->out_w);
            continue;
        }
        taps.x = x + (iy + ky * window->dilation_h) * line - window->pad_w * channels + c;
        taps.w = (const float *)in[1] + ky * row + c;
        tw_depthwise_vector_f32(&taps, spans, window);
    }
}

/* The kernel; fused, a constant: see madd.h. */
TW_INLINE void tw_depthwise_conv2d_wide_f32_of(const tw_depthwise_conv2d_wide_f32_params *params, const void *const *in,
                                               void *const *out, int fused) {
    const tw_depthwise_conv2d_wide_f32_params p = *params;
    const tw_window *window = &p.window;
    const tw_f32_spans spans = tw_f32_spans_of(&p);
    const float *x = (const float *)in[0];
    float *y = (float *)out[0];
    for (int32_t b = 0; b < window->batches; ++b, x += tw_window_image(window))
        for (int32_t oy = 0; oy < window->out_h; ++oy, y += window->out_w * window->out_c)
            tw_depthwise_row_f32(x, in, y, oy * window->stride_h - window->pad_h, &spans, &p, fused);
}

TW_KERNEL(tw_depthwise_conv2d_wide_f32) { tw_depthwise_conv2d_wide_f32_of(params, in, out, 0); }

TW_KERNEL(tw_depthwise_conv2d_wide_fused_f32) { tw_depthwise_conv2d_wide_f32_of(params, in, out, 1); }

#endif
