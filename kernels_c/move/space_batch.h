/* SPDX-License-Identifier: Apache-2.0 */
/* SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND: pixels of blocks become pictures of a batch, and back. */
#ifndef TW_SPACE_BATCH_H
#define TW_SPACE_BATCH_H

#include "move.h"

/* One side is the space: batches pictures of height by width pixels; the other the batch: block_h * block_w times as
 * many of rows by cols. A pixel has size bytes. Place (i, j) of every block makes picture (i * block_w + j) * batches +
 * n. The space lies top rows and left columns inside of all blocks together. */
typedef struct {
    int32_t batches, height, width, rows, cols, block_h, block_w, top, left, size;
} tw_space_batch;

/* in: x, the batch. out: y, the space; blocks reach over its ends, and what lies there is left out. */
typedef struct {
    tw_space_batch shape;
} tw_batch_to_space_params;

/* in: x, the space, value: one element of element bytes. out: y, the batch; value stands outside of the space. */
typedef struct {
    tw_space_batch shape;
    int32_t element;
} tw_space_to_batch_params;

/* Of one row of the batch's side: the first and the number of its pixels that are in the space, and the byte of the
 * first one there. */
typedef struct {
    int32_t first, count, at;
} tw_space_row;

/* How many blocks begin before column end. */
TW_INLINE int32_t tw_blocks_up_to(int32_t end, int32_t block) { return end <= 0 ? 0 : (end - 1) / block + 1; }

/* The row of picture b and row r. */
TW_INLINE tw_space_row tw_space_row_of(const tw_space_batch *s, int32_t b, int32_t r) {
    const int32_t n = b % s->batches, i = b / s->batches / s->block_w, j = b / s->batches % s->block_w;
    const int32_t row = r * s->block_h + i - s->top, ahead = s->left - j, end = s->width + ahead;
    tw_space_row part = {0, 0, 0};
    if (row < 0 || row >= s->height) return part;
    part.first = tw_min(tw_blocks_up_to(ahead, s->block_w), s->cols);
    part.count = tw_max(tw_min(tw_blocks_up_to(end, s->block_w), s->cols) - part.first, 0);
    if (part.count) part.at = ((n * s->height + row) * s->width + part.first * s->block_w - ahead) * s->size;
    return part;
}

TW_KERNEL(tw_batch_to_space) {
    const tw_space_batch s = params->shape;
    const uint8_t *x = (const uint8_t *)in[0];
    for (int32_t b = 0; b < s.block_h * s.block_w * s.batches; ++b)
        for (int32_t r = 0; r < s.rows; ++r, x += s.cols * s.size) {
            const tw_space_row part = tw_space_row_of(&s, b, r);
            tw_move((uint8_t *)out[0] + part.at, s.block_w * s.size, x + part.first * s.size, s.size, part.count,
                    s.size);
        }
}

TW_KERNEL(tw_space_to_batch) {
    const tw_space_batch s = params->shape;
    const int32_t element = params->element;
    const uint8_t *value = (const uint8_t *)in[1];
    uint8_t *y = (uint8_t *)out[0];
    for (int32_t b = 0; b < s.block_h * s.block_w * s.batches; ++b)
        for (int32_t r = 0; r < s.rows; ++r, y += s.cols * s.size) {
            const tw_space_row part = tw_space_row_of(&s, b, r);
            const int32_t first = part.first * s.size, end = first + part.count * s.size;
            tw_fill(y, first, value, element);
            tw_move(y + first, s.size, (const uint8_t *)in[0] + part.at, s.block_w * s.size, part.count, s.size);
            tw_fill(y + end, s.cols * s.size - end, value, element);
        }
}

#endif
