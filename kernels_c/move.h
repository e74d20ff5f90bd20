/* How data movers move: rows of equally spaced elements, without a call per element where it is a machine word. */
#ifndef TW_MOVE_H
#define TW_MOVE_H

#include "tw.h"

TW_INLINE void tw_move_sized(uint8_t *TW_RESTRICT y, int32_t y_step, const uint8_t *TW_RESTRICT x, int32_t x_step,
                             int32_t count, int32_t size) {
    for (int32_t i = 0; i < count; ++i)
        memcpy(y + (ptrdiff_t)i * y_step, x + (ptrdiff_t)i * x_step, (size_t)size);
}

/* Copies count elements of size bytes; they start y_step and x_step bytes apart (steps may be negative). The sizes
 * named here become loads and stores: words, and what three or four channels of them make. */
TW_INLINE void tw_move(uint8_t *TW_RESTRICT y, int32_t y_step, const uint8_t *TW_RESTRICT x, int32_t x_step,
                       int32_t count, int32_t size) {
    switch (size) {
    case 1: tw_move_sized(y, y_step, x, x_step, count, 1); break;
    case 2: tw_move_sized(y, y_step, x, x_step, count, 2); break;
    case 3: tw_move_sized(y, y_step, x, x_step, count, 3); break;
    case 4: tw_move_sized(y, y_step, x, x_step, count, 4); break;
    case 8: tw_move_sized(y, y_step, x, x_step, count, 8); break;
    case 12: tw_move_sized(y, y_step, x, x_step, count, 12); break;
    case 16: tw_move_sized(y, y_step, x, x_step, count, 16); break;
    default: tw_move_sized(y, y_step, x, x_step, count, size); break;
    }
}

TW_INLINE void tw_fill_sized(uint8_t *TW_RESTRICT y, int32_t bytes, const uint8_t *TW_RESTRICT value, int32_t size) {
    uint8_t element[16];
    memcpy(element, value, (size_t)size);
    for (int32_t i = 0; i < bytes; i += size) memcpy(y + i, element, (size_t)size);
}

/* Fills y [bytes] with copies of one element of size 1, 2, 4, 8 or 16 bytes. */
TW_INLINE void tw_fill(uint8_t *TW_RESTRICT y, int32_t bytes, const uint8_t *TW_RESTRICT value, int32_t size) {
    switch (size) {
    case 1: memset(y, value[0], (size_t)bytes); break;
    case 2: tw_fill_sized(y, bytes, value, 2); break;
    case 4: tw_fill_sized(y, bytes, value, 4); break;
    case 8: tw_fill_sized(y, bytes, value, 8); break;
    default: tw_fill_sized(y, bytes, value, 16); break;
    }
}

#endif
