/* SPDX-License-Identifier: Apache-2.0 */
/* TRANSPOSE_CONV, NHWC, float32 activations and int8 weights [out_c, k_h, k_w, in_c]. */
#ifndef TW_TRANSPOSE_CONV_HYBRID_H
#define TW_TRANSPOSE_CONV_HYBRID_H

#include "../core/hybrid.h"
#include "transpose_conv.h"

/* Activations are quantised at run time, with one scale per image. in: x float, w int8, w_scale float [out_c], bias
 * float [out_c]. out: y float. scratch: int8 image [in_h, in_w, in_c]. Source: LiteRT's EvalHybrid of transpose_conv.cc. */
typedef struct {
    tw_window window;
    tw_limits_f32 limits;
} tw_transpose_conv_hybrid_params;

TW_KERNEL(tw_transpose_conv_hybrid) {
    tw_transpose_conv_hybrid_params p = *params;
    const float *from = (const float *)in[0];
    const int8_t *w = (const int8_t *)in[1];
    const float *w_scale = (const float *)in[2], *bias = (const float *)in[3];
    float *y = (float *)out[0];
    int8_t *x = (int8_t *)scratch;
    const int32_t size = tw_window_image(&p.window);
    p.window.batches = 1;
    for (int32_t b = 0; b < params->window.batches; ++b, from += size) {
        const tw_hybrid_quant q = tw_hybrid_quantize(x, from, size, 0);
        TW_TRANSPOSE_CONV(int8_t, int8_t, int32_t, sum = tw_add(sum, (m[i] - q.zero) * n[i]),
                          tw_clampf((float)sum * w_scale[c] * q.scale + bias[c], p.limits.low, p.limits.high))
    }
}

#endif
