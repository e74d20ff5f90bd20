/* SPDX-License-Identifier: Apache-2.0 */
/* BATCH_MATMUL of int16 by int16 or int8 on Helium: a row by four columns at a time. */
#ifndef TW_BATCH_MATMUL_MVE_S16_H
#define TW_BATCH_MATMUL_MVE_S16_H

#include "../isa/mve/mve_tile_s16.h"
#include "batch_matmul.h"

/* As tw_batch_matmul_s16, b of values of so many bytes, 1 or 2. blocks: depth / 8, rounded up; a_depth and b_depth at most
 * 9362. scratch: int16 [rows][blocks][8], [blocks][4][8]. */
typedef struct {
    tw_matrices matrices;
    int32_t mult, right, blocks, bytes;
} tw_batch_matmul_mve_s16_params;

/* Copies n values (at least one) of int16, or of int8, apart (1..9362) from one another, into blocks of 8 that lie pitch
 * apart, with zeros behind them. */
TW_INLINE void tw_mve_line_s16(int16_t *to, int32_t pitch, const void *line, int32_t bytes, int32_t apart, int32_t n) {
    const int8_t *narrow = (const int8_t *)line;
    const int16_t *wide = (const int16_t *)line;
#if defined(TW_MVE)
    const uint16x8_t at = vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)apart);
    for (int32_t i = 0; n > 0; n -= TW_MVE_BLOCK_S16, to += pitch, i += TW_MVE_BLOCK_S16 * apart) {
        const mve_pred16_t few = vctp16q((uint32_t)n);
        vstrhq_s16(to, bytes == 1 ? vldrbq_gather_offset_z_s16(narrow + i, at, few)
                                  : vldrhq_gather_shifted_offset_z_s16(wide + i, at, few));
    }
#else
    for (int32_t i = 0; n > 0; n -= TW_MVE_BLOCK_S16, to += pitch)
        for (int j = 0; j < TW_MVE_BLOCK_S16; ++j, i += apart)
            to[j] = (int16_t)(j >= n ? 0 : bytes == 1 ? narrow[i] : wide[i]);
#endif
}

/* sums [4]: x times four columns, blocks [4][8] after one another. */
TW_INLINE void tw_mve_product_s16(const int16_t *x, const int16_t *four, int32_t blocks, int64_t *sums) {
    int64_t a = 0, b = 0, c = 0, d = 0;
    for (; blocks > 0; --blocks, x += TW_MVE_BLOCK_S16, four += 4 * TW_MVE_BLOCK_S16) {
#if defined(TW_MVE)
        const int16x8_t v = vldrhq_s16(x);
        a = vmlaldavaq_s16(a, v, vldrhq_s16(four)), b = vmlaldavaq_s16(b, v, vldrhq_s16(four + TW_MVE_BLOCK_S16));
        c = vmlaldavaq_s16(c, v, vldrhq_s16(four + 2 * TW_MVE_BLOCK_S16));
        d = vmlaldavaq_s16(d, v, vldrhq_s16(four + 3 * TW_MVE_BLOCK_S16));
#else
        for (int i = 0; i < TW_MVE_BLOCK_S16; ++i) {
            a += x[i] * four[i], b += x[i] * four[TW_MVE_BLOCK_S16 + i];
            c += x[i] * four[2 * TW_MVE_BLOCK_S16 + i], d += x[i] * four[3 * TW_MVE_BLOCK_S16 + i];
        }
#endif
    }
    sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
}

/* Up to four columns, count of them, of all rows; y: their first output. */
TW_INLINE void tw_batch_matmul_mve_columns_s16(const int16_t *x, const int16_t *four, int16_t *y, int32_t count,
                                               const tw_batch_matmul_mve_s16_params *p) {
    for (int32_t i = 0; i < p->matrices.rows; ++i, x += TW_MVE_BLOCK_S16 * p->blocks, y += p->matrices.cols) {
        int64_t sums[4];
        tw_mve_product_s16(x, four, p->blocks, sums);
        for (int j = 0; j < tw_min(count, 4); ++j)
            y[j] = (int16_t)tw_clamp(tw_scaled64(sums[j], p->mult, p->right), INT16_MIN, INT16_MAX);
    }
}

TW_KERNEL(tw_batch_matmul_mve_s16) {
    const tw_batch_matmul_mve_s16_params p = *params;
    const tw_matrices *m = &p.matrices;
    const int32_t size = TW_MVE_BLOCK_S16 * p.blocks;
    int16_t *rows = (int16_t *)scratch, *four = rows + m->rows * size, *y = (int16_t *)out[0];
    tw_row at = {(const char *)in[0], (const char *)in[1], {0}};
    for (int32_t batch = 0; batch < m->batches.rows; ++batch, y += m->rows * m->cols) {
        for (int32_t i = 0; i < m->rows; ++i)
            tw_mve_line_s16(rows + i * size, TW_MVE_BLOCK_S16, (const int16_t *)(const void *)at.a + i * m->a_row, 2,
                            m->a_depth, m->depth);
        for (int32_t c = 0; c < m->cols; c += 4) {
            for (int32_t j = 0; j < 4; ++j)
                tw_mve_line_s16(four + TW_MVE_BLOCK_S16 * j, 4 * TW_MVE_BLOCK_S16,
                                at.b + tw_min(c + j, m->cols - 1) * m->b_col * p.bytes, p.bytes, m->b_depth, m->depth);
            tw_batch_matmul_mve_columns_s16(rows, four, y + c, m->cols - c, &p);
        }
        tw_next_row(&at, &params->matrices.batches, 2 * m->rows * m->depth, p.bytes * m->cols * m->depth);
    }
}

#endif
