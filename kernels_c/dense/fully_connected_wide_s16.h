/* SPDX-License-Identifier: Apache-2.0 */
/* FULLY_CONNECTED of int16 and int8 over 16 lanes, one batch. */
#ifndef TW_FULLY_CONNECTED_WIDE_S16_H
#define TW_FULLY_CONNECTED_WIDE_S16_H

#include "../isa/wide/wide.h"

/* in: x int16 [depth], w int16 packed [out / 16][k / 2][16][2] for k = depth rounded up to 2, with zeros there; bias and
 * mult int32 [out padded to 16]. No sum leaves 32 bits; it ends as sum * mult / 2^32 rounded half up. out: y int16 [out].
 * scratch: int16 [k], or nothing where depth is even. */
typedef struct {
    tw_limits limits;
    int32_t depth, out;
} tw_fully_connected_wide_s16_params;

/* Some blocks of outputs, a constant, from output c on; k is even. */
TW_INLINE void tw_dense_blocks_s16(const void *const *in, const uint8_t *x, int32_t k, int16_t *y, int32_t c,
                                   int blocks, const tw_fully_connected_wide_s16_params *p) {
    const int32_t *bias = (const int32_t *)in[2] + c, *mult = (const int32_t *)in[3] + c;
    const int8_t *w = (const int8_t *)in[1] + 2 * c * k;
    tw_acc acc[TW_ROW_BLOCKS];
    for (int b = 0; b < blocks; ++b) acc[b] = tw_acc_load(bias + TW_LANES * b);
    for (int32_t i = 0; i < k; i += 2)
        for (int b = 0; b < blocks; ++b) acc[b] = tw_acc_dot2(acc[b], x + 2 * i, w + 2 * TW_LANES * (b * k + i));
    for (int b = 0; b < blocks; ++b)
        tw_acc_end_s16(y + c + TW_LANES * b, acc[b], tw_acc_load(mult + TW_LANES * b), &p->limits,
                       p->out - c - TW_LANES * b);
}

TW_KERNEL(tw_fully_connected_wide_s16) {
    const tw_fully_connected_wide_s16_params p = *params;
    const int32_t k = p.depth + p.depth % 2;
    const uint8_t *x = (const uint8_t *)in[0];
    int32_t c = 0;
    if (p.depth % 2) {
        int16_t *row = (int16_t *)scratch;
        memcpy(row, x, 2 * (size_t)p.depth);
        row[p.depth] = 0;
        x = (const uint8_t *)row;
    }
    for (; c + TW_LANES * (TW_ROW_BLOCKS - 1) < p.out; c += TW_LANES * TW_ROW_BLOCKS)
        tw_dense_blocks_s16(in, x, k, (int16_t *)out[0], c, TW_ROW_BLOCKS, &p);
    for (; c < p.out; c += TW_LANES) tw_dense_blocks_s16(in, x, k, (int16_t *)out[0], c, 1, &p);
}

#endif
