/* SPDX-License-Identifier: Apache-2.0 */
/* Weights as indices of 1..7 bits into a table of their values; one kernel per width, so that fields lie at known
 * bits. */
#ifndef TW_DECODE_LUT_H
#define TW_DECODE_LUT_H

#include "decode.h"

/* Builds the table of all pairs of values, which gives two elements at once, for up to 4 bits. in: values int8 [count].
 * out: uint16 [count * count], at count * b + a the bytes (a, b) or, with halves, 256 * b + a. */
typedef struct {
    int32_t count, halves;
} tw_decode_lut_pairs_params;

TW_KERNEL(tw_decode_lut_pairs) {
    const tw_decode_lut_pairs_params p = *params;
    const int8_t *TW_RESTRICT values = (const int8_t *)in[0];
    uint16_t *TW_RESTRICT pairs = (uint16_t *)out[0];
    for (int32_t b = 0; b < p.count; ++b)
        for (int32_t a = 0; a < p.count; ++a) {
            const int32_t low = p.halves ? values[a] : (uint8_t)values[a];
            *pairs++ = (uint16_t)(256 * values[b] + low);
        }
}

/* in: codes uint8 [rows][body / 8][bits], element j of eight at bit bits * j, with 3 more bytes at the end; the table:
 * pairs (above) for up to 4 bits, else values int8 [2^bits]; ends (decode.h) or null. out: int8 [rows][head + body +
 * tail]. halves (5 bits or more): 256 * b + a for bytes (a, b). */
typedef struct {
    int32_t rows, head, body, tail, halves;
} tw_decode_lut_params;

/* Eight elements from a table of pairs. */
TW_INLINE void tw_lut_pairs8(const uint8_t *codes, const uint16_t *pairs, int8_t *y, int32_t bits) {
    const uint32_t w = bits == 4 ? tw_load4(codes) : tw_word(codes), mask = (1U << (2 * bits)) - 1;
    tw_store4(y, pairs[w & mask] | (uint32_t)pairs[w >> (2 * bits) & mask] << 16);
    tw_store4(y + 4, pairs[w >> (4 * bits) & mask] | (uint32_t)pairs[w >> (6 * bits) & mask] << 16);
}

/* Four elements in the low bits of a word. */
TW_INLINE uint32_t tw_lut4(uint32_t w, const uint8_t *values, int32_t bits) {
    const uint32_t mask = (1U << bits) - 1;
    return values[w & mask] | (uint32_t)values[w >> bits & mask] << 8 | (uint32_t)values[w >> (2 * bits) & mask] << 16 |
           (uint32_t)values[w >> (3 * bits) & mask] << 24;
}

/* Eight elements from a table of values. */
TW_INLINE void tw_lut_values8(const uint8_t *codes, const uint8_t *values, int8_t *y, int32_t bits) {
    tw_store4(y, tw_lut4(tw_word(codes), values, bits));
    tw_store4(y + 4, tw_lut4(tw_word(codes + bits / 2) >> (4 * (bits & 1)), values, bits));
}

TW_INLINE void tw_decode_lut(const tw_decode_lut_params *params, const void *const *in, void *const *out,
                             int32_t bits) {
    const tw_decode_lut_params p = *params;
    const uint8_t *codes = (const uint8_t *)in[0];
    const void *const table = in[1];
    const int8_t *ends = (const int8_t *)in[2];
    int8_t *TW_RESTRICT y = (int8_t *)out[0];
    for (int32_t row = 0; row < p.rows; ++row) {
        ends = tw_decode_ends(y, ends, p.head);
        y += p.head;
        for (const int8_t *const end = y + p.body; y != end; y += 8, codes += bits) {
            if (bits <= 4)
                tw_lut_pairs8(codes, (const uint16_t *)table, y, bits);
            else
                tw_lut_values8(codes, (const uint8_t *)table, y, bits);
        }
        if (bits > 4 && p.halves) tw_decode_halves(y - p.body, p.body);
        ends = tw_decode_ends(y, ends, p.tail);
        y += p.tail;
    }
}

typedef tw_decode_lut_params tw_decode_lut1_params;
typedef tw_decode_lut_params tw_decode_lut2_params;
typedef tw_decode_lut_params tw_decode_lut3_params;
typedef tw_decode_lut_params tw_decode_lut4_params;
typedef tw_decode_lut_params tw_decode_lut5_params;
typedef tw_decode_lut_params tw_decode_lut6_params;
typedef tw_decode_lut_params tw_decode_lut7_params;

TW_KERNEL(tw_decode_lut1) { tw_decode_lut(params, in, out, 1); }
TW_KERNEL(tw_decode_lut2) { tw_decode_lut(params, in, out, 2); }
TW_KERNEL(tw_decode_lut3) { tw_decode_lut(params, in, out, 3); }
TW_KERNEL(tw_decode_lut4) { tw_decode_lut(params, in, out, 4); }
TW_KERNEL(tw_decode_lut5) { tw_decode_lut(params, in, out, 5); }
TW_KERNEL(tw_decode_lut6) { tw_decode_lut(params, in, out, 6); }
TW_KERNEL(tw_decode_lut7) { tw_decode_lut(params, in, out, 7); }

#endif
