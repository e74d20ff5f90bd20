/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, float32, weights [out_c][k_h][k_w][in_c / groups]. */
#ifndef TW_CONV2D_F32_H
#define TW_CONV2D_F32_H

#include "../core/sums_f32.h"
#include "../core/window.h"
#include "../isa/wide/tile_f32.h"

/* Plain C. in: x, w, bias [out_c]. out: y. depth: in_c / groups. */
typedef struct {
    tw_window window;
    tw_limits_f32 limits;
    int32_t depth;
} tw_conv2d_f32_params;
typedef tw_conv2d_f32_params tw_conv2d_fused_f32_params;

/* The sums of four channels, whose weights lie size apart, over the taps inside the image. x: the window's corner (it
 * may lie outside) at the group's first channel; w: weights of the first of the four. */
TW_INLINE void tw_conv2d_sums_f32(float *acc, const float *x, const float *w, int32_t size, const tw_inside *inside,
                                  const tw_conv2d_f32_params *p, int fused) {
    const tw_window *window = &p->window;
    const int32_t taps = tw_inside_run(inside, p->depth, window);
#if defined(TW_VFP) && !defined(TW_HELIUM_F32)
    if (fused && taps > 0 && taps == inside->end - inside->first && inside->top < inside->bottom) {
        const int32_t n = taps * p->depth;
        tw_runs_fused_f32(acc, x + tw_window_tap(inside->top, inside->first, window),
                          w + (inside->top * window->k_w + inside->first) * p->depth, n, size,
                          inside->bottom - inside->top, tw_window_tap(1, 0, window) - n, window->k_w * p->depth - n);
        return;
    }
#endif
    for (int32_t ky = inside->top; ky < inside->bottom; ++ky)
        for (int32_t kx = inside->first; kx < inside->end; kx += taps)
            tw_rows_f32(acc, x + tw_window_tap(ky, kx, window), w + (ky * window->k_w + kx) * p->depth, taps * p->depth,
                        size, fused);
}

/* All channels of one output; x: the window's corner. */
TW_INLINE void tw_conv2d_pixel_f32(const float *x, const float *w, const float *bias, float *y, const tw_inside *inside,
                                   const tw_conv2d_f32_params *p, int fused) {
    const tw_window *window = &p->window;
    const int32_t group = window->out_c / (window->in_c / p->depth), size = window->k_h * window->k_w * p->depth;
    const tw_rows rows = tw_rows_of(group, 4);
    for (int32_t g = 0; g < window->out_c; g += group, x += p->depth)
        for (int32_t next = 0; next < group; next += rows.step) {
            const int32_t at = g + tw_min(next, group - rows.step);
            float acc[4] = {0.0F, 0.0F, 0.0F, 0.0F};
            tw_conv2d_sums_f32(acc, x, w + at * size, rows.apart * size, inside, p, fused);
            for (int32_t c = at; c < at + rows.step; ++c)
                y[c] = tw_clampf(acc[c - at] + bias[c], p->limits.low, p->limits.high);
        }
}

/* The kernel; fused, a constant: see madd.h. */
TW_INLINE void tw_conv2d_f32_of(const tw_conv2d_f32_params *params, const void *const *in, void *const *out,
                                int fused) {
    const tw_conv2d_f32_params p = *params;
    const float *w = (const float *)in[1], *bias = (const float *)in[2];
    float *y = (float *)out[0];
    tw_pixel at = tw_pixel_first(in[0], sizeof *y, &p.window);
    TW_EACH_PIXEL(at, &p.window) {
        const tw_inside inside = tw_inside_of(&at, &p.window);
        tw_conv2d_pixel_f32((const float *)tw_pixel_corner(&at, &p.window), w, bias, y, &inside, &p, fused);
        y += p.window.out_c;
    }
}

TW_KERNEL(tw_conv2d_f32) { tw_conv2d_f32_of(params, in, out, 0); }

TW_KERNEL(tw_conv2d_fused_f32) { tw_conv2d_f32_of(params, in, out, 1); }

/* Over vectors of channels: windows are read where they lie, in the image or in a padded copy of the rows that a row of
 * outputs sees. in: x, w packed [out_c / 16][k_h * k_w * in_c][16], bias [out_c padded to 16]. out: y. columns: pixels
 * of a row of the copy, its padding among them; 0 if no window leaves the image, which is then read itself. A column of
 * pixels is taken as a row. scratch: float [rows that a window sees][columns][in_c]. Columns of padding are added as
 * zeros, which does not change the sums' bits if the weights are finite; rows of padding are left out. */
typedef struct {
    tw_window window;
    tw_limits_f32 limits;
    int32_t columns;
} tw_conv2d_wide_f32_params;
typedef tw_conv2d_wide_f32_params tw_conv2d_wide_fused_f32_params;

/* Copies the rows of the image x from iy on that windows see and the copy does not have yet. */
TW_INLINE void tw_conv2d_wide_fill_f32(tw_f32_rows *to, float *copy, const float *x, int32_t iy,
                                       const tw_window *window) {
    const int32_t left = window->pad_w * window->in_c, width = window->in_w * window->in_c;
    const int32_t end = tw_min(iy + to->places, window->in_h);
    const size_t bytes = (size_t)tw_min(width, to->row - left) * sizeof *x;
    for (to->next = tw_max(to->next, iy); to->next < end; ++to->next)
        memcpy(copy + to->next % to->places * to->row + left, x + to->next * width, bytes);
}

/* The rows of taps that lie inside the image, of a window whose first tap is in row iy. Where there is none, a row of
 * zeros is seen. */
TW_INLINE void tw_conv2d_wide_taps_f32(tw_f32_rows *from, float *copy, int32_t iy, const tw_window *window) {
    const int32_t end = tw_end_inside(iy, window->dilation_h, window->k_h, window->in_h);
    from->first = tw_first_inside(iy, window->dilation_h);
    from->count = end - from->first;
    from->place = (iy + from->first * window->dilation_h) % from->places;
    if (from->count > 0) return;
    memset(copy, 0, (size_t)from->row * sizeof *copy);
    from->first = from->place = from->next = 0; /* what was there is copied again */
    from->count = 1;
}

/* An image x through a padded copy of its rows. */
TW_INLINE void tw_conv2d_wide_padded_f32(const float *x, float *y, float *copy, int32_t columns,
                                         const tw_f32_layer *layer) {
    const tw_window *window = &layer->window;
    const int32_t reach = (window->k_h - 1) * window->dilation_h + 1, row = columns * window->in_c;
    tw_f32_rows from = {copy, row, reach, 0, 0, 0, 0};
    memset(copy, 0, (size_t)(reach * row) * sizeof *copy);
    for (int32_t oy = 0; oy < window->out_h; ++oy, y += window->out_w * window->out_c) {
        const int32_t iy = oy * window->stride_h - window->pad_h;
        tw_conv2d_wide_fill_f32(&from, copy, x, iy, window);
        tw_conv2d_wide_taps_f32(&from, copy, iy, window);
        tw_f32_row(&from, y, layer);
    }
}

/* An image that no window leaves. */
TW_INLINE void tw_conv2d_wide_inside_f32(const float *x, float *y, const tw_f32_layer *layer) {
    const tw_window *window = &layer->window;
    tw_f32_rows from = {x, window->in_w * window->in_c, window->in_h, 0, window->k_h, 0, 0};
    for (int32_t oy = 0; oy < window->out_h; ++oy, y += window->out_w * window->out_c) {
        from.place = oy * window->stride_h;
        tw_f32_row(&from, y, layer);
    }
}

/* Windows of one pixel, one after another, are a single row. */
TW_INLINE tw_window tw_conv2d_flat(const tw_window *window) {
    tw_window flat = *window;
    if (flat.k_h * flat.k_w * flat.stride_h * flat.stride_w > 1 || flat.in_h != flat.out_h || flat.in_w != flat.out_w)
        return flat;
    flat.in_w = flat.out_w = tw_window_count(window);
    flat.batches = flat.in_h = flat.out_h = 1;
    return flat;
}

/* Whether images and windows are one column, which lies in memory as one row does. */
TW_INLINE int tw_conv2d_column(const tw_window *w) { return w->in_w * w->out_w * w->k_w == 1 && w->pad_w == 0; }

/* A column as a row, whose tiles have many pixels: a tile of one would wait for every sum. */
TW_INLINE tw_window tw_conv2d_turned(const tw_window *w) {
    const tw_window row = {w->batches, 1,           w->in_h, w->in_c,       1, w->out_h, w->out_c, 1, w->k_h,
                           1,          w->stride_h, 1,       w->dilation_h, 0, w->pad_h};
    return tw_conv2d_column(w) ? row : *w;
}

/* The kernel; fused, a constant: see madd.h. */
TW_INLINE void tw_conv2d_wide_f32_of(const tw_conv2d_wide_f32_params *params, const void *const *in, void *const *out,
                                     void *scratch, int fused) {
    const tw_conv2d_wide_f32_params p = *params;
    const tw_window window = tw_conv2d_turned(&p.window);
    const tw_f32_layer layer = {(const float *)in[1], (const float *)in[2],
                                p.columns ? window : tw_conv2d_flat(&window), p.limits, fused};
    const int32_t reach = (window.out_w - 1) * window.stride_w + (window.k_w - 1) * window.dilation_w + 1;
    /* Of a column only so many pixels as the part of it needs that is computed. */
    const int32_t columns = tw_conv2d_column(&p.window) ? tw_max(window.pad_w + window.in_w, reach) : p.columns;
    const float *x = (const float *)in[0];
    float *y = (float *)out[0];
    for (int32_t b = 0; b < layer.window.batches; ++b) {
        if (p.columns)
            tw_conv2d_wide_padded_f32(x, y, (float *)scratch, columns, &layer);
        else
            tw_conv2d_wide_inside_f32(x, y, &layer);
        x += tw_window_image(&layer.window);
        y += layer.window.out_h * layer.window.out_w * layer.window.out_c;
    }
}

TW_KERNEL(tw_conv2d_wide_f32) { tw_conv2d_wide_f32_of(params, in, out, scratch, 0); }

TW_KERNEL(tw_conv2d_wide_fused_f32) { tw_conv2d_wide_f32_of(params, in, out, scratch, 1); }

#endif
