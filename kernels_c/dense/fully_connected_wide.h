/* SPDX-License-Identifier: Apache-2.0 */
/* FULLY_CONNECTED over 16 lanes: y = x . w^T + bias. */
#ifndef TW_FULLY_CONNECTED_WIDE_H
#define TW_FULLY_CONNECTED_WIDE_H

#include "../isa/wide/wide.h"
#include "../isa/wide/wide_f32.h"
#include "fully_connected_f32.h"

/* int8 over 16 lanes. in: x [batches, depth], w packed (wide.h), bias int32 [out padded to 16], mult int32 and shift int8,
 * as many or, with mults 1, one for all. depth4: depth rounded up to 4. out: y [batches, out]. scratch: uint8 [batches
 * padded to 8, depth4] (one row for one batch). */
typedef struct {
    tw_epilogue_s8 end;
    int32_t batches, depth, depth4, out, mults, fast;
} tw_fully_connected_wide_s8_params;

TW_KERNEL(tw_fully_connected_wide_s8) {
    const tw_fully_connected_wide_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    const int8_t *w = (const int8_t *)in[1];
    tw_channels_s8 channels = tw_channels_s8_of(in, 0, p.fast, &p.end);
    uint8_t *panel = (uint8_t *)scratch;
    int32_t mult[TW_LANES];
    int8_t shift[TW_LANES];
    if (p.mults == 1) tw_channels_alike(&channels, mult, shift);
    for (int32_t b = 0; b < p.batches; ++b) tw_bias128(panel + b * p.depth4, x + b * p.depth, p.depth);
    if (p.batches == 1)
        tw_row_s8(panel, p.depth4, w, (int8_t *)out[0], p.out, &channels);
    else
        tw_panel_s8(panel, p.batches, p.depth4, w, (int8_t *)out[0], p.out, p.out, &channels);
}

/* int16, one batch. in: x int16 [depth], w int16 packed [out / 16][k / 2][16][2] for k = depth rounded up to 2, with zeros there; bias and
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

/* float32 over vectors of outputs, one batch. in: x [depth], w packed [out / 16][depth][16], bias [out padded to 16].
 * out: y [out]. */
typedef tw_fully_connected_f32_params tw_fully_connected_wide_f32_params;
typedef tw_fully_connected_f32_params tw_fully_connected_wide_fused_f32_params;

/* Blocks of 16 outputs that are summed at once: enough to hide how long an addition takes. */
#define TW_F32_BLOCKS (TW_F32_LANES / 2)

/* Some blocks of outputs, a constant, from output c on. fused: a constant (madd.h). */
TW_INLINE void tw_dense_blocks_f32(const void *const *in, float *y, int32_t c, int blocks,
                                   const tw_fully_connected_f32_params *p, int fused) {
    const float *x = (const float *)in[0], *w = (const float *)in[1] + c * p->depth, *bias = (const float *)in[2];
    tw_f32v acc[TW_F32_BLOCKS][TW_F32_VECTORS];
    const tw_f32v zero = {0};
    const int32_t block = TW_LANES * p->depth;
    int32_t i = 0;
    for (int b = 0; b < blocks; ++b)
        for (int v = 0; v < TW_F32_VECTORS; ++v) acc[b][v] = zero;
    do {
        for (int b = 0; b < blocks; ++b)
            for (int v = 0; v < TW_F32_VECTORS; ++v)
                acc[b][v] =
                    tw_f32v_madd(tw_f32v_all(x[i]), tw_f32v_load(w + b * block + TW_F32_LANES * v), acc[b][v], fused);
        w += TW_LANES;
    } while (++i < p->depth);
    for (int b = 0; b < blocks; ++b)
        for (int v = 0; v < TW_F32_VECTORS; ++v) {
            const int32_t at = c + TW_LANES * b + TW_F32_LANES * v;
            tw_f32v_store(y + at, tw_f32v_clamp(acc[b][v] + tw_f32v_load(bias + at), &p->limits), p->out - at);
        }
}

/* The kernel; fused, a constant: see madd.h. */
TW_INLINE void tw_fully_connected_wide_f32_of(const tw_fully_connected_f32_params *params, const void *const *in,
                                              void *const *out, int fused) {
    const tw_fully_connected_f32_params p = *params;
    int32_t c = 0;
    for (; c + TW_LANES * (TW_F32_BLOCKS - 1) < p.out; c += TW_LANES * TW_F32_BLOCKS)
        tw_dense_blocks_f32(in, (float *)out[0], c, TW_F32_BLOCKS, &p, fused);
    for (; c < p.out; c += TW_LANES) tw_dense_blocks_f32(in, (float *)out[0], c, 1, &p, fused);
}

TW_KERNEL(tw_fully_connected_wide_f32) { tw_fully_connected_wide_f32_of(params, in, out, 0); }

TW_KERNEL(tw_fully_connected_wide_fused_f32) { tw_fully_connected_wide_f32_of(params, in, out, 1); }

#endif
