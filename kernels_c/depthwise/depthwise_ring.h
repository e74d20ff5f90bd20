/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of an image in a ring, and vectors of outputs from their columns: what tw_depthwise_conv2d_avx2_s8 is made of. */
#ifndef TW_DEPTHWISE_RING_H
#define TW_DEPTHWISE_RING_H

#include "../core/window.h"
#include "../isa/wide/unpacked.h"

/* The most rows of taps. */
#define TW_RING_ROWS 32

/* The most blocks that the vectors of a row take turns with. */
#define TW_RING_BLOCKS 3

/* Multiplier 1. A ring has the last rows of the image, plus 128 and with
 * their padding. Its columns are dealt out to planes, as many as neighbouring windows are apart: a tap reads windows side
 * by side from pixels side by side.
 * A block is 64 bytes of outputs, ordered as unpacked.h says. Flat: a row of outputs is cut into vectors, and vector v
 * has the channels of block v % blocks; the ring has all channels. Else block k is the channels 64 * k to 64 * k + 63 of
 * a pixel, fewer in the last one, and the ring has those of one block at a time.
 * Column: the image and the windows have one column, and a row of outputs is all of them; the ring has all rows.
 * Rows of taps whose bits are set in twice come once more behind the others, for weights that are the sum of two of int8;
 * fours is how many groups of four rows that makes.
 * in: x, w int8 [blocks][fours][k_w][4 sums][16 lanes][4 rows], zeros below the last row; bias int32 with the
 * zero point + 128 folded in, mult int32 and shift int8 [blocks][4 sums][16]. in_zero: the zero point + 128, which fills
 * padding. out: y. planes: stride_w, or 1 if a row has one output. plane: bytes of a plane's row, a multiple of 64. pitch:
 * bytes from pixel to pixel, in_c if flat or below 64, else 64. scratch: uint8 [rows that a window covers][planes][plane],
 * in a column [plane], and 128 bytes. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t in_zero, fast, planes, plane, pitch, flat, blocks, column, fours, twice;
} tw_depthwise_conv2d_avx2_s8_params;

typedef tw_depthwise_conv2d_avx2_s8_params tw_ring;

/* A block: its weights, how its sums begin and end, where its first vector lies in a row of outputs, how many vectors it
 * has, and the bytes of one more. */
typedef struct {
    const int8_t *w;
    const int32_t *bias;
    tw_block_ends ends;
    int32_t from, vectors, rest;
} tw_ring_block;

/* The rows of a window's taps in the ring, in fours. */
typedef struct {
    tw_four_rows of[TW_RING_ROWS / 4];
} tw_ring_rows;

/* The row that row ky of taps reads. Behind the last one it does not matter; that one again is loaded once. */
TW_INLINE int32_t tw_ring_tap(int32_t ky, const tw_ring *p) {
    int32_t tap = p->window.k_h - 1;
    for (int32_t left = p->twice ? ky - tap : 0, i = 0; left > 0 && i <= tap; ++i)
        if (p->twice >> i & 1 && --left == 0) return i;
    return tw_min(ky, tap);
}

/* Blocks that take turns, and bytes from vector to vector of one: in the ring, and in y. */
TW_INLINE int32_t tw_ring_turns(const tw_ring *p) { return p->flat ? p->blocks : 1; }
TW_INLINE int32_t tw_ring_step(const tw_ring *p) {
    return p->flat ? TW_BLOCK * p->blocks : p->column ? p->pitch * p->window.stride_h : p->pitch;
}
TW_INLINE int32_t tw_ring_step_y(const tw_ring *p) { return p->flat ? TW_BLOCK * p->blocks : p->window.out_c; }

/* How sums end (lanes.h). */
TW_INLINE int tw_ring_ending(const tw_ring *p) {
    return !p->fast ? TW_ENDS_SLOW : p->end.low == p->end.zero ? TW_ENDS_RELU : TW_ENDS_FAST;
}

/* Bytes from the beginning of a ring's row to a column of it. */
TW_INLINE int32_t tw_ring_column(int32_t column, const tw_ring *p) {
    return column % p->planes * p->plane + column / p->planes * p->pitch;
}

/* Vectors side by side: where the first one begins in the ring's rows and in y, and the bytes of each. */
typedef struct {
    ptrdiff_t at;
    int8_t *y;
    int32_t count;
} tw_ring_place;

/* A strip of some vectors, 1 or TW_STRIPS_AT_ONCE. */
TW_INLINE void tw_ring_strip(int strip, int vectors, const tw_ring_place *place, const tw_ring_rows *rows,
                             const tw_ring_block *block, const tw_ring *p) {
    const int8_t *w = block->w;
    const int32_t first = TW_STRIP * strip;
    tw_strip_sums sums[TW_STRIPS_AT_ONCE];
    tw_strip_bytes bytes[TW_STRIPS_AT_ONCE];
    TW_UNROLLED
    for (int i = 0; i < vectors; ++i) sums[i] = tw_strip_begin(block->bias, strip);
    for (int32_t ky = 0; ky < p->fours; ++ky)
        for (int32_t kx = 0; kx < p->window.k_w; ++kx, w += 4 * TW_BLOCK) {
            const ptrdiff_t tap = place->at + first + tw_ring_column(kx * p->window.dilation_w, p);
            for (int i = 0; i < vectors; ++i)
                tw_strip_add(&sums[i], rows->of + ky, tap + i * tw_ring_step(p), w, strip);
        }
    TW_UNROLLED
    for (int i = 0; i < vectors; ++i) bytes[i] = tw_strip_end(&sums[i], &block->ends, tw_ring_ending(p), strip);
    TW_UNROLLED
    for (int i = 0; i < vectors; ++i)
        tw_strip_store(place->y + first + i * tw_ring_step_y(p), bytes[i], place->count - first);
}

/* The same of all strips; then on to the next vectors. */
TW_INLINE void tw_ring_vectors(int vectors, tw_ring_place *place, const tw_ring_rows *rows, const tw_ring_block *block,
                               const tw_ring *p) {
    TW_UNROLLED
    for (int strip = 0; strip < TW_BLOCK / TW_STRIP; ++strip) tw_ring_strip(strip, vectors, place, rows, block, p);
    place->at += vectors * tw_ring_step(p);
    place->y += vectors * tw_ring_step_y(p);
}

/* A block's part of a row of outputs. */
TW_INLINE void tw_ring_row(const tw_ring_rows *rows, int8_t *y, int32_t count, const tw_ring_block *block,
                           const tw_ring *p) {
    tw_ring_place place = {block->from, y + block->from, count};
    int32_t left = block->vectors;
    TW_ROLLED
    for (; left >= TW_STRIPS_AT_ONCE; left -= TW_STRIPS_AT_ONCE)
        tw_ring_vectors(TW_STRIPS_AT_ONCE, &place, rows, block, p);
    TW_ROLLED
    for (; left > 0; --left) tw_ring_vectors(1, &place, rows, block, p);
    place.count = block->rest;
    if (p->flat && block->rest) tw_ring_vectors(1, &place, rows, block, p);
}

/* Fills a row of the ring, but for its padding, with row iy of the image, or all of it with padding if there is none.
 * bytes: of a pixel in the ring. */
TW_INLINE void tw_ring_fill(uint8_t *TW_RESTRICT to, const int8_t *TW_RESTRICT x, int32_t iy, int32_t bytes,
                            const tw_ring *p) {
    const tw_window *window = &p->window;
    int32_t ix = 0;
    if (!tw_is_inside(iy, window->in_h)) {
        memset(to, p->in_zero, (size_t)(p->planes * p->plane));
        return;
    }
    x += iy * window->in_w * window->in_c;
    if (p->planes == 1 && p->pitch == window->in_c) {
        tw_bias128(to + window->pad_w * p->pitch, x, window->in_w * window->in_c);
        return;
    }
    if (p->planes == 2 && p->pitch == window->in_c && 32 % p->pitch == 0 && p->pitch % 4 == 0) {
        uint8_t *even = to + tw_ring_column(window->pad_w, p), *odd = to + tw_ring_column(window->pad_w + 1, p);
        for (; (ix + 64 / p->pitch) <= window->in_w; ix += 64 / p->pitch, even += 32, odd += 32)
            tw_split64(even, odd, x + ix * p->pitch, p->pitch);
    }
    for (int32_t k = ix; k < tw_min(ix + p->planes, window->in_w); ++k) {
        uint8_t *pixel = to + tw_ring_column(window->pad_w + k, p);
        for (int32_t i = k; i < window->in_w; i += p->planes, pixel += p->pitch)
            if (bytes > TW_BLOCK)
                tw_bias128(pixel, x + i * window->in_c, bytes);
            else
                tw_bias64(pixel, x + i * window->in_c, bytes);
    }
}

#endif
