/* SPDX-License-Identifier: Apache-2.0 */
/* How data movers move: rows of evenly spaced elements, without a call per element if that is a machine word. */
#ifndef TW_MOVE_H
#define TW_MOVE_H

#include "../core/bytes.h"

TW_INLINE void tw_move_sized(uint8_t *TW_RESTRICT y, int32_t y_step, const uint8_t *TW_RESTRICT x, int32_t x_step,
                             int32_t count, int32_t size) {
    for (int32_t i = 0; i < count; ++i) tw_copy_bytes(y + (ptrdiff_t)i * y_step, x + (ptrdiff_t)i * x_step, size);
}

/* The same for sizes between one and two words: copies the first and the last word, which may overlap. */
TW_INLINE void tw_move_pair(uint8_t *TW_RESTRICT y, int32_t y_step, const uint8_t *TW_RESTRICT x, int32_t x_step,
                            int32_t count, int32_t size, int32_t word) {
    tw_move_sized(y, y_step, x, x_step, count, word);
    tw_move_sized(y + size - word, y_step, x + size - word, x_step, count, word);
}

/* The same as tw_move in words that divide every element; word 0: a call of memcpy per element, for long ones. */
TW_INLINE void tw_move_words(uint8_t *TW_RESTRICT y, int32_t y_step, const uint8_t *TW_RESTRICT x, int32_t x_step,
                             int32_t count, int32_t size, int32_t word) {
    for (int32_t i = 0; i < count; ++i) {
        if (word)
            for (int32_t k = 0; k < size; k += word) memcpy(y + k, x + k, (size_t)word);
        else
            tw_copy_bytes(y, x, size);
        y += y_step;
        x += x_step;
    }
}

/* Copies count elements of size bytes; they start y_step and x_step bytes apart (steps may be negative). Only long
 * elements take a call of memcpy each. */
TW_INLINE void tw_move(uint8_t *TW_RESTRICT y, int32_t y_step, const uint8_t *TW_RESTRICT x, int32_t x_step,
                       int32_t count, int32_t size) {
    switch (size) {
    case 1: tw_move_sized(y, y_step, x, x_step, count, 1); return;
    case 2: tw_move_sized(y, y_step, x, x_step, count, 2); return;
    case 3: tw_move_sized(y, y_step, x, x_step, count, 3); return;
    case 4: tw_move_sized(y, y_step, x, x_step, count, 4); return;
    case 8: tw_move_sized(y, y_step, x, x_step, count, 8); return;
    case 16: tw_move_sized(y, y_step, x, x_step, count, 16); return;
    case 32: tw_move_sized(y, y_step, x, x_step, count, 32); return;
    case 64: tw_move_sized(y, y_step, x, x_step, count, 64); return;
    default: break;
    }
    if (size > 4 && size < 8)
        tw_move_pair(y, y_step, x, x_step, count, size, 4);
    else if (size > 8 && size < 16)
        tw_move_pair(y, y_step, x, x_step, count, size, 8);
    else if (size > 16 && size < 32)
        tw_move_pair(y, y_step, x, x_step, count, size, 16);
    else
        tw_move_words(y, y_step, x, x_step, count, size, 0);
}

TW_INLINE void tw_fill_sized(uint8_t *TW_RESTRICT y, int32_t bytes, const uint8_t *TW_RESTRICT value, int32_t size) {
    uint8_t element[16];
    for (int32_t i = 0; i < size; ++i) element[i] = value[i]; /* memcpy: gcc -Og warns of sizes that never are */
    for (int32_t i = 0; i < bytes; i += size) memcpy(y + i, element, (size_t)size);
}

/* Fills y [bytes] with copies of one element of size 1, 2, 4, 8 or 16 bytes. */
TW_INLINE void tw_fill(uint8_t *TW_RESTRICT y, int32_t bytes, const uint8_t *TW_RESTRICT value, int32_t size) {
    switch (size) {
    case 1: tw_fill_bytes(y, value[0], bytes); break;
    case 2: tw_fill_sized(y, bytes, value, 2); break;
    case 4: tw_fill_sized(y, bytes, value, 4); break;
    case 8: tw_fill_sized(y, bytes, value, 8); break;
    default: tw_fill_sized(y, bytes, value, 16); break;
    }
}

#endif
