/* SPDX-License-Identifier: Apache-2.0 */
/* Sixteen int32 lanes, tw_acc: their sums of products of bytes, and how sums become int8. One file per instruction set
 * implements them, lanes_plain.h in plain C; this one chooses. */
#ifndef TW_LANES_H
#define TW_LANES_H

#include "../../core/epilogue.h"

#define TW_LANES 16

/* The farthest shift to the right of fast channels (tw_channels_s8). */
#define TW_FAST_RIGHT 20

/* How sums become outputs: rounded twice, once, or once where outputs end at the zero point. A constant at most calls,
 * so that loops over sums do not ask. */
enum { TW_ENDS_SLOW, TW_ENDS_FAST, TW_ENDS_RELU };

TW_INLINE int tw_ending(const tw_channels_s8 *channels) {
    return !channels->fast ? TW_ENDS_SLOW : channels->end.low == channels->end.zero ? TW_ENDS_RELU : TW_ENDS_FAST;
}

#if defined(__AVX512VNNI__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define TW_WIDE_VNNI 1
#include "lanes_vnni.h"
#elif defined(__AVX2__)
#include "lanes_avx2.h"
#elif defined(__ARM_NEON) && defined(__aarch64__) && !defined(__ARM_BIG_ENDIAN)
#define TW_WIDE_NEON 1
#include "lanes_neon.h"
#elif defined(__riscv_vector) && defined(__clang__)
#define TW_WIDE_RVV 1
#include "lanes_rvv.h"
#elif defined(__wasm_simd128__)
#define TW_WIDE_WASM 1
#include "lanes_wasm.h"
#else
#include "lanes_plain.h"
#endif

/* Sums of a panel that are computed at once, as many as lie in registers: rows and blocks, and blocks of one row. */
#if defined(TW_WIDE_NEON) || defined(TW_WIDE_RVV)
#define TW_PANEL_ROWS 4
#define TW_PANEL_BLOCKS 1
#define TW_ROW_BLOCKS 4
#elif defined(TW_WIDE_WASM)
#define TW_PANEL_ROWS 2
#define TW_PANEL_BLOCKS 1
#define TW_ROW_BLOCKS 2
#else
#define TW_PANEL_ROWS 8
#define TW_PANEL_BLOCKS 2
#define TW_ROW_BLOCKS 8
#endif

/* What sums begin with: acc, and what tw_acc_dot4 leaves out of a block of k weights each (wide.h), which are to be
 * added all. */
TW_INLINE tw_acc tw_acc_start(tw_acc acc, const int8_t *w, int32_t k) {
#if defined(TW_LESS_128)
    return tw_acc_with_128(acc, w, k);
#else
    (void)w;
    (void)k;
    return acc;
#endif
}

#endif
