/* SPDX-License-Identifier: Apache-2.0 */
/* Windows that slide over NHWC images: their geometry, the next one, the part of one that lies inside the image, and
 * one gathered into a buffer. */
#ifndef TW_WINDOW_H
#define TW_WINDOW_H

#include "tw.h"

/* Images [batches, in_h, in_w, in_c] under windows of k_h x k_w taps, one per output pixel: [batches, out_h, out_w,
 * out_c]. Neighbouring taps are dilation pixels apart, neighbouring windows stride pixels. pad_h, pad_w: rows and
 * columns of padding in front of the image. */
typedef struct {
    int32_t batches, in_h, in_w, in_c, out_h, out_w, out_c, k_h, k_w;
    int32_t stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w;
} tw_window;

/* Elements of one image. */
TW_INLINE int32_t tw_window_image(const tw_window *w) { return w->in_h * w->in_w * w->in_c; }

/* Windows over all images. */
TW_INLINE int32_t tw_window_count(const tw_window *w) { return w->batches * w->out_h * w->out_w; }

/* Whether each window is one pixel, and the next one the next pixel. */
TW_INLINE int32_t tw_window_pixels(const tw_window *w) {
    return w->k_h == 1 && w->k_w == 1 && w->stride_h == 1 && w->stride_w == 1 && w->pad_h == 0 && w->pad_w == 0 &&
           w->out_h == w->in_h && w->out_w == w->in_w;
}

/* The same windows over the bytes of elements of this size. */
TW_INLINE tw_window tw_window_bytes(const tw_window *w, int32_t size) {
    tw_window bytes = *w;
    bytes.in_c *= size;
    return bytes;
}

/* Elements from a window's first tap to tap (ky, kx). */
TW_INLINE int32_t tw_window_tap(int32_t ky, int32_t kx, const tw_window *w) {
    return (ky * w->dilation_h * w->in_w + kx * w->dilation_w) * w->in_c;
}

/* Outputs of a transposed convolution that lie strides apart see the same taps, backwards: a convolution of its own. The
 * first of them is at (y, x). */
typedef struct {
    tw_window window;
    int32_t y, x;
} tw_phase;

/* Of outputs that lie stride apart the first that tap and the ones strides behind it reach. */
TW_INLINE int32_t tw_phase_first(int32_t tap, int32_t pad, int32_t stride) {
    const int32_t first = (tap - pad) % stride;
    return first < 0 ? first + stride : first;
}

/* How far the windows of a phase begin in front of the image. */
TW_INLINE int32_t tw_phase_pad(int32_t first, int32_t taps, int32_t pad, int32_t stride) {
    return taps - 1 - (first + pad) / stride;
}

/* The phase of tap (ky, kx), both below their strides; w: the windows from output to input (transpose_conv.h). */
TW_INLINE tw_phase tw_phase_of(int32_t ky, int32_t kx, const tw_window *w) {
    tw_phase p = {*w, tw_phase_first(ky, w->pad_h, w->stride_h), tw_phase_first(kx, w->pad_w, w->stride_w)};
    p.window.k_h = (w->k_h - ky + w->stride_h - 1) / w->stride_h;
    p.window.k_w = (w->k_w - kx + w->stride_w - 1) / w->stride_w;
    p.window.out_h = (w->out_h - p.y + w->stride_h - 1) / w->stride_h;
    p.window.out_w = (w->out_w - p.x + w->stride_w - 1) / w->stride_w;
    p.window.pad_h = tw_phase_pad(p.y, p.window.k_h, w->pad_h, w->stride_h);
    p.window.pad_w = tw_phase_pad(p.x, p.window.k_w, w->pad_w, w->stride_w);
    p.window.stride_h = p.window.stride_w = 1;
    return p;
}

/* The elements in front of a phase's first output; w: as above. */
TW_INLINE int32_t tw_phase_offset(const tw_phase *phase, const tw_window *w) {
    return (phase->y * w->out_w + phase->x) * w->out_c;
}

/* The elements from there to the given line of a phase's outputs, counted over all images. */
TW_INLINE int32_t tw_phase_line(int32_t line, const tw_window *phase, const tw_window *w) {
    return (line / phase->out_h * w->out_h + line % phase->out_h * w->stride_h) * (w->out_w * w->out_c);
}

/* Whether windows of a phase have taps; where strides are longer than the window some have none, and their outputs are
 * the bias. */
TW_INLINE int32_t tw_phase_has_taps(const tw_window *w) { return w->k_h > 0 && w->k_w > 0; }

/* Blocks of so many weights of an output channel of a phase: one of zeros where there are no taps. */
TW_INLINE int32_t tw_phase_blocks(const tw_window *w, int32_t size) {
    return tw_max((w->k_h * w->k_w * w->in_c + size - 1) / size, 1);
}

/* Where a window lies: its image, whose elements have size bytes, and row and column of its first tap, which may be
 * outside the image. size is a constant at every call. */
typedef struct {
    const int8_t *image;
    int32_t y, x, size;
} tw_pixel;

/* The window of the first output pixel. */
TW_INLINE tw_pixel tw_pixel_first(const void *images, int32_t size, const tw_window *w) {
    const tw_pixel first = {(const int8_t *)images, -w->pad_h, -w->pad_w, size};
    return first;
}

/* Moves on to the next pixel: along the row, then to the next row, then to the next image. */
TW_INLINE void tw_pixel_next(tw_pixel *at, const tw_window *w) {
    at->x += w->stride_w;
    if (at->x < w->out_w * w->stride_w - w->pad_w) return;
    at->x = -w->pad_w;
    at->y += w->stride_h;
    if (w->batches == 1 || at->y < w->out_h * w->stride_h - w->pad_h) return; /* nothing follows a single image */
    at->y = -w->pad_h;
    at->image += tw_window_image(w) * at->size;
}

/* The same as nested loops around what follows, for one pixel at a time: compilers optimise these better. at: the first
 * pixel. */
#define TW_EACH_PIXEL(at, w)                                                                                           \
    for (int32_t images = (w)->batches; images > 0; --images, (at).image += tw_window_image(w) * (at).size)            \
        for ((at).y = -(w)->pad_h; (at).y < (w)->out_h * (w)->stride_h - (w)->pad_h; (at).y += (w)->stride_h)          \
            for ((at).x = -(w)->pad_w; (at).x < (w)->out_w * (w)->stride_w - (w)->pad_w; (at).x += (w)->stride_w)

/* The first tap of a window; it may lie outside the image, but only taps inside are read from there. */
TW_INLINE const void *tw_pixel_corner(const tw_pixel *at, const tw_window *w) {
    return at->image + at->y * w->in_w * w->in_c * at->size + at->x * w->in_c * at->size;
}

/* Whether an index is one of 0..extent - 1. */
TW_INLINE int32_t tw_is_inside(int32_t index, int32_t extent) { return (uint32_t)index < (uint32_t)extent; }

/* Whether the compiler knows that no window leaves the image along an axis: never in the shared instance. */
TW_INLINE int32_t tw_axis_fits(int32_t extent, int32_t out, int32_t kernel, int32_t stride, int32_t dilation,
                               int32_t pad) {
    const int32_t fits = pad == 0 && (out - 1) * stride + (kernel - 1) * dilation < extent;
    return __builtin_constant_p(fits) && fits;
}

TW_INLINE int32_t tw_rows_fit(const tw_window *w) {
    return tw_axis_fits(w->in_h, w->out_h, w->k_h, w->stride_h, w->dilation_h, w->pad_h);
}

TW_INLINE int32_t tw_columns_fit(const tw_window *w) {
    return tw_axis_fits(w->in_w, w->out_w, w->k_w, w->stride_w, w->dilation_w, w->pad_w);
}

/* Whether a row or a column of taps is inside the image. */
TW_INLINE int32_t tw_row_inside(int32_t y, const tw_window *w) { return tw_rows_fit(w) || tw_is_inside(y, w->in_h); }

TW_INLINE int32_t tw_column_inside(int32_t x, const tw_window *w) {
    return tw_columns_fit(w) || tw_is_inside(x, w->in_w);
}

/* The taps of a window that lie inside the image: rows top..bottom, columns first..end; there are none if an end is not
 * above its beginning. */
typedef struct {
    int32_t top, bottom, first, end;
} tw_inside;

/* How many taps, dilation apart, lie in a number of pixels. */
TW_INLINE int32_t tw_taps_in(int32_t pixels, int32_t dilation) {
    return dilation == 1 ? pixels : (pixels + dilation - 1) / dilation;
}

/* Of kernel taps from origin on: the first one inside 0..extent - 1, and the end of those inside. */
TW_INLINE int32_t tw_first_inside(int32_t origin, int32_t dilation) { return tw_taps_in(tw_max(-origin, 0), dilation); }

TW_INLINE int32_t tw_end_inside(int32_t origin, int32_t dilation, int32_t kernel, int32_t extent) {
    return tw_min(tw_taps_in(extent - origin, dilation), kernel);
}

TW_INLINE tw_inside tw_inside_of(const tw_pixel *at, const tw_window *w) {
    tw_inside inside = {0, w->k_h, 0, w->k_w};
    if (!tw_rows_fit(w)) {
        inside.top = tw_first_inside(at->y, w->dilation_h);
        inside.bottom = tw_end_inside(at->y, w->dilation_h, w->k_h, w->in_h);
    }
    if (!tw_columns_fit(w)) {
        inside.first = tw_first_inside(at->x, w->dilation_w);
        inside.end = tw_end_inside(at->x, w->dilation_w, w->k_w, w->in_w);
    }
    return inside;
}

/* Whether no tap of a window is outside the image: one test for most, where tw_inside_of would take four. */
TW_INLINE int32_t tw_window_whole(const tw_pixel *at, const tw_window *w) {
    const int32_t low = w->in_h - (w->k_h - 1) * w->dilation_h, right = w->in_w - (w->k_w - 1) * w->dilation_w;
    return (tw_rows_fit(w) || (at->y >= 0 && at->y < low)) && (tw_columns_fit(w) || (at->x >= 0 && at->x < right));
}

TW_INLINE int32_t tw_inside_any(const tw_inside *inside) {
    return inside->top < inside->bottom && inside->first < inside->end;
}

/* How many taps of a row inside the image form one run, each of depth elements: all, or 1. */
TW_INLINE int32_t tw_inside_run(const tw_inside *inside, int32_t depth, const tw_window *w) {
    return w->dilation_w == 1 && depth == w->in_c ? inside->end - inside->first : 1;
}

/* How windows are gathered: bytes per pixel, and what fills the part outside the image. The in_c of the window counts
 * bytes, too. flip: 0x80 if int8 becomes uint8 (x + 128), else 0; a constant at every call. */
typedef struct {
    const tw_window *window;
    int32_t bytes, fill, flip;
} tw_gather;

/* Copies count bytes, flipped. */
TW_INLINE void tw_gather_bytes(int8_t *TW_RESTRICT to, const int8_t *TW_RESTRICT from, int32_t count,
                               const tw_gather *g) {
    if (g->flip)
        tw_bias128((uint8_t *)to, from, count);
    else
        memcpy(to, from, (size_t)count);
}

TW_INLINE void tw_gather_fill(int8_t *to, int32_t count, const tw_gather *g) {
    memset(to, g->fill ^ g->flip, (size_t)count);
}

/* Whether the taps of a row from column x0 on are one run of bytes inside the image. */
TW_INLINE int32_t tw_gather_runs(int32_t x0, const tw_gather *g) {
    const tw_window *w = g->window;
    return w->dilation_w == 1 && g->bytes == w->in_c && (tw_columns_fit(w) || (x0 >= 0 && x0 + w->k_w <= w->in_w));
}

/* Gathers one row of taps; the first lies in column x0 of row y of the image x. */
TW_INLINE void tw_gather_row(int8_t *to, const int8_t *x, int32_t y, int32_t x0, const tw_gather *g) {
    const tw_window *w = g->window;
    if (!tw_row_inside(y, w)) {
        tw_gather_fill(to, w->k_w * g->bytes, g);
        return;
    }
    x += y * w->in_w * w->in_c;
    if (tw_gather_runs(x0, g)) {
        tw_gather_bytes(to, x + x0 * w->in_c, w->k_w * g->bytes, g);
        return;
    }
    for (int32_t kx = 0; kx < w->k_w; ++kx, x0 += w->dilation_w, to += g->bytes) {
        if (tw_column_inside(x0, w))
            tw_gather_bytes(to, x + x0 * w->in_c, g->bytes, g);
        else
            tw_gather_fill(to, g->bytes, g);
    }
}

/* Gathers the window at a pixel, of each of its pixels the bytes from first on: [k_h][k_w][bytes]. */
TW_INLINE void tw_gather_window(int8_t *to, const tw_pixel *at, int32_t first, const tw_gather *g) {
    const tw_window *w = g->window;
    int32_t y = at->y;
    for (int32_t ky = 0; ky < w->k_h; ++ky, y += w->dilation_h, to += w->k_w * g->bytes)
        tw_gather_row(to, at->image + first, y, at->x, g);
}

#endif
