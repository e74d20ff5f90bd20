/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, float32 activations and int8 weights, on Helium: pixel by pixel, four channels at a time. Only sums are
 * vectors: Helium's float32 flushes subnormal numbers to zero. */
#ifndef TW_CONV2D_HYBRID_MVE_H
#define TW_CONV2D_HYBRID_MVE_H

#include "../isa/mve/mve_tile.h"
#include "conv2d_hybrid.h"

/* As tw_conv2d_hybrid but for the weights: int8 [out_c][k]; k4 is k. direct: the windows are the input's pixels.
 * scratch: int8 image, then a window int8 [k], both rounded up to 16. */
typedef struct {
    tw_conv2d_hybrid_params all;
    int32_t direct;
} tw_conv2d_hybrid_mve_params;

TW_INLINE void tw_conv2d_hybrid_mve_pixel(float *y, const int8_t *x, const void *const *in, tw_hybrid_quant q,
                                          const void *params) {
    const tw_conv2d_hybrid_mve_params *p = (const tw_conv2d_hybrid_mve_params *)params;
    static TW_SECTION_TABLES const int32_t nothing[4] = {0, 0, 0, 0};
    const int8_t *w = (const int8_t *)in[1];
    const int32_t k = p->all.k4, out_c = p->all.window.out_c;
    for (int32_t c = 0; c < out_c; c += 4, w += 4 * k) {
        const tw_mve_four_rows rows = tw_mve_four_rows_of(k, out_c - c);
        int32_t sums[4];
        tw_v4_store(sums, tw_mve_tile1(x, w, rows.at, nothing));
        for (int32_t j = 0; j < tw_min(4, out_c - c); ++j)
            y[c + j] = tw_conv2d_hybrid_output(sums[j], c + j, in, q, &p->all);
    }
}

TW_KERNEL(tw_conv2d_hybrid_mve) {
    const tw_conv2d_hybrid_mve_params p = *params;
    tw_conv2d_hybrid_pixels(&p.all, p.direct, in, (float *)out[0], (int8_t *)scratch, tw_conv2d_hybrid_mve_pixel, &p);
}

#endif
