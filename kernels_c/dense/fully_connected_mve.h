/* SPDX-License-Identifier: Apache-2.0 */
/* FULLY_CONNECTED on Helium. */
#ifndef TW_FULLY_CONNECTED_MVE_H
#define TW_FULLY_CONNECTED_MVE_H

#include "../isa/mve/mve_tile.h"

/* int8. in: x [batches, depth], w [out, depth], ends int32 [out / 4 rounded up][9]: per four channels their biases with
 * the input zero point folded in, multipliers, and shifts int8 [4], -31..-1. The last four begin at out - 4; if there
 * are fewer, they are all. out: y [batches, out]. */
typedef struct {
    tw_epilogue_s8 end;
    int32_t batches, depth, out;
} tw_fully_connected_mve_s8_params;

TW_KERNEL(tw_fully_connected_mve_s8) {
    const tw_fully_connected_mve_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    const int32_t most = p.out - 1, last = tw_max(p.out - 4, 0);
    const tw_mve_four_rows rows = tw_mve_four_rows_of(p.depth, p.out);
    int8_t few[4];
    for (int32_t b = 0; b < p.batches; ++b, x += p.depth, y += p.out) {
        int8_t *const to = most < 3 ? few : y;
        const int32_t *ends = (const int32_t *)in[2];
#pragma GCC unroll 1
        for (int32_t c = 0; c < p.out; c += 4, ends += 9) {
            const int32_t at = tw_min(c, last);
            const tw_v4 sums = tw_mve_tile1(x, (const int8_t *)in[1] + at * p.depth, rows.at, ends);
            const tw_v4 mult = tw_v4_load(ends + 4, 4), shift = tw_v4_load_s8((const int8_t *)(ends + 8), 4);
            tw_v4_store_s8(to + at, tw_v4_scaled(sums, mult, shift), p.end.zero, p.end.low, p.end.high, 4);
        }
        if (most < 3) memcpy(y, few, (size_t)p.out);
    }
}

/* The same for a depth that is a multiple of 16, and eights of channels (mve_tile.h). in: x [batches, depth], w [out /
 * 8][depth / 16][8][16], ends int32 [out / 8][18]: their biases, multipliers and shifts int8 [8]. */
typedef tw_fully_connected_mve_s8_params tw_fully_connected_eights_mve_s8_params;

TW_KERNEL(tw_fully_connected_eights_mve_s8) {
    const tw_fully_connected_eights_mve_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    for (int32_t b = 0; b < p.batches; ++b, x += p.depth) {
        const int8_t *w = (const int8_t *)in[1];
        const int32_t *ends = (const int32_t *)in[2];
        TW_ROLLED
        for (int32_t left = p.out; left > 0; left -= 8, w += 8 * p.depth, ends += 18, y += 8) {
            tw_mve_eight v = tw_mve_tile8(x, w, ends, p.depth / TW_MVE_BLOCK);
            const int8_t *shifts = (const int8_t *)(ends + 16);
            v.even = tw_v4_scaled(v.even, tw_v4_load(ends + 8, 4), tw_v4_load_s8(shifts, 4));
            v.odd = tw_v4_scaled(v.odd, tw_v4_load(ends + 12, 4), tw_v4_load_s8(shifts + 4, 4));
            tw_mve_store8(y, v, p.end.zero, p.end.low, p.end.high);
        }
    }
}

/* What was uint8. in: x [batches, depth], w [out, depth], bias int32 [out / 4 rounded up][4] as above. */
typedef struct {
    tw_unsigned_end end;
    int32_t batches, depth, out;
} tw_fully_connected_unsigned_mve_s8_params;

TW_KERNEL(tw_fully_connected_unsigned_mve_s8) {
    const tw_fully_connected_unsigned_mve_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    const int32_t last = tw_max(p.out - 4, 0);
    const tw_mve_four_rows rows = tw_mve_four_rows_of(p.depth, p.out);
    int8_t few[4];
    for (int32_t b = 0; b < p.batches; ++b, x += p.depth, y += p.out) {
        int8_t *const to = p.out < 4 ? few : y;
        const int32_t *bias = (const int32_t *)in[2];
#pragma GCC unroll 1
        for (int32_t c = 0; c < p.out; c += 4, bias += 4) {
            const int32_t at = tw_min(c, last);
            const tw_v4 sums = tw_mve_tile1(x, (const int8_t *)in[1] + at * p.depth, rows.at, bias);
            tw_v4_store_s8(to + at, tw_v4_scaled_unsigned(sums, &p.end), p.end.zero, p.end.low, p.end.high, 4);
        }
        if (p.out < 4) memcpy(y, few, (size_t)p.out);
    }
}

/* The same for a depth that is a multiple of 16, and eights of channels. in: x [batches, depth], w [out / 8][depth / 16][8]
 * [16], bias int32 [out]. */
typedef tw_fully_connected_unsigned_mve_s8_params tw_fully_connected_unsigned_eights_mve_s8_params;

TW_KERNEL(tw_fully_connected_unsigned_eights_mve_s8) {
    const tw_fully_connected_unsigned_eights_mve_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    for (int32_t b = 0; b < p.batches; ++b, x += p.depth) {
        const int8_t *w = (const int8_t *)in[1];
        const int32_t *bias = (const int32_t *)in[2];
        TW_ROLLED
        for (int32_t left = p.out; left > 0; left -= 8, w += 8 * p.depth, bias += 8, y += 8) {
            tw_mve_eight v = tw_mve_tile8(x, w, bias, p.depth / TW_MVE_BLOCK);
            v.even = tw_v4_scaled_unsigned(v.even, &p.end);
            v.odd = tw_v4_scaled_unsigned(v.odd, &p.end);
            tw_mve_store8(y, v, p.end.zero, p.end.low, p.end.high);
        }
    }
}

#endif
