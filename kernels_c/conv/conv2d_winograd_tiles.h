/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D of int8 by Winograd's F(2 x 2, 3 x 3) on cores with 32 registers: what they do in words, which costs more there
 * than on those that add a product in one instruction. */
#ifndef TW_CONV2D_WINOGRAD_TILES_H
#define TW_CONV2D_WINOGRAD_TILES_H

#include "conv2d_winograd_words.h"

typedef tw_winograd_s8_params tw_conv2d_winograd_tiles_s8_params;

TW_KERNEL(tw_conv2d_winograd_tiles_s8) {
    tw_winograd_s8(params, in, out, scratch, tw_winograd_words_transform, tw_winograd_words_sums);
}

#endif
