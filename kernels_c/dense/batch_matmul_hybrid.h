/* SPDX-License-Identifier: Apache-2.0 */
/* BATCH_MATMUL, float32 a and int8 b. */
#ifndef TW_BATCH_MATMUL_HYBRID_H
#define TW_BATCH_MATMUL_HYBRID_H

#include "../core/hybrid.h"
#include "batch_matmul.h"

/* Rows of a are quantised at run time, each with a scale of its own; symmetric: with a zero point of 0. in: a, b. out: y
 * float [batches, rows, cols]. scratch: float [depth], int8 [depth]. Source: LiteRT's EvalHybrid of batch_matmul.cc. */
typedef struct {
    tw_matrices matrices;
    int32_t symmetric;
    float b_scale;
} tw_batch_matmul_hybrid_params;

/* One row of y. */
TW_INLINE void tw_batch_matmul_hybrid_row(float *y, const float *a, const int8_t *b, void *scratch,
                                          const tw_batch_matmul_hybrid_params *p) {
    float *row = (float *)scratch;
    const int32_t depth = p->matrices.depth;
    int8_t *x = (int8_t *)(row + depth);
    for (int32_t k = 0; k < depth; ++k) row[k] = a[(ptrdiff_t)k * p->matrices.a_depth];
    const tw_hybrid_quant q = tw_hybrid_quantize(x, row, depth, p->symmetric);
    for (int32_t col = 0; col < p->matrices.cols; ++col) {
        const int8_t *n = b + (ptrdiff_t)col * p->matrices.b_col;
        int32_t sum = 0;
        for (int32_t k = 0; k < depth; ++k) sum = tw_add(sum, (x[k] - q.zero) * n[(ptrdiff_t)k * p->matrices.b_depth]);
        y[col] = (float)sum * (q.scale * p->b_scale);
    }
}

TW_KERNEL(tw_batch_matmul_hybrid) {
    const tw_batch_matmul_hybrid_params p = *params;
    const tw_matrices *of = &params->matrices;
    const int32_t a_bytes = of->rows * of->depth * (int32_t)sizeof(float);
    tw_row at = {(const char *)in[0], (const char *)in[1], {0}};
    float *y = (float *)out[0];
    for (int32_t batch = 0; batch < of->batches.rows; ++batch) {
        for (int32_t row = 0; row < of->rows; ++row, y += of->cols)
            tw_batch_matmul_hybrid_row(y, (const float *)(const void *)at.a + (ptrdiff_t)row * of->a_row,
                                       (const int8_t *)at.b, scratch, &p);
        tw_next_row(&at, &of->batches, a_bytes, of->cols * of->depth);
    }
}

#endif
