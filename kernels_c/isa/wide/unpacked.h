/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over rows of bytes: four rows are unpacked, so that four bytes below one another lie side by side as a lane adds
 * them; packing the sums puts them back in order. A block of 64 bytes has four times 16 lanes: lane i of sums a is that of
 * byte 16 * (i / 4) + 4 * a + i % 4. It is computed in strips, each as long as a vector. One file per instruction set
 * implements this, unpacked_plain.h in plain C; this one chooses. */
#ifndef TW_UNPACKED_H
#define TW_UNPACKED_H

#include "lanes.h"

/* Bytes of a block. */
#define TW_BLOCK 64

/* Where four rows begin. */
typedef struct {
    const uint8_t *row[4];
} tw_four_rows;

/* How the sums of a block end; lanes are vectors. */
#if defined(TW_WIDE_VNNI) || defined(__AVX2__)
typedef struct {
    tw_ends of[4];
} tw_block_ends;

TW_INLINE void tw_block_ends_load(tw_block_ends *ends, const tw_channels_s8 *channels, int32_t c) {
    for (int a = 0; a < 4; ++a) ends->of[a] = tw_ends_load(channels, c + TW_LANES * a);
}
#endif

#if defined(TW_WIDE_VNNI)
#include "unpacked_vnni.h"
#elif defined(__AVX2__)
#include "unpacked_avx2.h"
#else
#include "unpacked_plain.h"
#endif

#endif
