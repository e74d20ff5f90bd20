/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, on Helium: two pixels at a time, from the image itself or from two columns. So are groups of channels,
 * and the phases of a TRANSPOSE_CONV. */
#ifndef TW_CONV2D_MVE_H
#define TW_CONV2D_MVE_H

#include "../core/window.h"
#include "../isa/mve/mve_s8.h"
#include "../isa/mve/mve_tile.h"

/* int8. in: x, then fours (mve_tile.h) of k = k_h * k_w * in_c in blocks; the input zero point is folded into the
 * biases; padding holds in_zero. out: y. scratch: int8 [2, 16 * blocks]. No dilation along rows. direct: the windows
 * are the input's pixels, one after another (1x1, stride 1, no padding), and in_c >= 8, so that
 * 16 * blocks <= 2 * in_c: all pixels but the last two can be read in place. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t blocks, direct, in_zero;
} tw_conv2d_mve_s8_params;

/* Where the next windows come from: the window as bytes, how it is gathered, and the first pixel that cannot be read in
 * place. */
typedef struct {
    tw_gather gather;
    const int8_t *x, *in_place;
    int8_t *columns;
    tw_pixel at;
    int32_t size, direct;
} tw_conv2d_mve_next;

/* columns: int8 [2, size]. */
TW_INLINE tw_conv2d_mve_next tw_conv2d_mve_first(const void *x, void *columns, int32_t size, int32_t direct,
                                                 const tw_gather *g) {
    const tw_window *w = g->window;
    const int8_t *const first = (const int8_t *)x;
    const int32_t apart = direct ? tw_max(tw_window_count(w) - 2, 0) * w->in_c : 0;
    const tw_conv2d_mve_next next = {*g,   first, first + apart, (int8_t *)columns, tw_pixel_first(x, 1, w),
                                     size, direct};
    return next;
}

/* The window at a pixel as a column: first the padding where it leaves the image, then what lies inside. */
TW_INLINE void tw_conv2d_mve_window(int8_t *to, const tw_conv2d_mve_next *next) {
    const tw_window *w = next->gather.window;
    const int32_t row = w->k_w * w->in_c, pitch = w->dilation_h * w->in_w * w->in_c;
    if (tw_window_whole(&next->at, w)) {
        tw_mve_rows(to, row, (const int8_t *)tw_pixel_corner(&next->at, w), pitch, w->k_h, row);
        return;
    }
    tw_mve_fill(to, next->gather.fill, w->k_h * row);
    const tw_inside inside = tw_inside_of(&next->at, w);
    if (!tw_inside_any(&inside)) return;
    tw_mve_rows(to + inside.top * row + inside.first * w->in_c, row,
                (const int8_t *)tw_pixel_corner(&next->at, w) + tw_window_tap(inside.top, inside.first, w), pitch,
                inside.bottom - inside.top, (inside.end - inside.first) * w->in_c);
}

/* The next two windows, or the same one twice: in the image itself, or in columns. */
TW_INLINE void tw_conv2d_mve_windows(const int8_t **first, const int8_t **second, int32_t both,
                                     tw_conv2d_mve_next *next) {
    const tw_window *w = next->gather.window;
    *first = next->columns, *second = next->columns + both * next->size;
    if (next->direct && next->x < next->in_place) {
        *first = next->x, *second = next->x + w->in_c;
        next->x += 2 * w->in_c;
    } else if (next->direct) {
        tw_mve_rows(next->columns, next->size, next->x, w->in_c, both + 1, w->in_c);
    } else {
#pragma GCC unroll 1
        for (int8_t *to = next->columns; to <= *second; to += next->size) {
            tw_conv2d_mve_window(to, next);
            tw_pixel_next(&next->at, w);
        }
    }
}

/* Clamps all outputs that are not yet. */
TW_INLINE void tw_conv2d_mve_clamp(void *y, const tw_window *w, const tw_epilogue_s8 *end) {
    if (end->low > INT8_MIN || end->high < INT8_MAX)
        tw_b16_clamp_all((int8_t *)y, end->low, end->high, tw_window_count(w) * w->out_c);
}

TW_KERNEL(tw_conv2d_mve_s8) {
    const tw_conv2d_mve_s8_params p = *params;
    const tw_gather g = {&p.window, p.window.in_c, p.in_zero, 0};
    const int32_t out_c = p.window.out_c;
    int8_t *y = (int8_t *)out[0];
    tw_conv2d_mve_next next = tw_conv2d_mve_first(in[0], scratch, TW_MVE_BLOCK * p.blocks, p.direct, &g);
    tw_mve_pair pair = {next.columns, next.columns, y, y, p.blocks, p.end.zero, 0};
    for (int32_t left = tw_window_count(&p.window); left > 0; left -= 2, y += 2 * out_c) {
        const int32_t both = left > 1;
        tw_conv2d_mve_windows(&pair.x0, &pair.x1, both, &next);
        pair.y0 = y, pair.y1 = y + both * out_c;
        tw_mve_run_pair(&pair, (const int32_t *)in[1], out_c, p.end.low == p.end.zero);
    }
    tw_conv2d_mve_clamp(out[0], &p.window, &p.end);
}

/* The same for windows of several pixels: for each row of outputs, the rows that its windows see are copied, column after
 * column, so that every window is one piece and none leaves the image. in: x, fours of k = k_w * k_h * in_c, at uint8 [16]:
 * where the bytes of neighbouring pixels go if in_c < 16; else in_c is a multiple of 16. No dilation along rows. scratch:
 * int8 [1 if out_w is even, else 2][band]; lanes: the bytes of whole pixels in a vector. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t blocks, in_zero, band, lanes;
} tw_conv2d_band_mve_s8_params;

/* Copies a row of pixels to places that lie step bytes apart. */
TW_INLINE void tw_conv2d_band_row(int8_t *to, const int8_t *x, int32_t step, const uint8_t *at,
                                  const tw_conv2d_band_mve_s8_params *p) {
    const int32_t in_c = p->window.in_c;
    if (in_c >= 16) {
        for (int32_t i = p->window.in_w; i > 0; --i, x += in_c, to += step)
            for (int32_t c = 0; c < in_c; c += 16) tw_b16_store(to + c, tw_b16_load(x + c, 16), 16);
        return;
    }
    const int32_t far = p->lanes / in_c * step;
#if defined(TW_MVE)
    const uint8x16_t places = vldrbq_u8(at);
    mve_pred16_t some = vctp8q((uint32_t)p->lanes);
    int32_t left = p->window.in_w * in_c;
    for (; left >= p->lanes; left -= p->lanes, x += p->lanes, to += far)
        vstrbq_scatter_offset_p_s8(to, places, vldrbq_z_s8(x, some), some);
    if (left > 0) {
        some = vctp8q((uint32_t)left);
        vstrbq_scatter_offset_p_s8(to, places, vldrbq_z_s8(x, some), some);
    }
#else
    for (int32_t left = p->window.in_w * in_c; left > 0; left -= p->lanes, x += p->lanes, to += far)
        for (int32_t i = 0; i < tw_min(left, p->lanes); ++i) to[at[i]] = x[i];
#endif
}

/* The band of a row of outputs whose windows begin in row top of the image x; fresh: nothing has been there yet. */
TW_INLINE void tw_conv2d_band(int8_t *band, const int8_t *x, int32_t top, int32_t fresh, const uint8_t *at,
                              const tw_conv2d_band_mve_s8_params *p) {
    const tw_window *w = &p->window;
    const int32_t first = tw_first_inside(top, w->dilation_h);
    const int32_t end = tw_end_inside(top, w->dilation_h, w->k_h, w->in_h), step = w->k_h * w->in_c;
    if (fresh || first > 0 || end < w->k_h) tw_b16_fill(band, p->in_zero, p->band);
    band += (w->pad_w * w->k_h + first) * w->in_c;
    x += (top + first * w->dilation_h) * w->in_w * w->in_c;
    for (int32_t ky = first; ky < end; ++ky, band += w->in_c, x += w->dilation_h * w->in_w * w->in_c)
        tw_conv2d_band_row(band, x, step, at, p);
}

TW_KERNEL(tw_conv2d_band_mve_s8) {
    const tw_conv2d_band_mve_s8_params p = *params;
    const tw_window *w = &p.window;
    const int32_t step = w->stride_w * w->k_h * w->in_c, lines = w->batches * w->out_h;
    const int8_t *x = (const int8_t *)in[0], *first = NULL;
    int8_t *y = (int8_t *)out[0], *band = (int8_t *)scratch, *other = band + (w->out_w % 2 ? p.band : 0);
    tw_mve_pair pair = {band, band, y, y, p.blocks, p.end.zero, 0};
    for (int32_t line = 0, top = -w->pad_h, row = 0; line < lines; ++line, ++row, top += w->stride_h) {
        if (row == w->out_h) row = 0, top = -w->pad_h, x += tw_window_image(w);
        tw_conv2d_band(band, x, top, line == 0 || (band != other && line == 1), (const uint8_t *)in[2], &p);
        const int8_t *at = band;
        for (int32_t left = w->out_w; left > 0; --left, at += step) {
            if (!first) {
                first = at;
                if (left > 1 || line + 1 < lines) continue; /* the last pixel of all goes alone */
            }
            const int32_t both = at != first;
            pair.x0 = first, pair.x1 = at;
            pair.y0 = y, pair.y1 = y + both * w->out_c;
            tw_mve_run_pair(&pair, (const int32_t *)in[1], w->out_c, p.end.low == p.end.zero);
            y += 2 * w->out_c;
            first = NULL;
        }
        int8_t *const used = band;
        band = other, other = used;
    }
    tw_conv2d_mve_clamp(out[0], w, &p.end);
}

/* CONV_2D with groups, or with gaps between the taps of a row: fours of every group in turn, of k = k_h * k_w * bytes,
 * where bytes and out are the channels of a group. scratch: as above. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t blocks, in_zero, bytes, out;
} tw_conv2d_groups_mve_s8_params;

/* The window at a pixel, of each tap the channels of one group, at->image, as a column. */
TW_INLINE void tw_conv2d_groups_mve_window(int8_t *to, const tw_pixel *at, const tw_gather *g) {
    const tw_window *w = g->window;
    const int32_t across = w->dilation_w * w->in_c;
    tw_inside inside = {0, w->k_h, 0, w->k_w};
    if (!tw_window_whole(at, w)) {
        tw_mve_fill(to, g->fill, w->k_h * w->k_w * g->bytes);
        inside = tw_inside_of(at, w);
        if (!tw_inside_any(&inside)) return;
    }
    const int8_t *from = (const int8_t *)tw_pixel_corner(at, w) + tw_window_tap(inside.top, inside.first, w);
    to += (inside.top * w->k_w + inside.first) * g->bytes;
    for (int32_t ky = inside.top; ky < inside.bottom;
         ++ky, to += w->k_w * g->bytes, from += w->dilation_h * w->in_w * w->in_c)
        tw_mve_rows(to, g->bytes, from, across, inside.end - inside.first, g->bytes);
}

TW_KERNEL(tw_conv2d_groups_mve_s8) {
    const tw_conv2d_groups_mve_s8_params p = *params;
    const tw_gather g = {&p.window, p.bytes, p.in_zero, 0};
    const int32_t size = TW_MVE_BLOCK * p.blocks, out_c = p.window.out_c, words = (p.out + 3) / 4 * (9 + size);
    int8_t *y = (int8_t *)out[0], *columns = (int8_t *)scratch;
    tw_pixel at = tw_pixel_first(in[0], 1, &p.window);
    for (int32_t left = tw_window_count(&p.window); left > 0; left -= 2, y += 2 * out_c) {
        const int32_t both = left > 1;
        const int32_t *fours = (const int32_t *)in[1];
        tw_pixel first = at, second = at;
        tw_pixel_next(&second, &p.window);
        at = second;
        tw_pixel_next(&at, &p.window);
        for (int32_t c = 0; c < out_c; c += p.out, fours += words, first.image += p.bytes, second.image += p.bytes) {
            tw_conv2d_groups_mve_window(columns, &first, &g);
            if (both) tw_conv2d_groups_mve_window(columns + size, &second, &g);
            tw_mve_pair pair = {columns, columns + both * size, y + c, y + both * out_c + c, p.blocks, p.end.zero, 0};
            tw_mve_run_pair(&pair, fours, p.out, p.end.low == p.end.zero);
        }
    }
    tw_conv2d_mve_clamp(out[0], &p.window, &p.end);
}

/* TRANSPOSE_CONV. in: x, then fours of one phase after the other (window.h), by the tap that it begins with. out: y.
 * scratch: int8 [2, 16 * blocks] of the largest phase. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t in_zero;
} tw_transpose_conv_mve_s8_params;

/* One phase; y: its first output. */
TW_INLINE void tw_transpose_conv_mve_phase(const int8_t *x, const int32_t *fours, int8_t *y, const tw_phase *phase,
                                           int8_t *columns, const tw_transpose_conv_mve_s8_params *p) {
    const tw_window *w = &phase->window;
    const int32_t blocks = tw_phase_blocks(w, TW_MVE_BLOCK), out_c = w->out_c;
    const int32_t apart = p->window.stride_w * out_c;
    const tw_gather g = {w, w->in_c, p->in_zero, 0};
    tw_conv2d_mve_next next = tw_conv2d_mve_first(x, columns, TW_MVE_BLOCK * blocks, 0, &g);
    tw_mve_pair pair = {columns, columns, y, y, blocks, p->end.zero, 0};
    for (int32_t line = 0; line < w->batches * w->out_h; ++line) {
        int8_t *to = y + tw_phase_line(line, w, &p->window);
        for (int32_t left = w->out_w; left > 0; left -= 2, to += 2 * apart) {
            const int32_t both = left > 1;
            if (tw_phase_has_taps(w)) tw_conv2d_mve_windows(&pair.x0, &pair.x1, both, &next);
            pair.y0 = to, pair.y1 = to + both * apart;
            tw_mve_run_pair(&pair, fours, out_c, p->end.low == p->end.zero);
        }
    }
}

TW_KERNEL(tw_transpose_conv_mve_s8) {
    const tw_transpose_conv_mve_s8_params p = *params;
    const int32_t out_c = p.window.out_c;
    const int32_t *fours = (const int32_t *)in[1];
#pragma GCC unroll 1
    for (int32_t tap = 0; tap < p.window.stride_h * p.window.stride_w; ++tap) {
        const tw_phase phase = tw_phase_of(tap / p.window.stride_w, tap % p.window.stride_w, &p.window);
        tw_transpose_conv_mve_phase((const int8_t *)in[0], fours, (int8_t *)out[0] + tw_phase_offset(&phase, &p.window),
                                    &phase, (int8_t *)scratch, &p);
        fours += (out_c + 3) / 4 * (9 + TW_MVE_BLOCK * tw_phase_blocks(&phase.window, TW_MVE_BLOCK));
    }
    tw_conv2d_mve_clamp(out[0], &p.window, &p.end);
}

#endif
