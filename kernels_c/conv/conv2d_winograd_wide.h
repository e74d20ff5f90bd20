/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, int8, of 3 x 3 taps one pixel apart, by Winograd's F(4 x 4, 3 x 3) over 16 lanes, where int16 is
 * multiplied anyway: AVX2, and NEON without SDOT; and with VNNI of layers of many channels. A tile of 4 x 4 outputs takes
 * 36 multiplications of an input channel instead of 144.
 *
 * d are the 6 x 6 inputs of a tile, g the taps. Rows and columns of d are transformed by
 *   (4 d0 - 5 d2 + d4, d4 - 4 d2 + d3 - 4 d1, d4 - 4 d2 - d3 + 4 d1, d4 - d2 + 2 d3 - 2 d1, d4 - d2 - 2 d3 + 2 d1,
 *    4 d1 - 5 d3 + d5),
 * those of g by (6 g0, -4 (g0 + g1 + g2), -4 (g0 - g1 + g2), g0 + 2 g1 + 4 g2, g0 - 2 g1 + 4 g2, 12 g2). Both fit int16:
 * 12,800 and 18,432. They are multiplied place by place and summed over the input channels; rows and columns of the sums
 * become (m0 + m1 + m2 + m3 + m4, m1 - m2 + 2 (m3 - m4), m1 + m2 + 4 (m3 + m4), m1 - m2 + 8 (m3 - m4) + 2 m5).
 * That is 24 * 24 = 9 * 64 times the convolution, exactly, modulo 2^32. The inverse of 9 makes it 64 times, so sums may
 * wrap on the way if 64 times the convolution fits 32 bits. */
#ifndef TW_CONV2D_WINOGRAD_WIDE_H
#define TW_CONV2D_WINOGRAD_WIDE_H

#include "../core/window.h"
#include "../isa/wide/shorts.h"
#include "../isa/wide/wide.h"

/* Places of a tile: column by column. */
#define TW_WINOGRAD_PLACES 36

/* 9 * TW_NINTH = 1 modulo 2^32. */
#define TW_NINTH 954437177

/* in: x, then int16 weights [out_c / 16][36][depth / 2][16][2], then bias and mult int32 and shift int8 [out_c padded to
 * 16], the zero point folded into the bias. in_zero: the zero point, what padding holds. out: y. depth: in_c rounded up to
 * 8. tiles: of a panel, a multiple of 6. scratch, from a multiple of 64 on: the panel, int16 [36][depth / TW_SHORTS]
 * [tiles][TW_SHORTS], depth rounded up to 16; sums of a block, int32 [tiles][36][16]; places, 32 bytes a tile; and int8
 * [6][out_w rounded up to 4, + 2][in_c], the inputs under a row of tiles, and 16 bytes. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t depth, tiles, in_zero, fast;
} tw_conv2d_winograd_wide_s8_params;

/* The outputs of a tile, as many of the 4 x 4 as there are. */
typedef struct {
    int8_t *y;
    int32_t rows, columns;
} tw_winograd_square;

/* Six vectors, step apart, transformed as inputs are. */
TW_INLINE void tw_winograd_six(tw_shorts *to, int step, const tw_shorts *d) {
    const tw_shorts a = d[4] - 4 * d[2], b = d[3] - 4 * d[1], c = d[4] - d[2], e = 2 * (d[3] - d[1]);
    to[0] = 4 * d[0] - 5 * d[2] + d[4];
    to[step] = a + b;
    to[2 * step] = a - b;
    to[3 * step] = c + e;
    to[4 * step] = c - e;
    to[5 * step] = 4 * d[1] - 5 * d[3] + d[5];
}

/* TW_SHORTS channels of tiles that lie side by side, transformed; place: from one place to the next. */
static TW_NOINLINE void tw_winograd_wide_transform(int16_t *to, int32_t place, const int8_t *x, int32_t apart,
                                                   int32_t pixel, int32_t tiles) {
    tw_shorts lines[6][6]; /* rows of columns */
    int column = 0;
    for (const int16_t *const end = to + TW_SHORTS * tiles; to != end; to += TW_SHORTS) {
        TW_ROLLED
        for (; column < 6; ++column, x += pixel) {
            tw_shorts d[6];
            for (int i = 0; i < 6; ++i) d[i] = tw_shorts_load(x + i * apart);
            tw_winograd_six(lines[0] + column, 6, d);
        }
        TW_ROLLED
        for (int i = 0; i < 6; ++i) {
            tw_shorts v[6];
            tw_winograd_six(v, 1, lines[i]);
            for (int j = 0; j < 6; ++j) tw_shorts_store(to + (6 * j + i) * place, v[j]);
            lines[i][0] = lines[i][4], lines[i][1] = lines[i][5];
        }
        column = 2;
    }
}

/* The sums of a block of 16 channels over all places: of each tile 36 vectors. */
static TW_NOINLINE void tw_winograd_wide_sums(tw_acc *sums, const int16_t *v, const int8_t *w, int32_t tiles,
                                              int32_t depth, int32_t of) {
    const int32_t place = (depth + TW_SHORTS - 1) / TW_SHORTS * TW_SHORTS * of;
    for (const tw_acc *const end = sums + TW_WINOGRAD_PLACES; sums != end;
         ++sums, v += place, w += 2 * TW_LANES * depth) {
        const int16_t *x = v;
        tw_acc *to = sums;
        int32_t t = 0;
        TW_ROLLED
        for (; t + TW_SHORTS_FEW < tiles; t += TW_SHORTS_TILES) {
            tw_shorts_sums(to, TW_WINOGRAD_PLACES, x, w, depth, of, TW_SHORTS_TILES);
            x += TW_SHORTS * TW_SHORTS_TILES, to += TW_WINOGRAD_PLACES * TW_SHORTS_TILES;
        }
        if (t < tiles) tw_shorts_sums(to, TW_WINOGRAD_PLACES, x, w, depth, of, TW_SHORTS_FEW);
    }
}

/* Six sums, step apart, transformed to four. */
TW_INLINE void tw_winograd_four(tw_acc *to, const tw_acc *m, int step) {
    const tw_acc s = tw_acc_plus(m[step], m[2 * step]), d = tw_acc_minus(m[step], m[2 * step]);
    const tw_acc s2 = tw_acc_plus(m[3 * step], m[4 * step]), d2 = tw_acc_minus(m[3 * step], m[4 * step]);
    const tw_acc e = tw_acc_plus(d2, d2), last = tw_acc_plus(m[5 * step], m[5 * step]);
    to[0] = tw_acc_plus(tw_acc_plus(m[0], s), s2);
    to[1] = tw_acc_plus(d, e);
    to[2] = tw_acc_plus(s, tw_acc_left(s2, 2));
    to[3] = tw_acc_plus(tw_acc_plus(d, tw_acc_left(e, 2)), last);
}

/* The outputs of each tile, channels from c on; m: their sums. */
TW_INLINE void tw_winograd_wide_outputs(const tw_acc *m, const tw_winograd_square *to, int32_t tiles, int32_t c,
                                        int ending, const tw_channels_s8 *channels,
                                        const tw_conv2d_winograd_wide_s8_params *p) {
    const tw_ends ends = tw_ends_load(channels, c);
    const tw_acc bias = tw_acc_load(channels->bias + c);
    const int32_t out_c = p->window.out_c, count = out_c - c;
    TW_ROLLED
    for (const tw_winograd_square *const last = to + tiles; to != last; ++to, m += TW_WINOGRAD_PLACES) {
        tw_acc lines[6][4], row[4];
        int8_t *y = to->y + c;
        TW_ROLLED
        for (int j = 0; j < 6; ++j) tw_winograd_four(lines[j], m + 6 * j, 1);
        TW_ROLLED
        for (int i = 0; i < to->rows; ++i, y += p->window.out_w * out_c) {
            tw_winograd_four(row, lines[0] + i, 4);
            TW_ROLLED
            for (int j = 0; j < to->columns; ++j)
                tw_acc_end(y + j * out_c, tw_acc_plus(tw_acc_times_right(row[j], TW_NINTH, 6), bias), &ends, ending,
                           count);
        }
    }
}

/* All channels of the tiles of a panel. */
static TW_NOINLINE void tw_winograd_wide_panel(const int16_t *panel, tw_acc *sums, const tw_winograd_square *to,
                                               int32_t tiles, const int8_t *w, const tw_channels_s8 *channels,
                                               const tw_conv2d_winograd_wide_s8_params *p) {
    const int ending = tw_ending(channels);
    for (int32_t c = 0; c < p->window.out_c; c += TW_LANES, w += 2 * TW_LANES * TW_WINOGRAD_PLACES * p->depth) {
        tw_winograd_wide_sums(sums, panel, w, tiles, p->depth, p->tiles);
        if (ending == TW_ENDS_RELU)
            tw_winograd_wide_outputs(sums, to, tiles, c, TW_ENDS_RELU, channels, p);
        else if (ending == TW_ENDS_FAST)
            tw_winograd_wide_outputs(sums, to, tiles, c, TW_ENDS_FAST, channels, p);
        else
            tw_winograd_wide_outputs(sums, to, tiles, c, TW_ENDS_SLOW, channels, p);
    }
}

/* Copies the six rows of the image from iy on, columns pixels each, padding among them. */
TW_INLINE void tw_winograd_wide_copy(int8_t *to, const int8_t *x, int32_t iy, int32_t columns,
                                     const tw_conv2d_winograd_wide_s8_params *p) {
    const tw_window *window = &p->window;
    const int32_t row = columns * window->in_c, left = window->pad_w * window->in_c;
    const int32_t count = tw_min(window->in_w * window->in_c, row - left);
    for (int32_t end = iy + 6; iy < end; ++iy, to += row) {
        memset(to, p->in_zero, (size_t)row);
        if (tw_row_inside(iy, window)) memcpy(to + left, x + iy * window->in_w * window->in_c, (size_t)count);
    }
}

TW_KERNEL(tw_conv2d_winograd_wide_s8) {
    const tw_conv2d_winograd_wide_s8_params p = *params;
    const tw_window *window = &p.window;
    const tw_channels_s8 channels = {(const int32_t *)in[2],
                                     (const int32_t *)in[3],
                                     (const int8_t *)in[4],
                                     p.fast,
                                     0,
                                     {p.end.zero, p.end.low, p.end.high}};
    const int32_t columns = (window->out_w + 3) / 4 * 4 + 2, in_c = window->in_c, out_c = window->out_c;
    const int32_t place = (p.depth + TW_SHORTS - 1) / TW_SHORTS * TW_SHORTS * p.tiles;
    int8_t *const aligned = (int8_t *)scratch + (-(uintptr_t)scratch & 63);
    int16_t *const panel = (int16_t *)(void *)aligned;
    tw_acc *const sums = (tw_acc *)(void *)(aligned + (p.depth + 15) / 16 * 16 * p.tiles * 2 * TW_WINOGRAD_PLACES);
    tw_winograd_square *const to = (tw_winograd_square *)(void *)(sums + TW_WINOGRAD_PLACES * p.tiles);
    int8_t *const copy = (int8_t *)to + 32 * p.tiles;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    int32_t tiles = 0;
    for (int32_t b = 0; b < window->batches; ++b, x += tw_window_image(window))
        for (int32_t oy = 0; oy < window->out_h; oy += 4) {
            const int32_t rows = tw_min(4, window->out_h - oy);
            tw_winograd_wide_copy(copy, x, oy - window->pad_h, columns, &p);
            for (int32_t ox = 0; ox < window->out_w;) {
                const int32_t count = tw_min(p.tiles - tiles, (window->out_w - ox + 3) / 4);
                for (int32_t c = 0; c < p.depth; c += TW_SHORTS)
                    tw_winograd_wide_transform(panel + c * p.tiles + tiles * TW_SHORTS, place, copy + ox * in_c + c,
                                               columns * in_c, in_c, count);
                for (int32_t end = tiles + count; tiles < end; ++tiles, ox += 4) {
                    const tw_winograd_square square = {y + ox * out_c, rows, tw_min(4, window->out_w - ox)};
                    to[tiles] = square;
                }
                if (tiles < p.tiles) continue;
                tw_winograd_wide_panel(panel, sums, to, tiles, (const int8_t *)in[1], &channels, &p);
                tiles = 0;
            }
            y += rows * window->out_w * out_c;
        }
    if (tiles) tw_winograd_wide_panel(panel, sums, to, tiles, (const int8_t *)in[1], &channels, &p);
}

#endif
