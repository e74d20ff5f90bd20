/* SPDX-License-Identifier: Apache-2.0 */
/* Weights in a canonical Huffman code of their bytes, with codes of up to 12 bits. */
#ifndef TW_DECODE_HUFFMAN_H
#define TW_DECODE_HUFFMAN_H

#include "decode.h"

/* Builds the table in which codes are looked up. in: lengths uint16 [bits]: how many codes have 1, 2, ... bits; symbols
 * int8 in the order of their codes. out: uint16 [2^bits]: for the next bits, the first one highest, 256 * length +
 * symbol. */
typedef struct {
    int32_t bits;
} tw_decode_huffman_table_params;

TW_KERNEL(tw_decode_huffman_table) {
    const tw_decode_huffman_table_params p = *params;
    const uint16_t *lengths = (const uint16_t *)in[0];
    const uint8_t *symbol = (const uint8_t *)in[1];
    uint16_t *to = (uint16_t *)out[0];
    for (int32_t length = 1; length <= p.bits; ++length)
        for (int32_t left = lengths[length - 1]; left > 0; --left, ++symbol) {
            const uint16_t entry = (uint16_t)(256 * length + *symbol);
            for (const uint16_t *const end = to + (1 << (p.bits - length)); to != end; ++to) *to = entry;
        }
}

/* in: codes uint8, the first bit highest, with 4 more bytes at the end; table (above); start int32: the first byte to
 * read; ends (decode.h) or null. out: int8 [rows][head + body + tail]. bits: the longest code. halves: 256 * b + a for
 * bytes (a, b). */
typedef struct {
    int32_t rows, head, body, tail, halves, bits;
} tw_decode_huffman_params;

/* The 25 bits or more that begin at bit `at`, the first one highest. */
TW_INLINE uint32_t tw_huffman_bits(const uint8_t *codes, uint32_t at) {
    return __builtin_bswap32(tw_word(codes + (at >> 3))) << (at & 7);
}

/* Two symbols to y; returns where the next code begins. */
TW_INLINE uint32_t tw_huffman2(const uint8_t *codes, uint32_t at, const uint16_t *table, int32_t unused, int8_t *y) {
    const uint32_t next = tw_huffman_bits(codes, at);
    const uint32_t first = table[next >> unused], length = first >> 8;
    const uint32_t second = table[next << length >> unused];
    y[0] = (int8_t)(uint8_t)first;
    y[1] = (int8_t)(uint8_t)second;
    return at + length + (second >> 8);
}

TW_KERNEL(tw_decode_huffman) {
    const tw_decode_huffman_params p = *params;
    const uint8_t *TW_RESTRICT codes = (const uint8_t *)in[0] + *(const int32_t *)in[2];
    const uint16_t *TW_RESTRICT table = (const uint16_t *)in[1];
    const int8_t *ends = (const int8_t *)in[3];
    int8_t *TW_RESTRICT y = (int8_t *)out[0];
    uint32_t at = 0;
    for (int32_t row = 0; row < p.rows; ++row) {
        ends = tw_decode_ends(y, ends, p.head);
        y += p.head;
        for (const int8_t *const end = y + p.body; y != end; y += 4) {
            at = tw_huffman2(codes, at, table, 32 - p.bits, y);
            at = tw_huffman2(codes, at, table, 32 - p.bits, y + 2);
        }
        if (p.halves) tw_decode_halves(y - p.body, p.body);
        ends = tw_decode_ends(y, ends, p.tail);
        y += p.tail;
    }
}

#endif
