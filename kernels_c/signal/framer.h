/* SPDX-License-Identifier: Apache-2.0 */
/* SignalFramer: overlapping frames of a stream. */
#ifndef TW_FRAMER_H
#define TW_FRAMER_H

#include "../core/tw.h"

/* in: x [rows, frames, step] int16. out: y [rows, frames, size] int16, valid [1] bool, state: held values [rows, room]
 * int16, and how many are held of a row [1] int32. A frame is the size oldest of these and step new values; of all, the
 * step oldest are then dropped. Until there are enough, frames are 0 and not valid. first: how many zeros count as held
 * in the beginning. room >= first, and the least multiple of step that is >= size - step. */
typedef struct {
    int32_t rows, frames, step, size, room, first;
} tw_framer_params;

/* One frame of one row, held + step values being there; returns whether they are enough. */
TW_INLINE int32_t tw_framer_frame(int16_t *y, int16_t *old, const int16_t *x, int32_t held, int32_t step,
                                  int32_t size) {
    const size_t bytes = sizeof *x;
    const int32_t enough = held + step >= size, dropped = enough ? tw_min(held, step) : 0;
    const int32_t unseen = enough ? step - dropped : 0;
    if (enough) {
        memcpy(y, old, (size_t)tw_min(held, size) * bytes);
        if (size > held) memcpy(y + held, x, (size_t)(size - held) * bytes);
    } else {
        memset(y, 0, (size_t)size * bytes);
    }
    memmove(old, old + dropped, (size_t)(held - dropped) * bytes);
    memcpy(old + held - dropped, x + unseen, (size_t)(step - unseen) * bytes);
    return enough;
}

TW_KERNEL(tw_framer) {
    const tw_framer_params p = *params;
    const int16_t *x = (const int16_t *)in[0];
    int16_t *y = (int16_t *)out[0], *old = (int16_t *)out[2];
    int32_t *count = (int32_t *)out[3], held = 0, valid = 1;
    for (int32_t row = 0; row < p.rows; ++row, old += p.room) {
        held = p.first + *count;
        for (int32_t frame = 0; frame < p.frames; ++frame, x += p.step, y += p.size) {
            const int32_t enough = tw_framer_frame(y, old, x, held, p.step, p.size);
            held += enough ? 0 : p.step;
            valid &= enough;
        }
    }
    *count = held - p.first;
    *(uint8_t *)out[1] = (uint8_t)valid;
}

#endif
