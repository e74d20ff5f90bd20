/* SPDX-License-Identifier: Apache-2.0 */
/* FULLY_CONNECTED: y = x . w^T + bias. */
#ifndef TW_FULLY_CONNECTED_H
#define TW_FULLY_CONNECTED_H

#include "../core/hybrid.h"
#include "../core/sums.h"
#include "../core/sums_f32.h"
#include "../isa/wide/wide_f32.h"

/* int8, plain C, constant weights. in: x [batches, depth], w [out, depth], bias int32 [out] with the input zero point
 * folded in (less in_zero times the row's sum of weights), mult int32 [mults], shift int8 [mults]. mults: 1 (per
 * tensor) or out (per channel). out: y [batches, out]. fast: tw_scaled is exact for all channels. */
typedef struct {
    tw_epilogue_s8 end;
    int32_t batches, depth, out, mults, fast;
} tw_fully_connected_s8_params;

/* One row of outputs. */
TW_INLINE void tw_fully_connected_row_s8(const int8_t *x, const int8_t *w, int8_t *y, const tw_channels_s8 *channels,
                                         const tw_fully_connected_s8_params *p) {
    const int32_t own = p->mults > 1, mult = channels->mult[0], shift = channels->shift[0];
    const tw_rows rows = tw_rows_of(p->out, TW_TILE);
    for (int32_t next = 0; next < p->out; next += rows.step) {
        const int32_t first = tw_min(next, p->out - rows.step);
        int32_t acc[TW_TILE];
        for (int j = 0; j < TW_TILE; ++j) acc[j] = channels->bias[first + j * rows.apart];
        tw_rows_s8(acc, x, w + first * p->depth, p->depth, rows.apart * p->depth);
        for (int j = 0; j < TW_TILE; ++j) {
            const int32_t c = first + j * rows.apart;
            y[c] = tw_end_s8(acc[j], own ? channels->mult[c] : mult, own ? channels->shift[c] : shift, channels);
        }
    }
}

TW_KERNEL(tw_fully_connected_s8) {
    const tw_fully_connected_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    const tw_channels_s8 channels = tw_channels_s8_of(in, 0, p.fast, &p.end);
    (void)scratch;
    for (int32_t b = 0; b < p.batches; ++b, x += p.depth, y += p.out)
        tw_fully_connected_row_s8(x, (const int8_t *)in[1], y, &channels, &p);
}

/* int8 with weights or bias computed at run time, or weights with a zero point. in and out as above, but nothing is
 * folded into bias. */
typedef struct {
    tw_epilogue_s8 end;
    int32_t batches, depth, out, mults, in_zero, w_zero;
} tw_fully_connected_runtime_s8_params;

TW_KERNEL(tw_fully_connected_runtime_s8) {
    const tw_fully_connected_runtime_s8_params p = *params;
    const int8_t *TW_RESTRICT x = (const int8_t *)in[0];
    const int32_t *TW_RESTRICT bias = (const int32_t *)in[2];
    const int32_t *TW_RESTRICT mult = (const int32_t *)in[3];
    const int8_t *TW_RESTRICT shift = (const int8_t *)in[4];
    int8_t *TW_RESTRICT y = (int8_t *)out[0];
    (void)scratch;
    for (int32_t b = 0; b < p.batches; ++b, x += p.depth) {
        const int8_t *TW_RESTRICT w = (const int8_t *)in[1];
        for (int32_t c = 0; c < p.out; ++c, w += p.depth) {
            int32_t acc = bias[c];
            for (int32_t i = 0; i < p.depth; ++i) acc = tw_add(acc, (x[i] - p.in_zero) * (w[i] - p.w_zero));
            const int32_t m = p.mults > 1 ? c : 0;
            *y++ = tw_epilogue_s8_of(tw_requantize(acc, mult[m], shift[m]), &p.end);
        }
    }
}

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

/* float32, plain C. in: x [batches, depth], w [out, depth], bias [out] or null. out: y [batches, out]. */
typedef struct {
    tw_limits_f32 limits;
    int32_t batches, depth, out;
} tw_fully_connected_f32_params;

TW_KERNEL(tw_fully_connected_f32) {
    const tw_fully_connected_f32_params p = *params;
    const float *x = (const float *)in[0], *w = (const float *)in[1], *bias = (const float *)in[2];
    float *y = (float *)out[0];
    const tw_rows rows = tw_rows_of(p.out, 4);
    (void)scratch;
    for (int32_t b = 0; b < p.batches; ++b, x += p.depth, y += p.out)
        for (int32_t next = 0; next < p.out; next += rows.step) {
            const int32_t first = tw_min(next, p.out - rows.step);
            float acc[4] = {0.0F, 0.0F, 0.0F, 0.0F};
            tw_rows_f32(acc, x, w + first * p.depth, p.depth, rows.apart * p.depth);
            for (int32_t c = first; c < first + rows.step; ++c)
                y[c] = tw_clampf(acc[c - first] + bias[c], p.limits.low, p.limits.high);
        }
}

/* float32 over vectors of outputs, one batch. in: x [depth], w packed [out / 16][depth][16], bias [out padded to 16].
 * out: y [out]. */
typedef tw_fully_connected_f32_params tw_fully_connected_wide_f32_params;

/* Blocks of 16 outputs that are summed at once: enough to hide how long an addition takes. */
#define TW_F32_BLOCKS (TW_F32_LANES / 2)

/* Some blocks of outputs, a constant, from output c on. */
TW_INLINE void tw_dense_blocks_f32(const void *const *in, float *y, int32_t c, int blocks,
                                   const tw_fully_connected_f32_params *p) {
    const float *x = (const float *)in[0], *w = (const float *)in[1] + c * p->depth, *bias = (const float *)in[2];
    tw_f32v acc[TW_F32_BLOCKS][TW_F32_VECTORS];
    const tw_f32v zero = {0};
    const int32_t block = TW_LANES * p->depth;
    int32_t i = 0;
    for (int b = 0; b < blocks; ++b)
        for (int v = 0; v < TW_F32_VECTORS; ++v) acc[b][v] = zero;
    do {
        for (int b = 0; b < blocks; ++b)
            for (int v = 0; v < TW_F32_VECTORS; ++v) acc[b][v] += x[i] * tw_f32v_load(w + b * block + TW_F32_LANES * v);
        w += TW_LANES;
    } while (++i < p->depth);
    for (int b = 0; b < blocks; ++b)
        for (int v = 0; v < TW_F32_VECTORS; ++v) {
            const int32_t at = c + TW_LANES * b + TW_F32_LANES * v;
            tw_f32v_store(y + at, tw_f32v_clamp(acc[b][v] + tw_f32v_load(bias + at), &p->limits), p->out - at);
        }
}

TW_KERNEL(tw_fully_connected_wide_f32) {
    const tw_fully_connected_f32_params p = *params;
    int32_t c = 0;
    (void)scratch;
    for (; c + TW_LANES * (TW_F32_BLOCKS - 1) < p.out; c += TW_LANES * TW_F32_BLOCKS)
        tw_dense_blocks_f32(in, (float *)out[0], c, TW_F32_BLOCKS, &p);
    for (; c < p.out; c += TW_LANES) tw_dense_blocks_f32(in, (float *)out[0], c, 1, &p);
}

/* float32 activations, quantised at run time with one scale per row, and int8 weights. in: x float [batches, depth], w
 * packed (wide.h), w_sum int32 [out], w_scale float [out], bias float [out]. out: y float [batches, out]. scratch: int8
 * [depth] rounded up to 16, uint8 [depth4] rounded up to 16, int32 [out padded to 16]. Source: LiteRT's EvalHybrid. */
typedef struct {
    tw_limits_f32 limits;
    int32_t batches, depth, depth4, out, symmetric;
} tw_fully_connected_hybrid_params;

TW_KERNEL(tw_fully_connected_hybrid) {
    const tw_fully_connected_hybrid_params p = *params;
    const float *x = (const float *)in[0];
    const int32_t *TW_RESTRICT w_sum = (const int32_t *)in[2];
    const float *TW_RESTRICT w_scale = (const float *)in[3];
    const float *TW_RESTRICT bias = (const float *)in[4];
    float *TW_RESTRICT y = (float *)out[0];
    int8_t *quantized = (int8_t *)scratch;
    uint8_t *panel = (uint8_t *)scratch + (p.depth + 15) / 16 * 16;
    int32_t *sums = (int32_t *)(void *)(panel + (p.depth4 + 15) / 16 * 16);
    for (int32_t b = 0; b < p.batches; ++b, x += p.depth, y += p.out) {
        const tw_hybrid_quant q = tw_hybrid_quantize(quantized, x, p.depth, p.symmetric);
        tw_bias128(panel, quantized, p.depth);
        tw_hybrid_sums(panel, 1, p.depth4, (const int8_t *)in[1], sums, p.out);
        for (int32_t c = 0; c < p.out; ++c) {
            const int32_t sum = sums[c] - (128 + q.zero) * w_sum[c];
            y[c] = tw_boundf(bias[c] + (float)sum * (q.scale * w_scale[c]), p.limits.low, p.limits.high);
        }
    }
}

#endif
