/* SPDX-License-Identifier: Apache-2.0 */
/* Weights as one bit per element, 1 where it is not zero, and the values that are not zero. */
#ifndef TW_DECODE_BITMAP_H
#define TW_DECODE_BITMAP_H

#include "decode.h"

/* in: bitmap uint32 [rows][body / 32 rounded up], the first element's bit highest; values int8; start int32: the number
 * of the first value to read; ends (decode.h) or null. out: int8 [rows][head + body + tail]. halves: 256 * b + a for
 * bytes (a, b). */
typedef struct {
    int32_t rows, head, body, tail, halves;
} tw_decode_bitmap_params;

/* Up to 32 elements; returns the values that follow. */
TW_INLINE const int8_t *tw_bitmap32(uint32_t bits, const int8_t *values, int8_t *y) {
    while (bits != 0) {
        const int32_t i = __builtin_clz(bits);
        bits &= ~(0x80000000U >> i);
        y[i] = *values++;
    }
    return values;
}

TW_KERNEL(tw_decode_bitmap) {
    const tw_decode_bitmap_params p = *params;
    const uint32_t *bitmap = (const uint32_t *)in[0];
    const int8_t *values = (const int8_t *)in[1] + *(const int32_t *)in[2];
    const int8_t *ends = (const int8_t *)in[3];
    int8_t *y = (int8_t *)out[0];
    for (int32_t row = 0; row < p.rows; ++row) {
        ends = tw_decode_ends(y, ends, p.head);
        y += p.head;
        for (int32_t i = 0; i < p.body; i += 4) tw_store4(y + i, 0);
        for (int32_t i = 0; i < p.body; i += 32) values = tw_bitmap32(*bitmap++, values, y + i);
        if (p.halves) tw_decode_halves(y, p.body);
        ends = tw_decode_ends(y + p.body, ends, p.tail);
        y += p.body + p.tail;
    }
}

#endif
