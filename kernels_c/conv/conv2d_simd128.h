/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D of int8 with SIMD128 of WebAssembly, whose products are of halves. */
#ifndef TW_CONV2D_SIMD128_H
#define TW_CONV2D_SIMD128_H

#include "conv2d_wide.h"

/* As tw_conv2d_avx2_s8, with weights int8, packed [out / 16][k / 2][16][2]. */
typedef tw_conv2d_wide_s8_params tw_conv2d_simd128_s8_params;

TW_KERNEL(tw_conv2d_simd128_s8) { tw_conv2d_wide(params, in, out, scratch, TW_CONV_HALVES | TW_CONV_BYTES); }

#endif
