/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, int8, of 3 x 3 taps one pixel apart, by Winograd's F(2 x 2, 3 x 3): a tile of 2 x 2 outputs takes 16
 * multiplications of an input channel instead of 36.
 *
 * d are the 4 x 4 inputs of a tile, g the taps. Rows and columns of d are transformed by (d0 - d2, d1 + d2, d2 - d1,
 * d3 - d1), those of g by (2 g0, g0 + g1 + g2, g0 - g1 + g2, 2 g2). Both are multiplied place by place and summed over
 * the input channels; rows and columns of the sums become (m0 + m1 + m2, m1 - m2 + m3). That is four times the
 * convolution, exactly: nothing was divided. Sums may wrap on the way, if four times the convolution fits 32 bits.
 *
 * Places are column by column, the rows of a column in the order 1, 2, 0, 3: then the sums of row 0 may go on from
 * m1 + m2, those of row 3 from m1 - m2. */
#ifndef TW_WINOGRAD_H
#define TW_WINOGRAD_H

#include "../core/window.h"
#include "../isa/dsp/dsp_tile.h"

/* Tiles of a panel, [16][depth][3] int16 or int32 in an order that a kernel chooses. */
#define TW_WINOGRAD_TILES 3

/* in: x, then weights of pairs of channels and ends (dsp_tile.h); the input zero point is folded into the biases;
 * padding holds in_zero. out: y. depth: in_c or, if channels are taken four at a time, in_c rounded up to 4. scratch:
 * int8 [4][8][in_c] and 4 bytes, inputs under tiles that lie side by side, then the panel. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t depth, in_zero;
} tw_winograd_s8_params;

/* Transforms tiles that lie side by side into a panel. from: their inputs; to the next row apart bytes, to the next pixel
 * pixel. */
typedef void tw_winograd_transform(void *panel, int32_t first, const int8_t *from, int32_t apart, int32_t pixel,
                                   int32_t depth, int32_t tiles);

/* The sums over all places of two output channels and the tiles of a panel, [4][2][2][3]: of every column the lower row
 * and the upper one, of both channels. Returns the weights that follow. */
typedef const void *tw_winograd_sums(const void *panel, const void *weights, int32_t depth, int32_t *sums);

/* Where the four outputs of a tile lie; right and below: 0 if there are none, so that those on the left and above
 * overwrite them. */
typedef struct {
    int8_t *y;
    int32_t right, below;
} tw_winograd_place;

/* Four times a sum of the convolution, and its bias, doubled, as an output. */
TW_INLINE int8_t tw_winograd_output(int32_t four, int32_t bias, const tw_dsp_channel *c) {
    return tw_dsp_output(tw_add(bias, four >> 1), c);
}

/* One channel of the tiles of a panel; m: their sums, columns 12 apart; bias: doubled. */
static TW_NOINLINE void tw_winograd_outputs(const int32_t *m, const tw_winograd_place *to, int32_t tiles,
                                            int32_t channel, int32_t bias, const tw_dsp_channel *end) {
    const tw_dsp_channel c = *end;
    for (const tw_winograd_place *const last = to + tiles; to != last; ++to, ++m) {
        int8_t *const y = to->y + channel, *const below = y + to->below;
        const int32_t right = to->right, p1 = m[18], p2 = m[30], q1 = m[12], q2 = m[24];
        below[right] = tw_winograd_output(tw_add(tw_subtract(q1, q2), m[36]), bias, &c);
        below[0] = tw_winograd_output(tw_add(tw_add(q1, q2), m[0]), bias, &c);
        y[right] = tw_winograd_output(tw_add(tw_subtract(p1, p2), m[42]), bias, &c);
        y[0] = tw_winograd_output(tw_add(tw_add(p1, p2), m[6]), bias, &c);
    }
}

/* All channels of the tiles of a panel. */
TW_INLINE void tw_winograd_panel(const void *panel, const tw_winograd_place *to, int32_t tiles, const void *const *in,
                                 const tw_winograd_s8_params *p, tw_winograd_sums *sum) {
    int32_t sums[48];
    const int32_t out = p->window.out_c;
    const tw_dsp_matrix m = {NULL, (const int32_t *)in[2], 0, out, out, p->end.zero};
    const void *w = in[1];
    const int32_t *ends = m.ends;
    for (int32_t c = 0; c < out; c += 2, ends += TW_DSP_ENDS) {
        w = sum(panel, w, p->depth, sums);
        for (int j = 1; j >= 0; --j) {
            if (c + j == out) continue;
            const tw_dsp_channel end = tw_dsp_end(ends, j, &m);
            tw_winograd_outputs(sums + TW_WINOGRAD_TILES * j, to, tiles, c + j, ends[j], &end);
        }
    }
}

/* Tiles that lie side by side, the first one's inputs at a pixel, into a panel: directly if they are inside the image,
 * and whole words if the depth counts those, else by way of a copy. */
TW_INLINE void tw_winograd_fill(void *panel, int32_t first, int8_t *copy, const tw_pixel *at, int32_t tiles,
                                const tw_winograd_s8_params *p, tw_winograd_transform *transform) {
    tw_window w = p->window;
    w.k_h = 4, w.k_w = 2 * tiles + 2;
    int32_t width = w.in_w;
    const int8_t *from = (const int8_t *)tw_pixel_corner(at, &w);
    if (w.in_c != p->depth || at->y < 0 || at->y + 4 > w.in_h || at->x < 0 || at->x + w.k_w > w.in_w) {
        const tw_gather g = {&w, w.in_c, p->in_zero, 0};
        tw_gather_window(copy, at, 0, &g);
        from = copy, width = w.k_w;
    }
    transform(panel, first, from, width * w.in_c, w.in_c, p->depth, tiles);
}

/* All of it. */
TW_INLINE void tw_winograd_s8(const tw_winograd_s8_params *params, const void *const *in, void *const *out,
                              void *scratch, tw_winograd_transform *transform, tw_winograd_sums *sum) {
    const tw_winograd_s8_params p = *params;
    const int32_t out_c = p.window.out_c, out_w = p.window.out_w, rows = p.window.batches * p.window.out_h;
    int8_t *const copy = (int8_t *)scratch, *const panel = copy + 32 * p.window.in_c + 4, *y = (int8_t *)out[0];
    tw_winograd_place to[TW_WINOGRAD_TILES];
    int32_t tiles = 0, row = 0;
    for (tw_pixel at = {(const int8_t *)in[0], 0, 0, 1}; row < rows;) {
        const int32_t columns = tw_min(out_w - at.x, 2 * (TW_WINOGRAD_TILES - tiles)), first = tiles;
        const int32_t below = at.y + 1 < p.window.out_h;
        const tw_pixel corner = {at.image, at.y - p.window.pad_h, at.x - p.window.pad_w, 1};
        for (int32_t x = at.x; x < at.x + columns; x += 2, ++tiles) {
            const tw_winograd_place place = {y + (row * out_w + x) * out_c, x + 1 < out_w ? out_c : 0,
                                             below ? out_w * out_c : 0};
            to[tiles] = place;
        }
        tw_winograd_fill(panel, first, copy, &corner, tiles - first, &p, transform);
        at.x += columns;
        if (at.x == out_w) {
            at.x = 0, at.y += 1 + below, row += 1 + below;
            if (at.y == p.window.out_h) at.y = 0, at.image += tw_window_image(&p.window);
        }
        if (tiles < TW_WINOGRAD_TILES && row < rows) continue;
        tw_winograd_panel(panel, to, tiles, in, &p, sum);
        tiles = 0;
    }
    tw_dsp_activation(y, tw_window_count(&p.window) * out_c, p.end.low, p.end.high);
}

#endif
