/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D of int8 by Winograd's F(2, 3) on cores that multiply one value at a time. */
#ifndef TW_CONV2D_WINOGRAD_LINE_WORDS_H
#define TW_CONV2D_WINOGRAD_LINE_WORDS_H

#include "conv2d_winograd_words.h"
#include "winograd_line.h"

/* A tw_winograd_line_transform: int32. */
static TW_NOINLINE void tw_winograd_line_words_transform(void *panel, int32_t tile, const int8_t *const *x,
                                                         int32_t depth) {
    int32_t *to = (int32_t *)panel + tile;
    const int32_t place = depth * TW_WINOGRAD_TILES;
    const int8_t *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3];
    for (; depth > 0; --depth, to += TW_WINOGRAD_TILES) {
        const int32_t d0 = *x0++, d1 = *x1++, d2 = *x2++, d3 = *x3++;
        to[0] = d1 + d2;
        to[place] = d2 - d1;
        to[2 * place] = d0 - d2;
        to[3 * place] = d3 - d1;
    }
}

/* A tw_winograd_sums. */
static TW_NOINLINE const void *tw_winograd_line_words_sums(const void *panel, const void *weights, int32_t depth,
                                                           int32_t *sums) {
    return tw_winograd_words_columns(panel, weights, depth, 1, sums);
}

/* weights: int16 [out / 2][4][depth][2]; depth: in_c. */
typedef tw_winograd_s8_params tw_conv2d_winograd_line_words_s8_params;

TW_KERNEL(tw_conv2d_winograd_line_words_s8) {
    tw_winograd_line_s8(params, in, out, scratch, tw_winograd_line_words_transform, tw_winograd_line_words_sums);
}

#endif
