/* SPDX-License-Identifier: Apache-2.0 */
/* BATCH_MATMUL, and FULLY_CONNECTED by weights that are computed, on the DSP extension: three rows by two columns at a
 * time. */
#ifndef TW_BATCH_MATMUL_DSP_H
#define TW_BATCH_MATMUL_DSP_H

#include "../isa/dsp/dsp_product.h"
#include "batch_matmul.h"

/* int8. in: a, b, bias int32 [cols] or null. out: y. words: depth / 4, rounded up, times 2; right: 1..22; sums below
 * 2^30. scratch: words [rows rounded up to 3, words], [words, 2] (dsp_product.h). */
typedef struct {
    tw_matrices matrices;
    tw_epilogue_s8 end;
    int32_t a_zero, b_zero, mult, right, words;
} tw_batch_matmul_dsp_s8_params;

/* Columns c and c + 1, which is c again if there is none, of all rows. */
TW_INLINE void tw_batch_matmul_dsp_columns(const uint32_t *rows, const uint32_t *columns, const int32_t *bias,
                                           int8_t *y, int32_t c, const tw_batch_matmul_dsp_s8_params *p) {
    const int32_t cols = p->matrices.cols, second = c + 1 < cols;
    const int32_t start = bias ? 2 * bias[c] : 0, next = bias ? 2 * bias[c + second] : 0;
    const tw_dsp_channel end = {p->mult, tw_rounding(p->end.zero, p->right), p->right};
    y += c;
    for (int32_t left = p->matrices.rows; left > 0; left -= TW_DSP_PIXELS, rows += TW_DSP_PIXELS * p->words) {
        int32_t sums[2 * TW_DSP_PIXELS];
        tw_dsp_product(rows, columns, p->words, sums);
#pragma GCC unroll 3
        for (int r = 0; r < TW_DSP_PIXELS; ++r, y += cols) {
            if (r >= left) break;
            y[second] = tw_dsp_output(next + 2 * sums[TW_DSP_PIXELS + r], &end);
            y[0] = tw_dsp_output(start + 2 * sums[r], &end);
        }
    }
}

TW_KERNEL(tw_batch_matmul_dsp_s8) {
    const tw_batch_matmul_dsp_s8_params p = *params;
    const tw_matrices *m = &p.matrices;
    const tw_dsp_line of_a = {m->a_depth, m->depth, p.a_zero}, of_b = {m->b_depth, m->depth, p.b_zero};
    const int32_t panel = TW_DSP_PIXELS * p.words, panels = (m->rows + TW_DSP_PIXELS - 1) / TW_DSP_PIXELS;
    uint32_t *rows = (uint32_t *)scratch, *columns = rows + panels * panel;
    int8_t *y = (int8_t *)out[0];
    tw_row at = {(const char *)in[0], (const char *)in[1], {0}};
    memset(rows, 0, (size_t)(panels * panel) * sizeof *rows);
    for (int32_t batch = 0; batch < m->batches.rows; ++batch, y += m->rows * m->cols) {
        for (int32_t i = 0; i < m->rows; ++i)
            tw_dsp_widen_line(rows + i / TW_DSP_PIXELS * panel + i % TW_DSP_PIXELS, TW_DSP_PIXELS,
                              (const int8_t *)at.a + i * m->a_row, &of_a);
        for (int32_t c = 0; c < m->cols; c += 2) {
            for (int32_t j = 0; j < 2; ++j)
                tw_dsp_widen_line(columns + j, 2, (const int8_t *)at.b + tw_min(c + j, m->cols - 1) * m->b_col, &of_b);
            tw_batch_matmul_dsp_columns(rows, columns, (const int32_t *)in[2], y, c, &p);
        }
        tw_dsp_activation(y, m->rows * m->cols, p.end.low, p.end.high);
        tw_next_row(&at, &params->matrices.batches, m->rows * m->depth, m->cols * m->depth);
    }
}

#endif
