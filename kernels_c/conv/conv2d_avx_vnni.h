/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D of int8 once more, to be compiled for AVX-VNNI, whose lanes are vectors of 256 bits (lanes_avx2.h): for
 * processors without AVX-512. */
#ifndef TW_CONV2D_AVX_VNNI_H
#define TW_CONV2D_AVX_VNNI_H

#include "conv2d_wide.h"

typedef tw_conv2d_wide_s8_params tw_conv2d_avx_vnni_s8_params;

TW_KERNEL(tw_conv2d_avx_vnni_s8) { tw_conv2d_wide(params, in, out, scratch, 0); }

#endif
