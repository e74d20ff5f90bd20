/* SPDX-License-Identifier: Apache-2.0 */
/* FULLY_CONNECTED of int8: y = x . w^T + bias. */
#ifndef TW_FULLY_CONNECTED_H
#define TW_FULLY_CONNECTED_H

#include "../core/sums.h"

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

#endif
