/* SPDX-License-Identifier: Apache-2.0 */
/* FULLY_CONNECTED of float32: y = x . w^T + bias. */
#ifndef TW_FULLY_CONNECTED_F32_H
#define TW_FULLY_CONNECTED_F32_H

#include "../core/sums_f32.h"

/* float32, plain C. in: x [batches, depth], w [out, depth], bias [out] or null. out: y [batches, out]. */
typedef struct {
    tw_limits_f32 limits;
    int32_t batches, depth, out;
} tw_fully_connected_f32_params;
typedef tw_fully_connected_f32_params tw_fully_connected_fused_f32_params;

/* The kernel; fused, a constant: see madd.h. */
TW_INLINE void tw_fully_connected_f32_of(const tw_fully_connected_f32_params *params, const void *const *in,
                                         void *const *out, int fused) {
    const tw_fully_connected_f32_params p = *params;
    const float *x = (const float *)in[0], *w = (const float *)in[1], *bias = (const float *)in[2];
    float *y = (float *)out[0];
    const tw_rows rows = tw_rows_of(p.out, 4);
    for (int32_t b = 0; b < p.batches; ++b, x += p.depth, y += p.out)
        for (int32_t next = 0; next < p.out; next += rows.step) {
            const int32_t first = tw_min(next, p.out - rows.step);
            float acc[4] = {0.0F, 0.0F, 0.0F, 0.0F};
            tw_rows_f32(acc, x, w + first * p.depth, p.depth, rows.apart * p.depth, fused);
            for (int32_t c = first; c < first + rows.step; ++c)
                y[c] = tw_clampf(acc[c - first] + bias[c], p.limits.low, p.limits.high);
        }
}

TW_KERNEL(tw_fully_connected_f32) { tw_fully_connected_f32_of(params, in, out, 0); }

TW_KERNEL(tw_fully_connected_fused_f32) { tw_fully_connected_f32_of(params, in, out, 1); }

#endif
