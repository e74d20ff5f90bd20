/* SPDX-License-Identifier: Apache-2.0 */
/* BATCH_MATMUL: y = a b, matrix by matrix. */
#ifndef TW_BATCH_MATMUL_H
#define TW_BATCH_MATMUL_H

#include "../core/tw.h"

#define TW_MAX_BATCH 3

/* in: a, b. out: y [n[0], n[1], n[2], rows, cols]. a_row and a_depth: how far neighbours lie apart in a matrix, in
 * elements, b_depth and b_col likewise; a_steps, b_steps: from one matrix to the next, 0 where an operand broadcasts. */
typedef struct {
    int32_t n[TW_MAX_BATCH], a_steps[TW_MAX_BATCH], b_steps[TW_MAX_BATCH];
    int32_t rows, depth, cols, a_row, a_depth, b_depth, b_col;
} tw_batch_matmul_f32_params;

/* int8, each operand less its zero point, the sum requantised. */
typedef struct {
    int32_t n[TW_MAX_BATCH], a_steps[TW_MAX_BATCH], b_steps[TW_MAX_BATCH];
    int32_t rows, depth, cols, a_row, a_depth, b_depth, b_col, a_zero, b_zero, out_zero, mult, shift;
} tw_batch_matmul_s8_params;

/* Every output in order; step: what element k adds to sum, done: the output of sum. */
#define TW_MATMUL(type, acc_type, step, done)                                                                          \
    const type *a = (const type *)in[0], *b = (const type *)in[1];                                                     \
    type *y = (type *)out[0];                                                                                          \
    (void)scratch;                                                                                                     \
    for (int32_t at = 0; at < p.n[0] * p.n[1] * p.n[2]; ++at) {                                                        \
        const int32_t i = at / (p.n[1] * p.n[2]), j = at / p.n[2] % p.n[1], l = at % p.n[2];                           \
        const type *from_a = a + i * p.a_steps[0] + j * p.a_steps[1] + l * p.a_steps[2];                               \
        const type *from_b = b + i * p.b_steps[0] + j * p.b_steps[1] + l * p.b_steps[2];                               \
        for (int32_t row = 0; row < p.rows; ++row)                                                                     \
            for (int32_t col = 0; col < p.cols; ++col) {                                                               \
                const type *m = from_a + row * p.a_row, *n = from_b + col * p.b_col;                                   \
                acc_type sum = 0;                                                                                      \
                for (int32_t k = 0; k < p.depth; ++k, m += p.a_depth, n += p.b_depth) step;                            \
                *y++ = done;                                                                                           \
            }                                                                                                          \
    }

TW_KERNEL(tw_batch_matmul_f32) {
    const tw_batch_matmul_f32_params p = *params;
    TW_MATMUL(float, float, sum += *m * *n, sum)
}

TW_KERNEL(tw_batch_matmul_s8) {
    const tw_batch_matmul_s8_params p = *params;
    TW_MATMUL(int8_t, int32_t, sum = tw_add(sum, (*m - p.a_zero) * (*n - p.b_zero)),
              (int8_t)tw_clamp(tw_add(tw_requantize(sum, p.mult, p.shift), p.out_zero), INT8_MIN, INT8_MAX))
}

#endif
