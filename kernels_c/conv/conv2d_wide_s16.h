/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D of int16 and int8 over 16 lanes: windows are read where they lie, in a padded copy of some rows of the image. */
#ifndef TW_CONV2D_WIDE_S16_H
#define TW_CONV2D_WIDE_S16_H

#include "conv2d_wide.h"

/* As tw_conv2d_wide_s8, but x and y are int16, and so are the band's copy and the weights, packed [out / 16][k / 2][16][2];
 * run counts bytes of both. No sum leaves 32 bits; it ends as sum * mult / 2^32 rounded half up. There is no shift; in_zero,
 * fast and the end's zero are 0. */
typedef tw_conv2d_wide_s8_params tw_conv2d_wide_s16_params;

TW_KERNEL(tw_conv2d_wide_s16) { tw_conv2d_wide(params, in, out, scratch, TW_CONV_HALVES | TW_CONV_WORDS); }

#endif
