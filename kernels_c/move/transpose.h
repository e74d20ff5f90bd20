/* SPDX-License-Identifier: Apache-2.0 */
/* TRANSPOSE on wide machines: square tiles in registers. On other machines tw_slice does it. */
#ifndef TW_TRANSPOSE_H
#define TW_TRANSPOSE_H

#include "../core/loops.h"
#include "move.h"

/* in: x. out: y, both dense. Planes of rows x cols elements of size bytes (1, 2, 4 or 8): y[c, r] = x[r, c], with
 * x_step bytes between rows of x and y_step between rows of y. Planes along loop i are x_steps[i] and y_steps[i] bytes
 * apart. */
typedef struct {
    int32_t size, rows, cols, x_step, y_step;
    int32_t n[TW_MAX_LOOPS], x_steps[TW_MAX_LOOPS], y_steps[TW_MAX_LOOPS];
} tw_transpose_params;

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define TW_TILES 1
#endif
#endif

#ifdef TW_TILES
typedef uint8_t tw_lanes1 __attribute__((vector_size(16)));
typedef uint16_t tw_lanes2 __attribute__((vector_size(16)));
typedef uint32_t tw_lanes4 __attribute__((vector_size(16)));
typedef uint64_t tw_lanes8 __attribute__((vector_size(16)));

/* The elements of a and b in turn: first halves. */
TW_INLINE tw_lanes1 tw_zip_low(tw_lanes1 a, tw_lanes1 b, int32_t size) {
    switch (size) {
    case 1: return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    case 2: return (tw_lanes1)__builtin_shufflevector((tw_lanes2)a, (tw_lanes2)b, 0, 8, 1, 9, 2, 10, 3, 11);
    case 4: return (tw_lanes1)__builtin_shufflevector((tw_lanes4)a, (tw_lanes4)b, 0, 4, 1, 5);
    default: return (tw_lanes1)__builtin_shufflevector((tw_lanes8)a, (tw_lanes8)b, 0, 2);
    }
}

/* The same: second halves. */
TW_INLINE tw_lanes1 tw_zip_high(tw_lanes1 a, tw_lanes1 b, int32_t size) {
    switch (size) {
    case 1: return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    case 2: return (tw_lanes1)__builtin_shufflevector((tw_lanes2)a, (tw_lanes2)b, 4, 12, 5, 13, 6, 14, 7, 15);
    case 4: return (tw_lanes1)__builtin_shufflevector((tw_lanes4)a, (tw_lanes4)b, 2, 6, 3, 7);
    default: return (tw_lanes1)__builtin_shufflevector((tw_lanes8)a, (tw_lanes8)b, 1, 3);
    }
}

/* One tile of edge x edge elements in registers, 16 bytes per row. Zipping the rows of the upper half with those of the
 * lower rotates the bits of every element's index (row, column) by one; log2(edge) rotations swap row and column. */
TW_INLINE void tw_transpose_tile(uint8_t *TW_RESTRICT y, int32_t y_step, const uint8_t *TW_RESTRICT x, int32_t x_step,
                                 int32_t size) {
    const int32_t edge = 16 / size;
    tw_lanes1 rows[16], zipped[16];
    for (int32_t i = 0; i < edge; ++i) memcpy(&rows[i], x + (ptrdiff_t)i * x_step, 16);
    for (int32_t bit = 1; bit < edge; bit *= 2) {
        for (int32_t i = 0; i < edge / 2; ++i) {
            zipped[2 * i] = tw_zip_low(rows[i], rows[i + edge / 2], size);
            zipped[2 * i + 1] = tw_zip_high(rows[i], rows[i + edge / 2], size);
        }
        for (int32_t i = 0; i < edge; ++i) rows[i] = zipped[i];
    }
    for (int32_t i = 0; i < edge; ++i) memcpy(y + (ptrdiff_t)i * y_step, &rows[i], 16);
}

/* Transposes whole tiles from the top left on, in stripes of at least 8 columns: wide enough to use what a cache line
 * of x brings, narrow enough for the lines of y to stay in a cache where they all fall into one set. */
TW_INLINE void tw_transpose_tiles(uint8_t *TW_RESTRICT y, const uint8_t *TW_RESTRICT x, tw_transpose_params p,
                                  int32_t size) {
    const int32_t edge = 16 / size, stripe = tw_max(edge, 8);
    for (int32_t left = 0; left < p.cols; left += stripe)
        for (int32_t r = 0; r + edge <= p.rows; r += edge)
            for (int32_t c = left; c + edge <= tw_min(left + stripe, p.cols); c += edge)
                tw_transpose_tile(y + c * p.y_step + r * size, p.y_step, x + r * p.x_step + c * size, p.x_step, size);
}
#endif

/* One plane: whole tiles, then what is left at the bottom and at the right. */
TW_INLINE void tw_transpose_plane(uint8_t *TW_RESTRICT y, const uint8_t *TW_RESTRICT x, tw_transpose_params p,
                                  int32_t size) {
    int32_t rows = 0, cols = 0;
#ifdef TW_TILES
    rows = p.rows & -(16 / size);
    cols = p.cols & -(16 / size);
    tw_transpose_tiles(y, x, p, size);
#endif
    for (int32_t c = 0; c < p.cols; ++c) {
        const int32_t from = c < cols ? rows : 0;
        tw_move_sized(y + c * p.y_step + from * size, size, x + from * p.x_step + c * size, p.x_step, p.rows - from,
                      size);
    }
}

TW_KERNEL(tw_transpose) {
    const tw_transpose_params p = *params;
    int32_t i[TW_MAX_LOOPS];
    TW_EACH_PLACE(i, p.n) {
        const uint8_t *x = (const uint8_t *)in[0] + tw_place(i, p.x_steps);
        uint8_t *y = (uint8_t *)out[0] + tw_place(i, p.y_steps);
        switch (p.size) {
        case 1: tw_transpose_plane(y, x, p, 1); break;
        case 2: tw_transpose_plane(y, x, p, 2); break;
        case 4: tw_transpose_plane(y, x, p, 4); break;
        default: tw_transpose_plane(y, x, p, 8); break;
        }
    }
}

#endif
