/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D of int8 on AVX2, which has no products of bytes that are exact: VPMADDWD adds two products of halves. */
#ifndef TW_CONV2D_AVX2_H
#define TW_CONV2D_AVX2_H

#include "conv2d_wide.h"

/* As tw_conv2d_wide_s8, but a band is copied as int16 less the zero point, so that padding is 0 and biases are as they
 * come; weights are int16, packed [out / 16][k / 2][16][2], and run counts bytes of both. scratch: int16 for uint8. */
typedef tw_conv2d_wide_s8_params tw_conv2d_avx2_s8_params;

TW_KERNEL(tw_conv2d_avx2_s8) { tw_conv2d_wide(params, in, out, scratch, TW_CONV_HALVES); }

#endif
