/* SPDX-License-Identifier: Apache-2.0 */
/* FULLY_CONNECTED of float32 with int8 weights: y = x . w^T + bias. */
#ifndef TW_FULLY_CONNECTED_HYBRID_H
#define TW_FULLY_CONNECTED_HYBRID_H

#include "../core/hybrid.h"

/* float32 activations, quantised at run time with one scale per row, and int8 weights. in: x float [batches, depth], w
 * packed (wide.h), w_sum int32 [out], w_scale float [out], bias float [out]. out: y float [batches, out]. scratch: int8
 * [depth] rounded up to 16, uint8 [depth4] rounded up to 16, int32 [out padded to 16]. Source: LiteRT's EvalHybrid. */
typedef struct {
    tw_limits_f32 limits;
    int32_t batches, depth, depth4, out, symmetric;
} tw_fully_connected_hybrid_params;

TW_KERNEL(tw_fully_connected_hybrid) {
    const tw_fully_connected_hybrid_params p = *params;
    const float *x = (const float *)in[0];
    const int32_t *TW_RESTRICT w_sum = (const int32_t *)in[2];
    const float *TW_RESTRICT w_scale = (const float *)in[3];
    const float *TW_RESTRICT bias = (const float *)in[4];
    float *TW_RESTRICT y = (float *)out[0];
    int8_t *quantized = (int8_t *)scratch;
    uint8_t *panel = (uint8_t *)scratch + (p.depth + 15) / 16 * 16;
    int32_t *sums = (int32_t *)(void *)(panel + (p.depth4 + 15) / 16 * 16);
    for (int32_t b = 0; b < p.batches; ++b, x += p.depth, y += p.out) {
        const tw_hybrid_quant q = tw_hybrid_quantize(quantized, x, p.depth, p.symmetric);
        tw_bias128(panel, quantized, p.depth);
        tw_hybrid_sums(panel, 1, p.depth4, (const int8_t *)in[1], sums, p.out);
        for (int32_t c = 0; c < p.out; ++c) {
            const int32_t sum = sums[c] - (128 + q.zero) * w_sum[c];
            y[c] = tw_boundf(bias[c] + (float)sum * (q.scale * w_scale[c]), p.limits.low, p.limits.high);
        }
    }
}

#endif
