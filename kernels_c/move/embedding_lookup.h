/* SPDX-License-Identifier: Apache-2.0 */
/* EMBEDDING_LOOKUP of int8 rows as floats; rows of the output's type are copied (gather.h). */
#ifndef TW_EMBEDDING_LOOKUP_H
#define TW_EMBEDDING_LOOKUP_H

#include "index.h"

/* in: x [rows, run], at [count] int32, scales [rows], or [1] with each 0. out: y [count, run]. A number outside takes
 * the nearest row. */
typedef struct {
    int32_t rows, run, count, each;
} tw_embedding_lookup_params;

TW_KERNEL(tw_embedding_lookup) {
    const tw_embedding_lookup_params p = *params;
    float *y = (float *)out[0];
    for (int32_t i = 0; i < p.count; ++i, y += p.run) {
        const int32_t row = tw_clamped_index(((const int32_t *)in[1])[i], p.rows - 1);
        const int8_t *x = (const int8_t *)in[0] + (ptrdiff_t)row * p.run;
        const float scale = ((const float *)in[2])[p.each ? row : 0];
        for (int32_t k = 0; k < p.run; ++k) y[k] = (float)x[k] * scale;
    }
}

#endif
