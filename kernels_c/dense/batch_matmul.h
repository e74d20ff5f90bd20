/* SPDX-License-Identifier: Apache-2.0 */
/* BATCH_MATMUL: y = a b, matrix by matrix. */
#ifndef TW_BATCH_MATMUL_H
#define TW_BATCH_MATMUL_H

#include "../core/loops.h"
#include "../core/sums_s16.h"

/* in: a, b. out: y [batches, rows, cols]. a_row and a_depth: how far neighbours lie apart in a matrix, in elements;
 * likewise b_depth and b_col. batches: its jumps count matrices. */
typedef struct {
    int32_t rows, depth, cols, a_row, a_depth, b_depth, b_col;
    tw_outer batches;
} tw_matrices;

typedef struct {
    tw_matrices matrices;
} tw_batch_matmul_f32_params;

/* int8: operands less their zero points, sums requantised. */
typedef struct {
    tw_matrices matrices;
    int32_t a_zero, b_zero, out_zero, mult, shift;
} tw_batch_matmul_s8_params;

/* int16 and int16 or int8, zero points 0: sums of 64 bits, times mult (0..32767) / 2^right, right 8..46. */
typedef struct {
    tw_matrices matrices;
    int32_t mult, right;
} tw_batch_matmul_s16_params;
typedef tw_batch_matmul_s16_params tw_batch_matmul_s16_s8_params;

/* All outputs in order; step: the statement that adds *m and *n to sum; done: the output of sum. */
#define TW_MATMUL(type, b_type, acc_type, step, done)                                                                  \
    const tw_matrices of = p.matrices;                                                                                 \
    const int32_t a_bytes = of.depth * (int32_t)sizeof(type), b_bytes = of.depth * (int32_t)sizeof(b_type);            \
    tw_row at = {(const char *)in[0], (const char *)in[1], {0}};                                                       \
    type *y = (type *)out[0];                                                                                          \
    for (int32_t batch = 0; batch < of.batches.rows; ++batch) {                                                        \
        for (int32_t row = 0; row < of.rows; ++row)                                                                    \
            for (int32_t col = 0; col < of.cols; ++col) {                                                              \
                const type *m = (const type *)at.a + row * of.a_row;                                                   \
                const b_type *n = (const b_type *)at.b + col * of.b_col;                                               \
                acc_type sum = 0;                                                                                      \
                for (int32_t k = 0; k < of.depth; ++k, m += of.a_depth, n += of.b_depth) step;                         \
                *y++ = done;                                                                                           \
            }                                                                                                          \
        tw_next_row(&at, &params->matrices.batches, of.rows *a_bytes, of.cols *b_bytes);                               \
    }

TW_KERNEL(tw_batch_matmul_f32) {
    const tw_batch_matmul_f32_params p = *params;
    TW_MATMUL(float, float, float, sum += *m * *n, sum)
}

TW_KERNEL(tw_batch_matmul_s8) {
    const tw_batch_matmul_s8_params p = *params;
    TW_MATMUL(int8_t, int8_t, int32_t, sum = tw_add(sum, (*m - p.a_zero) * (*n - p.b_zero)),
              (int8_t)tw_clamp(tw_add(tw_requantize(sum, p.mult, p.shift), p.out_zero), INT8_MIN, INT8_MAX))
}

TW_KERNEL(tw_batch_matmul_s16) {
    const tw_batch_matmul_s16_params p = *params;
    TW_MATMUL(int16_t, int16_t, int64_t, sum += *m * *n,
              (int16_t)tw_clamp(tw_scaled64(sum, p.mult, p.right), INT16_MIN, INT16_MAX))
}

TW_KERNEL(tw_batch_matmul_s16_s8) {
    const tw_batch_matmul_s16_s8_params p = *params;
    TW_MATMUL(int16_t, int8_t, int64_t, sum += *m * *n,
              (int16_t)tw_clamp(tw_scaled64(sum, p.mult, p.right), INT16_MIN, INT16_MAX))
}

#endif
