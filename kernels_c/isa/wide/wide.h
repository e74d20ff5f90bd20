/* SPDX-License-Identifier: Apache-2.0 */
/* Sixteen int32 lanes, one output channel each: the base of the host's int8 convolution kernels.
 *
 * An int8 matrix product runs over panels: rows of x as uint8 (x + 128), k padded to a multiple of 4 with anything, and
 * weights packed [out / 16][k / 4][16][4] with zeros in the padding. The +128 and the input zero point are folded into
 * the bias when the weights are packed (runtime/ops/core/packing.py). All sums wrap as two's complement does, so the
 * order of additions does not matter and every instruction-set level gives the same bits. */
#ifndef TW_WIDE_H
#define TW_WIDE_H

#include "lanes.h"

/* How many rows of a panel one tile of accumulators covers; panels are padded to a multiple of it. */
#define TW_TILE_ROWS 8

/* The most vectors of sums of a tile: two of each row, or eight of one. */
#define TW_TILE_VECTORS 16

/* The sums of a tile of up to TW_TILE_VECTORS vectors, row by row. They lie in memory between the loop that computes them
 * and the one that ends them: compilers keep the accumulators of the first in registers, and the second stays small. */
typedef tw_acc tw_tile_acc[TW_TILE_ROWS][TW_TILE_ROWS];

/* Where outputs of a tile go: the first one, from row to row, how many rows, how many lanes of all blocks. */
typedef struct {
    int8_t *y;
    int32_t step, rows, lanes;
} tw_tile_out;

TW_INLINE void tw_tile_end_as(const tw_tile_out *out, const tw_acc *sums, int rows, int blocks, const tw_ends *ends,
                              int ending) {
    int8_t *y = out->y;
    /* Where the step is a constant, so is all that accumulators need to stay in registers. */
    if (__builtin_constant_p(out->step) && out->rows >= rows && out->lanes >= TW_LANES * blocks) {
        TW_UNROLLED
        for (int r = 0; r < rows; ++r) TW_UNROLLED
        for (int b = 0; b < blocks; ++b)
            tw_acc_end(y + r * out->step + TW_LANES * b, sums[r * blocks + b], ends + b, ending, TW_LANES);
        return;
    }
    TW_ROLLED
    for (int32_t r = tw_min(rows, out->rows); r > 0; --r, y += out->step)
        for (int b = 0; b < blocks; ++b)
            tw_acc_end(y + TW_LANES * b, *sums++, ends + b, ending, out->lanes - TW_LANES * b);
}

/* The outputs of a tile's sums [rows][blocks]; ends: of every block. */
TW_INLINE void tw_tile_end(const tw_tile_out *out, const tw_acc *sums, int rows, int blocks, const tw_ends *ends,
                           int ending) {
    if (ending == TW_ENDS_RELU)
        tw_tile_end_as(out, sums, rows, blocks, ends, TW_ENDS_RELU);
    else if (ending == TW_ENDS_FAST)
        tw_tile_end_as(out, sums, rows, blocks, ends, TW_ENDS_FAST);
    else
        tw_tile_end_as(out, sums, rows, blocks, ends, TW_ENDS_SLOW);
}

/* The same of int16: y of the tile is of them, and step counts them; ends have multipliers alone. */
TW_INLINE void tw_tile_end_s16(const tw_tile_out *out, const tw_acc *sums, int rows, int blocks, const tw_ends *ends,
                               const tw_epilogue_s8 *end) {
    const tw_limits limits = {end->low, end->high};
    int16_t *y = (int16_t *)(void *)out->y;
    TW_ROLLED
    for (int32_t r = tw_min(rows, out->rows); r > 0; --r, y += out->step)
        for (int b = 0; b < blocks; ++b)
            tw_acc_end_s16(y + TW_LANES * b, *sums++, ends[b].mult, &limits, out->lanes - TW_LANES * b);
}

/* acc[r][b] += row r of x [rows, k] . block b of the packed weights. rows and blocks are constants at every call. */
TW_INLINE void tw_tile_sums(tw_tile_acc acc, const uint8_t *x, int32_t k, const int8_t *w, int rows, int blocks) {
    for (int32_t i = 0; i < k; i += 4)
        for (int b = 0; b < blocks; ++b)
            for (int r = 0; r < rows; ++r)
                acc[r][b] = tw_acc_dot4(acc[r][b], x + r * k + i, w + TW_LANES * (b * k + i));
}

/* Makes channels that share their first mult and shift alike; both arrays must live as long. */
TW_INLINE void tw_channels_alike(tw_channels_s8 *channels, int32_t mult[TW_LANES], int8_t shift[TW_LANES]) {
    for (int i = 0; i < TW_LANES; ++i) {
        mult[i] = channels->mult[0];
        shift[i] = channels->shift[0];
    }
    channels->mult = mult;
    channels->shift = shift;
    channels->alike = 1;
}

/* The ends of 16 channels from c on. */
TW_INLINE tw_ends tw_ends_of(const tw_channels_s8 *channels, int32_t c) {
    return tw_ends_load(channels, channels->alike ? 0 : c);
}

/* The sums of a tile begin as the biases of channels from c on, in every row; w: the tile's weights, k of a channel. */
TW_INLINE void tw_tile_start(tw_tile_acc acc, const int8_t *w, int32_t k, int32_t c, int rows, int blocks,
                             const tw_channels_s8 *channels) {
    for (int b = 0; b < blocks; ++b) {
        const tw_acc start = tw_acc_start(tw_acc_load(channels->bias + c + TW_LANES * b), w + TW_LANES * b * k, k);
        for (int r = 0; r < rows; ++r) acc[r][b] = start;
    }
}

/* The outputs of a tile's sums, channels from c on. */
TW_INLINE void tw_tile_finish(const tw_tile_out *to, tw_tile_acc acc, int32_t c, int rows, int blocks,
                              const tw_channels_s8 *channels) {
    tw_acc sums[TW_TILE_VECTORS];
    tw_ends ends[TW_TILE_ROWS];
    for (int b = 0; b < blocks; ++b)
        for (int r = 0; r < rows; ++r) sums[r * blocks + b] = acc[r][b];
    for (int b = 0; b < blocks; ++b) ends[b] = tw_ends_of(channels, c + TW_LANES * b);
    tw_tile_end(to, sums, rows, blocks, ends, tw_ending(channels));
}

/* The outputs of a row's sums, channels from c on: the ends of a block are loaded where they are used, once. */
TW_INLINE void tw_row_end_as(const tw_tile_out *to, const tw_acc *sums, int32_t c, int blocks,
                             const tw_channels_s8 *channels, int ending) {
    const int32_t whole = to->lanes >= TW_LANES * blocks;
    tw_ends ends = tw_ends_of(channels, c);
    TW_UNROLLED
    for (int b = 0; b < blocks; ++b) {
        if (b > 0 && !channels->alike) ends = tw_ends_load(channels, c + TW_LANES * b);
        tw_acc_end(to->y + TW_LANES * b, sums[b], &ends, ending, whole ? TW_LANES : to->lanes - TW_LANES * b);
    }
}

/* The same, however sums end. */
TW_INLINE void tw_row_end(const tw_tile_out *to, const tw_acc *sums, int32_t c, int blocks,
                          const tw_channels_s8 *channels) {
    const int ending = tw_ending(channels);
    if (ending == TW_ENDS_RELU)
        tw_row_end_as(to, sums, c, blocks, channels, TW_ENDS_RELU);
    else if (ending == TW_ENDS_FAST)
        tw_row_end_as(to, sums, c, blocks, channels, TW_ENDS_FAST);
    else
        tw_row_end_as(to, sums, c, blocks, channels, TW_ENDS_SLOW);
}

/* rows x (16 * blocks) outputs at channel c: y[row * step + c ...], the first valid_rows of them. */
TW_INLINE void tw_tile_s8(const uint8_t *x, int32_t k, const int8_t *w, int8_t *y, int32_t step, int32_t out, int32_t c,
                          int rows, int blocks, int32_t valid_rows, const tw_channels_s8 *channels) {
    const tw_tile_out to = {y + c, step, valid_rows, out - c};
    tw_tile_acc acc;
    tw_tile_start(acc, w, k, c, rows, blocks, channels);
    tw_tile_sums(acc, x, k, w, rows, blocks);
    if (rows == 1)
        tw_row_end(&to, acc[0], c, blocks, channels);
    else
        tw_tile_finish(&to, acc, c, rows, blocks, channels);
}

/* blocks blocks of channels from c on, of all rows of a panel; w: the first block. */
TW_INLINE void tw_panel_blocks_s8(const uint8_t *x, int32_t rows, int32_t k, const int8_t *w, int8_t *y, int32_t step,
                                  int32_t out, int32_t c, int blocks, const tw_channels_s8 *channels) {
    for (int32_t r = 0; r < rows; r += TW_PANEL_ROWS)
        tw_tile_s8(x + r * k, k, w, y + r * step, step, out, c, TW_PANEL_ROWS, blocks, rows - r, channels);
}

/* y [rows, out], step apart, = requantized panel [rows padded to 8, k] x packed weights; k a multiple of 4. */
TW_INLINE void tw_panel_s8(const uint8_t *x, int32_t rows, int32_t k, const int8_t *w, int8_t *y, int32_t step,
                           int32_t out, const tw_channels_s8 *channels) {
    const int32_t blocks = (out + TW_LANES - 1) / TW_LANES;
    int32_t b = 0;
    for (; b + TW_PANEL_BLOCKS <= blocks; b += TW_PANEL_BLOCKS)
        tw_panel_blocks_s8(x, rows, k, w + TW_LANES * b * k, y, step, out, TW_LANES * b, TW_PANEL_BLOCKS, channels);
    for (; b < blocks; ++b)
        tw_panel_blocks_s8(x, rows, k, w + TW_LANES * b * k, y, step, out, TW_LANES * b, 1, channels);
}

/* The same for one row, where most of the work is loading weights. */
TW_INLINE void tw_row_s8(const uint8_t *x, int32_t k, const int8_t *w, int8_t *y, int32_t out,
                         const tw_channels_s8 *channels) {
    const int32_t blocks = (out + TW_LANES - 1) / TW_LANES;
    int32_t b = 0;
    for (; b + TW_ROW_BLOCKS <= blocks; b += TW_ROW_BLOCKS)
        tw_tile_s8(x, k, w + TW_LANES * b * k, y, out, out, TW_LANES * b, 1, TW_ROW_BLOCKS, 1, channels);
    for (; b + 2 <= blocks; b += 2)
        tw_tile_s8(x, k, w + TW_LANES * b * k, y, out, out, TW_LANES * b, 1, 2, 1, channels);
    for (; b < blocks; ++b) tw_tile_s8(x, k, w + TW_LANES * b * k, y, out, out, TW_LANES * b, 1, 1, 1, channels);
}

/* sums int32 [16 * blocks] of one row, of blocks (a constant) of weights. */
TW_INLINE void tw_row_blocks_sums(const uint8_t *x, int32_t k, const int8_t *w, int32_t *sums, int blocks) {
    tw_tile_acc acc;
    for (int b = 0; b < blocks; ++b) acc[0][b] = tw_acc_start(tw_acc_zero(), w + TW_LANES * b * k, k);
    tw_tile_sums(acc, x, k, w, 1, blocks);
    for (int b = 0; b < blocks; ++b) memcpy(sums + TW_LANES * b, &acc[0][b], sizeof acc[0][b]);
}

/* sums int32 [16 * blocks] of one row: several blocks at once, so that additions do not wait for each other. */
TW_INLINE void tw_row_sums(const uint8_t *x, int32_t k, const int8_t *w, int32_t *sums, int32_t blocks) {
    int32_t b = 0;
    for (; b + TW_ROW_BLOCKS <= blocks; b += TW_ROW_BLOCKS)
        tw_row_blocks_sums(x, k, w + TW_LANES * b * k, sums + TW_LANES * b, TW_ROW_BLOCKS);
    for (; b < blocks; ++b) tw_row_blocks_sums(x, k, w + TW_LANES * b * k, sums + TW_LANES * b, 1);
}

#endif
