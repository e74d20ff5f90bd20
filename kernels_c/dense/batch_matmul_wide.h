/* SPDX-License-Identifier: Apache-2.0 */
/* BATCH_MATMUL, and FULLY_CONNECTED by weights that are computed, on computers: panels of rows by 16 columns. */
#ifndef TW_BATCH_MATMUL_WIDE_H
#define TW_BATCH_MATMUL_WIDE_H

#include "../isa/wide/wide.h"
#include "batch_matmul.h"

/* int8. in: a, b, bias int32 [cols] or null, mult int32 and shift int8 [16], which are all the same. out: y. k4: depth
 * rounded up to 4; padded: rows rounded up to 8. Sums fit 32 bits. scratch: int32 [padded], uint8 [padded, k4], int8
 * [k4 / 4, 16, 4]. */
typedef struct {
    tw_matrices matrices;
    tw_epilogue_s8 end;
    int32_t a_zero, b_zero, k4, padded, fast;
} tw_batch_matmul_wide_s8_params;

/* Rows of one matrix a as x + 128, and what the zero point of b takes from their sums. */
TW_INLINE void tw_batch_matmul_wide_rows(const int8_t *a, uint8_t *row, int32_t *starts,
                                         const tw_batch_matmul_wide_s8_params *p) {
    const tw_matrices *m = &p->matrices;
    for (int32_t i = 0; i < m->rows; ++i, row += p->k4) {
        const int8_t *from = a + i * m->a_row;
        int32_t sum = 0;
        if (m->a_depth == 1)
            tw_bias128(row, from, m->depth);
        else
            for (int32_t k = 0; k < m->depth; ++k) row[k] = (uint8_t)(from[k * m->a_depth] + 128);
        for (int32_t k = 0; k < m->depth; ++k) sum += row[k];
        starts[i] = -p->b_zero * sum;
    }
}

/* Up to 16 columns of one matrix b as a block of weights (wide.h). */
TW_INLINE void tw_batch_matmul_wide_pack(const int8_t *b, int32_t count, int8_t *TW_RESTRICT block,
                                         const tw_matrices *m) {
    int32_t k = 0;
    if (count == TW_LANES && m->b_col == 1)
        for (; k + 4 <= m->depth; k += 4, block += 4 * TW_LANES) {
            const uint8_t *row = (const uint8_t *)b + k * m->b_depth;
            uint32_t words[TW_LANES];
            TW_VECTOR
            for (int j = 0; j < TW_LANES; ++j)
                words[j] = row[j] | (uint32_t)row[m->b_depth + j] << 8 | (uint32_t)row[2 * m->b_depth + j] << 16 |
                           (uint32_t)row[3 * m->b_depth + j] << 24;
            memcpy(block, words, sizeof words);
        }
    for (; k < m->depth; k += 4, block += 4 * TW_LANES) {
        const int32_t some = tw_min(m->depth - k, 4);
        memset(block, 0, 4 * TW_LANES);
        for (int32_t j = 0; j < count; ++j)
            for (int32_t i = 0; i < some; ++i) block[4 * j + i] = b[j * m->b_col + (k + i) * m->b_depth];
    }
}

/* What the sums of a block begin with: bias, and what the zero point of a takes with every column. */
TW_INLINE void tw_batch_matmul_wide_starts(const int8_t *block, const int32_t *bias, int32_t count, int32_t *starts,
                                           const tw_batch_matmul_wide_s8_params *p) {
    const uint8_t ones[4] = {1, 1, 1, 1};
    tw_acc sums = tw_acc_start(tw_acc_zero(), block, p->k4);
    int32_t columns[TW_LANES];
    for (int32_t k = 0; k < p->k4; k += 4) sums = tw_acc_dot4(sums, ones, block + TW_LANES * k);
    memcpy(columns, &sums, sizeof columns);
    for (int32_t j = 0; j < TW_LANES; ++j)
        starts[j] =
            (bias && j < count ? bias[j] : 0) - (128 + p->a_zero) * (columns[j] - p->matrices.depth * p->b_zero);
}

/* All rows of a block of columns; y: that of the first row. */
TW_INLINE void tw_batch_matmul_wide_block(const uint8_t *panel, const int32_t *of_rows, const int8_t *block,
                                          const int32_t *starts, int32_t count, int8_t *y, const tw_ends *ends,
                                          int ending, const tw_batch_matmul_wide_s8_params *p) {
    const int32_t cols = p->matrices.cols;
    for (int32_t i = 0; i < p->matrices.rows; i += TW_PANEL_ROWS) {
        const tw_tile_out to = {y + i * cols, cols, p->matrices.rows - i, count};
        tw_acc sums[TW_PANEL_ROWS];
        tw_tile_acc acc;
        for (int r = 0; r < TW_PANEL_ROWS; ++r) {
            int32_t first[TW_LANES];
            for (int j = 0; j < TW_LANES; ++j) first[j] = tw_add(starts[j], of_rows[i + r]);
            acc[r][0] = tw_acc_start(tw_acc_load(first), block, p->k4);
        }
        tw_tile_sums(acc, panel + i * p->k4, p->k4, block, TW_PANEL_ROWS, 1);
        for (int r = 0; r < TW_PANEL_ROWS; ++r) sums[r] = acc[r][0];
        tw_tile_end(&to, sums, TW_PANEL_ROWS, 1, ends, ending);
    }
}

TW_KERNEL(tw_batch_matmul_wide_s8) {
    const tw_batch_matmul_wide_s8_params p = *params;
    const tw_matrices *m = &p.matrices;
    const tw_channels_s8 channels = {NULL, (const int32_t *)in[3], (const int8_t *)in[4], p.fast, 1, p.end};
    const tw_ends ends = tw_ends_load(&channels, 0);
    const int32_t *bias = (const int32_t *)in[2];
    int32_t *of_rows = (int32_t *)scratch;
    uint8_t *panel = (uint8_t *)(of_rows + p.padded);
    int8_t *block = (int8_t *)panel + p.padded * p.k4, *y = (int8_t *)out[0];
    tw_row at = {(const char *)in[0], (const char *)in[1], {0}};
    for (int32_t batch = 0; batch < m->batches.rows; ++batch, y += m->rows * m->cols) {
        tw_batch_matmul_wide_rows((const int8_t *)at.a, panel, of_rows, &p);
        for (int32_t c = 0; c < m->cols; c += TW_LANES) {
            const int32_t count = tw_min(m->cols - c, TW_LANES);
            int32_t starts[TW_LANES];
            tw_batch_matmul_wide_pack((const int8_t *)at.b + c * m->b_col, count, block, m);
            tw_batch_matmul_wide_starts(block, bias ? bias + c : bias, count, starts, &p);
            tw_batch_matmul_wide_block(panel, of_rows, block, starts, count, y + c, &ends, tw_ending(&channels), &p);
        }
        tw_next_row(&at, &params->matrices.batches, m->rows * m->depth, m->cols * m->depth);
    }
}

#endif
