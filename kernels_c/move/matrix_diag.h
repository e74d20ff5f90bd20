/* SPDX-License-Identifier: Apache-2.0 */
/* MATRIX_DIAG and MATRIX_SET_DIAG: values on the diagonals of matrices. */
#ifndef TW_MATRIX_DIAG_H
#define TW_MATRIX_DIAG_H

#include "move.h"

/* y [batch, rows, columns], diagonal [batch, lesser of rows and columns]; elements of element bytes. tw_matrix_diag: in:
 * diagonal, zero (one element that stands elsewhere). tw_matrix_set_diag: in: x like y (may be planned in place),
 * diagonal. */
typedef struct {
    int32_t batch, rows, columns, element;
} tw_matrix_diag_params;
typedef tw_matrix_diag_params tw_matrix_set_diag_params;

TW_INLINE void tw_set_diag(const tw_matrix_diag_params p, uint8_t *y, const uint8_t *diagonal) {
    const int32_t count = p.rows < p.columns ? p.rows : p.columns;
    for (int32_t b = 0; b < p.batch; ++b, y += p.rows * p.columns * p.element, diagonal += count * p.element)
        tw_move(y, (p.columns + 1) * p.element, diagonal, p.element, count, p.element);
}

TW_KERNEL(tw_matrix_diag) {
    const tw_matrix_diag_params p = *params;
    tw_fill((uint8_t *)out[0], p.batch * p.rows * p.columns * p.element, (const uint8_t *)in[1], p.element);
    tw_set_diag(p, (uint8_t *)out[0], (const uint8_t *)in[0]);
}

TW_KERNEL(tw_matrix_set_diag) {
    const tw_matrix_diag_params p = *params;
    if (out[0] != in[0]) memcpy(out[0], in[0], (size_t)(p.batch * p.rows * p.columns * p.element));
    tw_set_diag(p, (uint8_t *)out[0], (const uint8_t *)in[1]);
}

#endif
