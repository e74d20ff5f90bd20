/* SPDX-License-Identifier: Apache-2.0 */
/* DEPTHWISE_CONV_2D over Helium, int8, multiplier 1, dilation 1: 16 channels of a pixel at a time, or 8 of two
 * neighbours. Rows of the image go to scratch with their padding, so that no window meets a border. */
#ifndef TW_DEPTHWISE_CONV2D_MVE_H
#define TW_DEPTHWISE_CONV2D_MVE_H

#include "../core/epilogue.h"
#include "../core/window.h"
#include "../isa/mve/mve_s8.h"

/* in: x, constants int8 [blocks][TW_BLOCK_TAPS + 16 * k_h * k_w] (mve_s8.h) with the input zero point folded into the
 * bias; blocks: in_c / 16 rounded up. No weight is -128; sums and results before clamping fit int32; shift -31..0.
 * twice (in_c 8, stride_w 1): two neighbouring pixels share a vector, and constants stand twice. row: bytes of a row in
 * scratch, 16 per pixel. out: y, which may be x if it has its shape. scratch: int8 [k_h][row]. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t twice, row, in_zero;
} tw_depthwise_conv2d_mve_s8_params;

/* The same for windows of 3 x 3, shifts of -31..-1 and outputs clamped to -128..127. */
typedef tw_depthwise_conv2d_mve_s8_params tw_depthwise_conv2d_nine_mve_s8_params;

/* Copies row i of the image to its place in scratch, between its padding; x: the image at the first of the channels. */
TW_INLINE void tw_depthwise_keep(int8_t *to, const int8_t *x, int32_t i, int32_t channels,
                                 const tw_depthwise_conv2d_mve_s8_params *p) {
    if (!tw_row_inside(i, &p->window)) {
        tw_b16_fill(to, p->in_zero, p->row);
        return;
    }
    x += i * p->window.in_w * p->window.in_c;
    to += p->window.pad_w * 16;
    if (p->twice && p->window.pad_w > 0) tw_b16_store(to - 8, tw_b16_load(x, 8), 8);
    for (int32_t j = p->window.in_w; j > 0; --j, x += p->window.in_c, to += 16) {
        const int32_t count = p->twice ? 8 * j : channels;
        tw_b16_store(to, tw_b16_load(x, count), p->twice ? count : 16);
    }
}

/* Sums of a window; x: its first row in scratch, k: the constants. again: NULL, or how many taps come once more, then row
 * and column of each; their weights lie behind the others. */
TW_INLINE tw_sum16 tw_depthwise_window(const int8_t *rows, const int8_t *x, const int8_t *k, const int8_t *again,
                                       const tw_depthwise_conv2d_mve_s8_params *p) {
    const int8_t *w = k + TW_BLOCK_TAPS, *first = x, *end = rows + p->window.k_h * p->row;
    tw_sum16 s = tw_sum16_bias(k);
    for (int32_t ky = 0; ky < p->window.k_h; ++ky, x += p->row) {
        if (x >= end) x -= p->window.k_h * p->row;
        const int8_t *tap = x;
        for (int32_t left = p->window.k_w; left > 1; left -= 2, tap += 32, w += 32) tw_sum16_pair(&s, tap, tap + 16, w);
        if (p->window.k_w % 2) {
            tw_sum16_tap(&s, tap, w);
            w += 16;
        }
    }
    for (int32_t left = again ? *again : 0; left > 0; --left, w += 16) {
        const int32_t ky = *++again, kx = *++again;
        const int8_t *row = first + ky * p->row;
        tw_sum16_tap(&s, row + 16 * kx - (row >= end ? p->window.k_h * p->row : 0), w);
    }
    return s;
}

/* The same of a window of 3 x 3 with its rows at x, y and z. */
TW_INLINE tw_sum16 tw_depthwise_window_nine(const tw_nine_row *row, const int8_t *again) {
    const int8_t *const rows[3] = {row->x, row->y, row->z}, *w = row->k + TW_BLOCK_TAPS;
    tw_sum16 s = tw_sum16_bias(row->k);
    tw_sum16_pair(&s, row->x, row->x + 16, w);
    tw_sum16_pair(&s, row->x + 32, row->y, w + 32);
    tw_sum16_pair(&s, row->y + 16, row->y + 32, w + 64);
    tw_sum16_pair(&s, row->z, row->z + 16, w + 96);
    tw_sum16_tap(&s, row->z + 32, w + 128);
    w += 9 * 16;
    for (int32_t left = *again; left > 0; --left, again += 2, w += 16)
        tw_sum16_tap(&s, rows[again[1]] + 16 * again[2], w);
    return s;
}

/* A row of outputs by windows of any size; lanes: how many of a vector are used. */
TW_INLINE void tw_depthwise_across(const int8_t *rows, tw_nine_row row, int32_t last, const int8_t *again,
                                   const tw_depthwise_conv2d_mve_s8_params *p) {
    for (; row.count > 0; --row.count, row.x += row.step, row.out += row.jump) {
        const tw_b16 v = tw_sum16_requantize(tw_depthwise_window(rows, row.x, row.k, again, p), row.k, row.zero);
        tw_b16_store(row.out, tw_b16_clamp(v, p->end.low, p->end.high), row.count > 1 ? row.lanes : last);
    }
}

/* The same by windows of 3 x 3. */
TW_INLINE void tw_depthwise_across_nine(const int8_t *rows, tw_nine_row row, int32_t last, const int8_t *again,
                                        const tw_depthwise_conv2d_mve_s8_params *p) {
    const int8_t *end = rows + 3 * p->row;
    row.y = row.x + p->row < end ? row.x + p->row : rows;
    row.z = row.y + p->row < end ? row.y + p->row : rows;
    if (again && *again) {
        for (; row.count > 0; --row.count, row.x += row.step, row.y += row.step, row.z += row.step, row.out += row.jump)
            tw_b16_store(row.out, tw_sum16_requantize(tw_depthwise_window_nine(&row, again), row.k, row.zero),
                         row.count > 1 ? row.lanes : last);
        return;
    }
    const int32_t steps = row.count, odd = last != row.lanes;
    row.count = steps - odd;
    if (row.count > 0) tw_sum16_nine(&row);
    if (odd) {
        row.x += row.count * row.step;
        row.y += row.count * row.step;
        row.z += row.count * row.step;
        row.out += row.count * row.jump;
        row.count = 1;
        row.lanes = last;
        tw_sum16_nine(&row);
    }
}

/* All outputs of one block of channels with the constants k; x and y point to its first channel. */
TW_INLINE void tw_depthwise_block(const int8_t *x, const int8_t *k, int8_t *y, int8_t *rows, int32_t channels,
                                  int32_t nine, const int8_t *again, const tw_depthwise_conv2d_mve_s8_params *p) {
    const int32_t pixels = p->twice ? 2 : 1, steps = (p->window.out_w + pixels - 1) / pixels;
    const int32_t last = p->twice && p->window.out_w % 2 ? channels : pixels * channels;
    int32_t kept = -p->window.pad_h; /* the first row of the image that is not in scratch */
    int8_t *oldest = rows;           /* the place that the next row takes */
    for (int32_t oy = 0, top = -p->window.pad_h; oy < p->window.out_h;
         ++oy, top += p->window.stride_h, y += p->window.out_w * p->window.in_c) {
        for (kept = tw_max(kept, top); kept < top + p->window.k_h; ++kept) {
            tw_depthwise_keep(oldest, x, kept, channels, p);
            oldest += p->row;
            if (oldest == rows + p->window.k_h * p->row) oldest = rows;
        }
        const tw_nine_row row = {oldest,
                                 oldest,
                                 oldest,
                                 k,
                                 y,
                                 16 * pixels * p->window.stride_w,
                                 pixels * p->window.in_c,
                                 steps,
                                 pixels * channels,
                                 p->end.zero};
        if (nine)
            tw_depthwise_across_nine(rows, row, last, again, p);
        else
            tw_depthwise_across(rows, row, last, again, p);
    }
}

/* again: NULL, or for each block as many taps as it has that come once more, of at most extra, and these. */
TW_INLINE void tw_depthwise_mve(const tw_depthwise_conv2d_mve_s8_params *params, const void *const *in,
                                void *const *out, void *scratch, int32_t nine, const int8_t *again, int32_t extra) {
    const tw_depthwise_conv2d_mve_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0], *rows = (int8_t *)scratch;
    tw_b16_fill(rows, p.in_zero, p.window.k_h * p.row);
    for (int32_t b = 0; b < p.window.batches;
         ++b, x += tw_window_image(&p.window), y += p.window.out_h * p.window.out_w * p.window.in_c) {
        const int8_t *k = (const int8_t *)in[1], *taps = again;
        for (int32_t c = 0; c < p.window.in_c;
             c += 16, k += TW_BLOCK_TAPS + 16 * (p.window.k_h * p.window.k_w + extra)) {
            tw_depthwise_block(x + c, k, y + c, rows, tw_min(p.window.in_c - c, 16), nine, taps, &p);
            if (taps) taps += 1 + 2 * extra;
        }
    }
}

TW_KERNEL(tw_depthwise_conv2d_mve_s8) { tw_depthwise_mve(params, in, out, scratch, 0, NULL, 0); }
TW_KERNEL(tw_depthwise_conv2d_nine_mve_s8) { tw_depthwise_mve(params, in, out, scratch, 1, NULL, 0); }

/* The same for weights that are the sum of two of int8. Where that is so, taps come once more, in each block others. in: x,
 * constants int8 [blocks][TW_BLOCK_TAPS + 16 * (k_h * k_w + extra)], again int8 [blocks][1 + 2 * extra]: how many taps
 * do, then row and column of each. nine: whether they suit the kernel above. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t twice, row, in_zero, nine, extra;
} tw_depthwise_conv2d_again_mve_s8_params;

TW_KERNEL(tw_depthwise_conv2d_again_mve_s8) {
    const tw_depthwise_conv2d_again_mve_s8_params p = *params;
    const tw_depthwise_conv2d_mve_s8_params all = {
        p.window, {p.end.zero, p.end.low, p.end.high}, p.twice, p.row, p.in_zero};
    tw_depthwise_mve(&all, in, out, scratch, p.nine, (const int8_t *)in[2], p.extra);
}

#endif
