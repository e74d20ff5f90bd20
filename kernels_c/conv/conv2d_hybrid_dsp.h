/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, float32 activations and int8 weights, on the DSP extension: pixel by pixel, four channels at a time. */
#ifndef TW_CONV2D_HYBRID_DSP_H
#define TW_CONV2D_HYBRID_DSP_H

#include "../isa/dsp/dsp_tile.h"
#include "conv2d_hybrid.h"

/* As tw_conv2d_hybrid but for the weights: packed as for tw_fully_connected_dsp_s8, for k = k_h * k_w * in_c; |sums| <
 * 2^30. bytes: whether they are stored so. direct: the windows are the input's pixels. scratch: int8 image, then a
 * window int8 [k4], both rounded up to 16. */
typedef struct {
    tw_conv2d_hybrid_params all;
    int32_t bytes, direct;
} tw_conv2d_hybrid_dsp_params;

TW_INLINE void tw_conv2d_hybrid_dsp_pixel(float *y, const int8_t *x, const void *const *in, tw_hybrid_quant q,
                                          const void *params) {
    const tw_conv2d_hybrid_dsp_params *p = (const tw_conv2d_hybrid_dsp_params *)params;
    static TW_SECTION_TABLES const int32_t nothing[4] = {0, 0, 0, 0};
    const uint32_t *w = (const uint32_t *)in[1];
    for (int32_t c = 0; c < p->all.window.out_c; c += 4) {
        int32_t twice[4];
        w = tw_dsp_four(x, w, p->all.k4, p->bytes, nothing, twice);
        for (int32_t j = 0; j < 4 && c + j < p->all.window.out_c; ++j)
            y[c + j] = tw_conv2d_hybrid_output(twice[j] >> 1, c + j, in, q, &p->all);
    }
}

TW_KERNEL(tw_conv2d_hybrid_dsp) {
    const tw_conv2d_hybrid_dsp_params p = *params;
    tw_conv2d_hybrid_pixels(&p.all, p.direct, in, (float *)out[0], (int8_t *)scratch, tw_conv2d_hybrid_dsp_pixel, &p);
}

#endif
