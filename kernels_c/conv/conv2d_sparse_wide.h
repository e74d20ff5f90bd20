/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D of int8, and FULLY_CONNECTED, whose batches are pixels of a row, over 16 lanes: what is zero in all 16 channels
 * of a block is skipped. */
#ifndef TW_CONV2D_SPARSE_WIDE_H
#define TW_CONV2D_SPARSE_WIDE_H

#include "conv2d_avx2.h"

/* As tw_conv2d_wide_s8 without pairs, and tw_conv2d_avx2_s8, but weights are those of some steps alone, [steps][16][4],
 * or of halves [steps][16][2], block after block. in, behind the others: int32, for each block how many steps it has, and
 * where from a window's beginning their four bytes lie. */
typedef tw_conv2d_wide_s8_params tw_conv2d_sparse_wide_s8_params;
typedef tw_conv2d_wide_s8_params tw_conv2d_sparse_avx2_s8_params;

TW_KERNEL(tw_conv2d_sparse_wide_s8) { tw_conv2d_wide(params, in, out, scratch, TW_CONV_SPARSE); }

TW_KERNEL(tw_conv2d_sparse_avx2_s8) { tw_conv2d_wide(params, in, out, scratch, TW_CONV_SPARSE | TW_CONV_HALVES); }

#endif
