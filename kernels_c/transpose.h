/* TRANSPOSE on wide machines: square tiles through registers. Elsewhere tw_slice does it. */
#ifndef TW_TRANSPOSE_H
#define TW_TRANSPOSE_H

#include "move.h"

#define TW_MAX_TRANSPOSE 4

/* in: x. out: y, both dense. Planes of rows x cols elements of size bytes (1, 2, 4 or 8): y[c, r] = x[r, c], with rows of
 * x x_step bytes apart and rows of y y_step. Planes along outer axis i are x_steps[i] and y_steps[i] bytes apart. */
typedef struct {
    int32_t size, rows, cols, x_step, y_step;
    int32_t n[TW_MAX_TRANSPOSE], x_steps[TW_MAX_TRANSPOSE], y_steps[TW_MAX_TRANSPOSE];
} tw_transpose_params;

/* Interleaves both halves of x: the bits of every element's index rotate left by one. */
TW_INLINE void tw_shuffle(uint8_t *TW_RESTRICT y, const uint8_t *TW_RESTRICT x, int32_t half, int32_t size) {
    for (int32_t i = 0; i < half; ++i) {
        memcpy(y + 2 * i * size, x + i * size, (size_t)size);
        memcpy(y + (2 * i + 1) * size, x + (half + i) * size, (size_t)size);
    }
}

/* One tile of edge x edge elements, edge = 2^log: log rotations swap the row and column bits of the index. */
TW_INLINE void tw_transpose_tile(uint8_t *TW_RESTRICT y, int32_t y_step, const uint8_t *TW_RESTRICT x, int32_t x_step,
                                 int32_t log, int32_t size) {
    uint8_t tile[2][512];
    const int32_t edge = 1 << log, row = edge * size;
    for (int32_t r = 0; r < edge; ++r) memcpy(tile[0] + r * row, x + (ptrdiff_t)r * x_step, (size_t)row);
    for (int32_t i = 0; i < log; ++i) tw_shuffle(tile[(i + 1) & 1], tile[i & 1], edge * edge / 2, size);
    for (int32_t c = 0; c < edge; ++c) memcpy(y + (ptrdiff_t)c * y_step, tile[log & 1] + c * row, (size_t)row);
}

/* One plane: whole tiles, then what is left at the bottom and at the right. */
TW_INLINE void tw_transpose_plane(uint8_t *TW_RESTRICT y, const uint8_t *TW_RESTRICT x, tw_transpose_params p,
                                  int32_t log, int32_t size) {
    const int32_t edge = 1 << log, rows = p.rows & -edge, cols = p.cols & -edge;
    for (int32_t c = 0; c < cols; c += edge)
        for (int32_t r = 0; r < rows; r += edge)
            tw_transpose_tile(y + c * p.y_step + r * size, p.y_step, x + r * p.x_step + c * size, p.x_step, log, size);
    for (int32_t c = 0; c < p.cols; ++c) {
        const int32_t from = c < cols ? rows : 0;
        tw_move_sized(y + c * p.y_step + from * size, size, x + from * p.x_step + c * size, p.x_step, p.rows - from,
                      size);
    }
}

TW_KERNEL(tw_transpose) {
    const tw_transpose_params p = *params;
    (void)scratch;
    for (int32_t a = 0; a < p.n[0]; ++a)
        for (int32_t b = 0; b < p.n[1]; ++b)
            for (int32_t c = 0; c < p.n[2]; ++c)
                for (int32_t d = 0; d < p.n[3]; ++d) {
                    const uint8_t *x = (const uint8_t *)in[0] + a * p.x_steps[0] + b * p.x_steps[1] +
                                       c * p.x_steps[2] + d * p.x_steps[3];
                    uint8_t *y = (uint8_t *)out[0] + a * p.y_steps[0] + b * p.y_steps[1] + c * p.y_steps[2] +
                                 d * p.y_steps[3];
                    switch (p.size) {
                    case 1: tw_transpose_plane(y, x, p, 4, 1); break;
                    case 2: tw_transpose_plane(y, x, p, 3, 2); break;
                    case 4: tw_transpose_plane(y, x, p, 3, 4); break;
                    default: tw_transpose_plane(y, x, p, 3, 8); break;
                    }
                }
}

#endif
