/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D of int8 by Winograd's F(2, 3) on the DSP extension. */
#ifndef TW_CONV2D_WINOGRAD_LINE_DSP_H
#define TW_CONV2D_WINOGRAD_LINE_DSP_H

#include "conv2d_winograd_dsp.h"
#include "winograd_line.h"

/* A tw_winograd_line_transform: words of two channels, in the order of the packed weights. */
static TW_NOINLINE void tw_winograd_line_dsp_transform(void *panel, int32_t tile, const int8_t *const *x,
                                                       int32_t depth) {
    uint32_t *to = (uint32_t *)panel + tile;
    const int32_t place = depth / 2 * TW_WINOGRAD_TILES;
    const int8_t *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
    for (const int8_t *const end = x0 + depth; x0 != end; x0 += 4, x1 += 4, x2 += 4, x3 += 4) {
        const uint32_t w0 = tw_word(x0), w1 = tw_word(x1), w2 = tw_word(x2), w3 = tw_word(x3);
        TW_UNROLLED for (int odd = 0; odd < 2; ++odd, to += TW_WINOGRAD_TILES) {
            const tw_winograd_column c = tw_winograd_column_from(w0, w1, w2, w3, odd);
            uint32_t *at = to;
            TW_UNROLLED for (int i = 0; i < 4; ++i, at += place) *at = c.row[i];
        }
    }
}

/* A tw_winograd_sums. */
static TW_NOINLINE const void *tw_winograd_line_dsp_sums(const void *panel, const void *weights, int32_t depth,
                                                         int32_t *sums) {
    return tw_winograd_dsp_columns(panel, weights, depth, 1, sums);
}

/* weights: words [out / 2][4][depth / 2][2]; depth: in_c, a multiple of 4. */
typedef tw_winograd_s8_params tw_conv2d_winograd_line_dsp_s8_params;

TW_KERNEL(tw_conv2d_winograd_line_dsp_s8) {
    tw_winograd_line_s8(params, in, out, scratch, tw_winograd_line_dsp_transform, tw_winograd_line_dsp_sums);
}

#endif
