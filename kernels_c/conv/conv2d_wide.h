/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D of int8 over 16 lanes: windows are read where they lie, in a padded copy of some rows of the image. */
#ifndef TW_CONV2D_WIDE_H
#define TW_CONV2D_WIDE_H

#include "../core/window.h"
#include "../isa/wide/eights.h"
#include "../isa/wide/pairs.h"
#include "../isa/wide/wide.h"

/* Places of pixels are padded to a multiple of this, which is one of TW_CONV_PIXELS at every level. */
#define TW_CONV_PLACES 24

/* A band is some rows of outputs. The rows of the image that it sees are copied with their padding, columns pixels each,
 * as bytes: uint8, x + 128. A row of a window's taps is runs runs of bytes (one, or with dilation one a tap), each padded
 * to run, a multiple of 4, with what follows; weights are packed (wide.h) for k = k_h * runs * run with zeros there.
 * pair: out_c is 8, out_w is even, and the lanes are the channels of two pixels side by side: weights and ends come twice.
 * in: x, w, bias and mult int32 and shift int8 [out_c padded to 16], the zero point and the 128 folded into the bias.
 * in_zero: the zero point. out: y. scratch: int32 [band * out_w padded to TW_CONV_PLACES] and [k / 4], uint8 [rows
 * that a band sees][columns][in_c], and 16 bytes. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t run, runs, columns, band, pair, in_zero, fast;
} tw_conv2d_wide_s8_params;

/* What a kernel is made for, a constant at every call: pairs of pixels; pixels copied as halves, int16, whose products
 * two of a lane are added at once instead of four (conv2d_avx2.h); eight products at once (isa/wide/eights.h); or, with
 * halves, int16 as input and output (conv2d_wide_s16.h), or weights of int8 (conv2d_simd128.h); some steps alone
 * (conv2d_sparse_wide.h). */
enum {
    TW_CONV_PAIR = 1,
    TW_CONV_HALVES = 2,
    TW_CONV_EIGHTS = 4,
    TW_CONV_WORDS = 8,
    TW_CONV_BYTES = 16,
    TW_CONV_SPARSE = 32
};

/* Whether isa/wide/pairs.h sums: where weights are bytes, and wherever that is fastest. */
#if defined(TW_WIDE_WASM)
#define TW_CONV_BY_PAIRS TW_CONV_HALVES
#else
#define TW_CONV_BY_PAIRS TW_CONV_BYTES
#endif

/* Bytes of a value of input or output. */
TW_INLINE int32_t tw_conv2d_value(int form) { return form & TW_CONV_WORDS ? 2 : 1; }

/* Bytes of a pixel's copy. */
TW_INLINE int32_t tw_conv2d_pixel(const tw_window *window, int form) {
    return form & TW_CONV_HALVES ? 2 * window->in_c : window->in_c;
}

/* acc += the products of four bytes at x, or in pairs of those behind it, too. */
TW_INLINE tw_acc tw_conv2d_step(tw_acc acc, const uint8_t *x, int32_t behind, const int8_t *w, int form) {
    if (form & TW_CONV_HALVES)
        return form & TW_CONV_PAIR ? tw_acc_dot2_pair(acc, x, behind, w) : tw_acc_dot2(acc, x, w);
    return form & TW_CONV_PAIR ? tw_acc_dot4_pair(acc, x, behind, w) : tw_acc_dot4(acc, x, w);
}

/* A band: its rows of the image; where in them the window of each vector of outputs begins, and how many there are; and
 * where from there four bytes of taps lie, step by step. count: steps, if these are some alone. */
typedef struct {
    const uint8_t *rows;
    const int32_t *places, *steps;
    int32_t vectors, count;
} tw_conv_band;

/* Steps that a window takes. */
TW_INLINE int32_t tw_conv2d_steps(const tw_conv2d_wide_s8_params *p) { return p->window.k_h * p->runs * p->run / 4; }

/* The same of a band. */
TW_INLINE int32_t tw_conv2d_count(const tw_conv_band *band, int form, const tw_conv2d_wide_s8_params *p) {
    return form & TW_CONV_SPARSE ? band->count : tw_conv2d_steps(p);
}

/* The sums of one pixel and block: four vectors of sums, so that additions do not wait for each other. */
TW_INLINE tw_acc tw_conv2d_row_sums(const uint8_t *x, const int32_t *steps, int32_t count, tw_acc start,
                                    const int8_t *w, int form) {
    tw_acc acc[4] = {start, tw_acc_zero(), tw_acc_zero(), tw_acc_zero()};
    int32_t lanes[4][TW_LANES], k = 0;
    for (; k + 4 <= count; k += 4, w += 16 * TW_LANES)
        for (int i = 0; i < 4; ++i) acc[i] = tw_conv2d_step(acc[i], x + steps[k + i], 0, w + 4 * TW_LANES * i, form);
    for (; k < count; ++k, w += 4 * TW_LANES) acc[0] = tw_conv2d_step(acc[0], x + steps[k], 0, w, form);
    for (int i = 0; i < 4; ++i) memcpy(lanes[i], &acc[i], sizeof lanes[i]);
    for (int i = 0; i < TW_LANES; ++i)
        lanes[0][i] = tw_add(tw_add(lanes[0][i], lanes[1][i]), tw_add(lanes[2][i], lanes[3][i]));
    return tw_acc_load(lanes[0]);
}

/* sums [pixels][blocks] = what each block begins with + the windows from vector first on . the blocks of weights.
 * pixels and blocks are constants. */
TW_INLINE void tw_conv2d_wide_sums(tw_acc *sums, const tw_conv_band *band, int32_t first, const tw_acc *start,
                                   const int8_t *w, int pixels, int blocks, int form,
                                   const tw_conv2d_wide_s8_params *p) {
    const int32_t behind = p->window.stride_w * tw_conv2d_pixel(&p->window, form),
                  count = tw_conv2d_count(band, form, p);
    const uint8_t *x[TW_CONV_PIXELS];
    tw_acc acc[TW_CONV_PIXELS][TW_CONV_BLOCKS];
    for (int r = 0; r < pixels; ++r) x[r] = band->rows + band->places[first + r];
    if (form & TW_CONV_EIGHTS) {
        tw_eights_sums(sums, x, band->steps, count, start, w, pixels, blocks);
        return;
    }
    if (form & TW_CONV_BY_PAIRS) {
        tw_pairs_sums(sums, x, form & TW_CONV_PAIR ? behind : 0, band->steps, count, start, w, pixels, blocks,
                      form & TW_CONV_BYTES ? 1 : 2);
        return;
    }
    if (form & TW_CONV_SPARSE && pixels == 1) {
        *sums = tw_conv2d_row_sums(x[0], band->steps, count, *start, w, form);
        return;
    }
    for (int r = 0; r < pixels; ++r)
        for (int b = 0; b < blocks; ++b) acc[r][b] = start[b];
    TW_ROLLED
    for (int32_t k = 0; k < count; ++k, w += 4 * TW_LANES) {
        const int32_t step = band->steps[k];
        for (int r = 0; r < pixels; ++r)
            for (int b = 0; b < blocks; ++b)
                acc[r][b] = tw_conv2d_step(acc[r][b], x[r] + step, behind, w + 4 * TW_LANES * b * count, form);
    }
    for (int r = 0; r < pixels; ++r)
        for (int b = 0; b < blocks; ++b) sums[r * blocks + b] = acc[r][b];
}

/* Blocks of weights, from channel c on, what their sums begin with, and their ends; of int16 multipliers alone. */
typedef struct {
    const int8_t *w;
    tw_acc start[TW_CONV_BLOCKS];
    tw_ends ends[TW_CONV_BLOCKS];
    int32_t c;
} tw_conv_blocks;

/* pixels x blocks vectors of outputs from the band's vector first on, those of them that there are. */
TW_INLINE void tw_conv2d_wide_tile(const tw_conv_band *band, int32_t first, const tw_conv_blocks *of, int8_t *y,
                                   int pixels, int blocks, int form, const tw_channels_s8 *channels,
                                   const tw_conv2d_wide_s8_params *p) {
    const int32_t step = form & TW_CONV_PAIR ? 2 * p->window.out_c : p->window.out_c;
    const tw_tile_out out = {y + (first * step + of->c) * tw_conv2d_value(form), step, band->vectors - first,
                             step - of->c};
    tw_acc sums[TW_CONV_PIXELS * TW_CONV_BLOCKS];
    tw_conv2d_wide_sums(sums, band, first, of->start, of->w, pixels, blocks, form, p);
    if (form & TW_CONV_WORDS)
        tw_tile_end_s16(&out, sums, pixels, blocks, of->ends, &channels->end);
    else
        tw_tile_end(&out, sums, pixels, blocks, of->ends, tw_ending(channels));
}

/* blocks blocks of channels from c on, of all of a band; w: the weights of channel 0 or, of some steps alone, of c. */
TW_INLINE void tw_conv2d_wide_blocks(const tw_conv_band *band, int32_t c, const int8_t *w, int8_t *y, int blocks,
                                     int form, const tw_channels_s8 *channels, const tw_conv2d_wide_s8_params *p) {
    const int few = (TW_CONV_PIXELS + 1) / 2;
    const int32_t k = (form & TW_CONV_BYTES ? 2 : 4) * tw_conv2d_count(band, form, p);
    tw_conv_blocks of;
    int32_t first = 0;
    of.w = form & TW_CONV_SPARSE ? w : w + c * k;
    of.c = c;
    for (int b = 0; b < blocks; ++b) {
        of.start[b] = tw_acc_load(channels->bias + c + TW_LANES * b);
        if (!(form & (TW_CONV_HALVES | TW_CONV_EIGHTS)))
            of.start[b] = tw_acc_start(of.start[b], of.w + TW_LANES * b * k, k);
    }
    /* Loops of their own: gcc 12 gave ic_int8 10 % more time where the branch was in the loop above. */
    if (form & TW_CONV_WORDS)
        for (int b = 0; b < blocks; ++b) of.ends[b].mult = tw_acc_load(channels->mult + c + TW_LANES * b);
    else
        for (int b = 0; b < blocks; ++b) of.ends[b] = tw_ends_load(channels, c + TW_LANES * b);
    if (form & TW_CONV_SPARSE && band->vectors == 1) {
        tw_conv2d_wide_tile(band, 0, &of, y, 1, 1, form, channels, p);
        return;
    }
    for (; first + few < band->vectors; first += TW_CONV_PIXELS)
        tw_conv2d_wide_tile(band, first, &of, y, TW_CONV_PIXELS, blocks, form, channels, p);
    if (first < band->vectors) tw_conv2d_wide_tile(band, first, &of, y, few, blocks, form, channels, p);
}

/* All channels of a band. */
TW_INLINE void tw_conv2d_wide_band(const tw_conv_band *band, const int8_t *w, int8_t *y, int form,
                                   const tw_channels_s8 *channels, const tw_conv2d_wide_s8_params *p) {
    int32_t c = 0;
    if (form & TW_CONV_SPARSE) {
        const int32_t *kept = band->steps;
        for (; c < p->window.out_c; c += TW_LANES, w += 4 * TW_LANES * *kept, kept += 1 + *kept) {
            const tw_conv_band own = {band->rows, band->places, kept + 1, band->vectors, *kept};
            tw_conv2d_wide_blocks(&own, c, w, y, 1, form, channels, p);
        }
        return;
    }
    if (p->pair) {
        tw_conv2d_wide_blocks(band, 0, w, y, 1, form | TW_CONV_PAIR, channels, p);
        return;
    }
    for (; c + TW_LANES * (TW_CONV_BLOCKS - 1) < p->window.out_c; c += TW_LANES * TW_CONV_BLOCKS)
        tw_conv2d_wide_blocks(band, c, w, y, TW_CONV_BLOCKS, form, channels, p);
    for (; c < p->window.out_c; c += TW_LANES) tw_conv2d_wide_blocks(band, c, w, y, 1, form, channels, p);
}

/* Fills in the places and the steps; behind the last place stands that one again. */
TW_INLINE void tw_conv2d_wide_places(int32_t *places, int32_t *steps, int form, const tw_conv2d_wide_s8_params *p) {
    const tw_window *window = &p->window;
    const int32_t pixel = tw_conv2d_pixel(window, form), row = p->columns * pixel;
    int32_t count = 0;
    for (int32_t oy = 0; oy < p->band; ++oy)
        for (int32_t ox = 0; ox < window->out_w; ox += 1 + p->pair)
            places[count++] = oy * window->stride_h * row + ox * window->stride_w * pixel;
    for (; count % TW_CONV_PLACES; ++count) places[count] = places[count - 1];
    for (int32_t ky = 0; ky < window->k_h; ++ky)
        for (int32_t kx = 0; kx < p->runs; ++kx)
            for (int32_t i = 0; i < p->run; i += 4)
                *steps++ = ky * window->dilation_h * row + kx * window->dilation_w * pixel + i;
}

/* Copies count values of the image. */
TW_INLINE void tw_conv2d_wide_copy(uint8_t *to, const int8_t *x, int32_t count, int form, int32_t zero) {
    int16_t *halves = (int16_t *)(void *)to;
    if (form & TW_CONV_WORDS)
        memcpy(to, x, 2 * (size_t)count);
    else if (form & TW_CONV_HALVES)
        for (int32_t i = 0; i < count; ++i) halves[i] = (int16_t)(x[i] - zero);
    else
        tw_bias128(to, x, count);
}

/* Writes count values of its padding. */
TW_INLINE void tw_conv2d_wide_pad(uint8_t *to, int32_t count, int form, int32_t zero) {
    if (form & TW_CONV_HALVES)
        memset(to, 0, 2 * (size_t)count);
    else
        memset(to, zero + 128, (size_t)count);
}

/* Copies rows of the image, the first of them iy; their padding to the left and right is there. Windows of one row see
 * none of the rows between them. */
TW_INLINE void tw_conv2d_wide_fill(uint8_t *to, const int8_t *x, int32_t iy, int32_t rows, int form,
                                   const tw_conv2d_wide_s8_params *p) {
    const tw_window *window = &p->window;
    const int32_t pixel = tw_conv2d_pixel(window, form), row = window->in_w * window->in_c;
    const int32_t count = tw_min(row, (p->columns - window->pad_w) * window->in_c);
    const int32_t apart = window->k_h == 1 ? window->stride_h : 1;
    for (int32_t end = iy + rows; iy < end; iy += apart, to += apart * p->columns * pixel) {
        if (tw_row_inside(iy, window))
            tw_conv2d_wide_copy(to + window->pad_w * pixel, x + iy * row * tw_conv2d_value(form), count, form,
                                p->in_zero);
        else
            tw_conv2d_wide_pad(to, p->columns * window->in_c, form, p->in_zero);
    }
}

/* A convolution; form: TW_CONV_HALVES, with or without TW_CONV_WORDS, TW_CONV_EIGHTS or 0. */
TW_INLINE void tw_conv2d_wide(const tw_conv2d_wide_s8_params *params, const void *const *in, void *const *out,
                              void *scratch, int form) {
    const tw_conv2d_wide_s8_params p = *params;
    const tw_window *window = &p.window;
    const int32_t value = tw_conv2d_value(form);
    const tw_channels_s8 channels = {(const int32_t *)in[2],
                                     (const int32_t *)in[3],
                                     form & TW_CONV_WORDS ? NULL : (const int8_t *)in[4],
                                     p.fast,
                                     0,
                                     {p.end.zero, p.end.low, p.end.high}};
    const int32_t reach = (window->k_h - 1) * window->dilation_h + 1, wide = window->out_w / (1 + p.pair);
    const int32_t places = (p.band * wide + TW_CONV_PLACES - 1) / TW_CONV_PLACES * TW_CONV_PLACES;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    int32_t *steps = (int32_t *)scratch + places;
    uint8_t *copy = (uint8_t *)(steps + tw_conv2d_steps(&p));
    tw_conv2d_wide_places((int32_t *)scratch, steps, form, &p);
    if (p.columns > window->in_w)
        tw_conv2d_wide_pad(copy, ((p.band - 1) * window->stride_h + reach) * p.columns * window->in_c, form, p.in_zero);
    for (int32_t b = 0; b < window->batches; ++b, x += tw_window_image(window) * value)
        for (int32_t oy = 0; oy < window->out_h; oy += p.band) {
            const int32_t rows = tw_min(window->out_h - oy, p.band), top = oy * window->stride_h - window->pad_h;
            const int32_t *const of = form & TW_CONV_SPARSE ? (const int32_t *)in[5] : steps;
            const tw_conv_band band = {copy, (const int32_t *)scratch, of, rows * wide, 0};
            tw_conv2d_wide_fill(copy, x, top, (rows - 1) * window->stride_h + reach, form, &p);
            tw_conv2d_wide_band(&band, (const int8_t *)in[1], y, form, &channels, &p);
            y += rows * window->out_w * window->out_c * value;
        }
}

TW_KERNEL(tw_conv2d_wide_s8) { tw_conv2d_wide(params, in, out, scratch, 0); }

/* The same without pairs, for i8mm: weights are packed [out / 16][k / 8][16][8], and run is a multiple of 8. */
typedef tw_conv2d_wide_s8_params tw_conv2d_i8mm_s8_params;

TW_KERNEL(tw_conv2d_i8mm_s8) { tw_conv2d_wide(params, in, out, scratch, TW_CONV_EIGHTS); }

#endif
