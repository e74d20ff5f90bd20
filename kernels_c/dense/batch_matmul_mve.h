/* SPDX-License-Identifier: Apache-2.0 */
/* BATCH_MATMUL, and FULLY_CONNECTED by weights that are computed, on Helium: two rows by four columns at a time. */
#ifndef TW_BATCH_MATMUL_MVE_H
#define TW_BATCH_MATMUL_MVE_H

#include "../isa/mve/mve_tile.h"
#include "batch_matmul.h"

/* int8. in: a, b, bias int32 [cols] or null. out: y. blocks: depth / 16, rounded up; a_depth and b_depth at most 9362;
 * shift -31..-1; sums below 2^30. scratch: int32 [rows], int8 [rows, 16 * blocks], int32 [4], int8 [blocks, 4, 16]. */
typedef struct {
    tw_matrices matrices;
    tw_epilogue_s8 end;
    int32_t a_zero, b_zero, mult, shift, blocks;
} tw_batch_matmul_mve_s8_params;

/* What a kernel keeps in scratch: what every row adds to its sums, the rows, and a four of columns (mve_tile.h). */
typedef struct {
    int32_t *starts;
    int8_t *rows;
    int32_t *four;
} tw_batch_matmul_mve_room;

/* All rows of one matrix a as blocks, and what the zero point of b takes from their sums. */
TW_INLINE void tw_batch_matmul_mve_rows(const int8_t *a, const tw_batch_matmul_mve_room *to,
                                        const tw_batch_matmul_mve_s8_params *p) {
    int8_t *row = to->rows;
    for (int32_t i = 0; i < p->matrices.rows; ++i, row += TW_MVE_BLOCK * p->blocks) {
        const int8_t *from = a + i * p->matrices.a_row;
        to->starts[i] = -p->b_zero * tw_mve_line(row, TW_MVE_BLOCK, from, p->matrices.a_depth, p->matrices.depth);
    }
}

/* Columns c..c + 3 of one matrix b as a four; columns beyond the last are the last. */
TW_INLINE void tw_batch_matmul_mve_four(const int8_t *b, const int32_t *bias, int32_t c, int32_t *four,
                                        const tw_batch_matmul_mve_s8_params *p) {
    const tw_matrices *m = &p->matrices;
    for (int32_t j = 0; j < 4; ++j) {
        const int32_t col = tw_min(c + j, m->cols - 1);
        int8_t *to = (int8_t *)(four + 4) + TW_MVE_BLOCK * j;
        const int32_t sum = tw_mve_line(to, 4 * TW_MVE_BLOCK, b + col * m->b_col, m->b_depth, m->depth);
        four[j] = (bias ? bias[col] : 0) - p->a_zero * (sum - m->depth * p->b_zero);
    }
}

/* All rows of columns c..c + 3. */
TW_INLINE void tw_batch_matmul_mve_columns(const tw_batch_matmul_mve_room *at, int8_t *y, int32_t c,
                                           const tw_batch_matmul_mve_s8_params *p) {
    const int32_t size = TW_MVE_BLOCK * p->blocks, cols = p->matrices.cols, count = tw_min(cols - c, 4);
    const tw_v4 mult = tw_v4_all(p->mult), shift = tw_v4_all(p->shift);
    const int8_t *x = at->rows;
    for (int32_t i = 0; i < p->matrices.rows; i += 2, x += 2 * size) {
        const int32_t both = i + 1 < p->matrices.rows;
        const tw_mve_two sums = tw_mve_two_rows(x, x + both * size, at->four, p->blocks);
        const tw_v4 first = tw_v4_add(sums.first, tw_v4_all(at->starts[i]));
        const tw_v4 second = tw_v4_add(sums.second, tw_v4_all(at->starts[i + both]));
        int8_t *to = y + i * cols + c;
        tw_v4_store_s8(to, tw_v4_scaled(first, mult, shift), p->end.zero, p->end.low, p->end.high, count);
        tw_v4_store_s8(to + both * cols, tw_v4_scaled(second, mult, shift), p->end.zero, p->end.low, p->end.high,
                       count);
    }
}

TW_KERNEL(tw_batch_matmul_mve_s8) {
    const tw_batch_matmul_mve_s8_params p = *params;
    const tw_matrices *m = &p.matrices;
    int8_t *rows = (int8_t *)scratch + 4 * m->rows, *y = (int8_t *)out[0];
    const tw_batch_matmul_mve_room room = {(int32_t *)scratch, rows,
                                           (int32_t *)(void *)(rows + m->rows * TW_MVE_BLOCK * p.blocks)};
    tw_row at = {(const char *)in[0], (const char *)in[1], {0}};
    for (int32_t batch = 0; batch < m->batches.rows; ++batch, y += m->rows * m->cols) {
        tw_batch_matmul_mve_rows((const int8_t *)at.a, &room, &p);
        for (int32_t c = 0; c < m->cols; c += 4) {
            tw_batch_matmul_mve_four((const int8_t *)at.b, (const int32_t *)in[2], c, room.four, &p);
            tw_batch_matmul_mve_columns(&room, y, c, &p);
        }
        tw_next_row(&at, &params->matrices.batches, m->rows * m->depth, m->cols * m->depth);
    }
}

#endif
