/* SPDX-License-Identifier: Apache-2.0 */
/* SignalStacker: a frame with those before and behind it. */
#ifndef TW_STACKER_H
#define TW_STACKER_H

#include "../core/tw.h"

/* in: x [size] int16. out: y [slots, size] int16, valid [1] bool, state: frames [slots, size] int16, and how many are
 * held, plus 1, or 0 before the first [1] int32. The first frame counts left times more. When all slots are full, y is
 * they, and the step oldest are dropped; else y is 0 and not valid. 1 <= step <= slots, left < slots. */
typedef struct {
    int32_t size, slots, left, step;
} tw_stacker_params;

TW_KERNEL(tw_stacker) {
    const tw_stacker_params p = *params;
    const size_t bytes = (size_t)p.size * sizeof(int16_t);
    char *frames = (char *)out[2];
    int32_t *count = (int32_t *)out[3];
    const int32_t added = *count ? 1 : 1 + p.left;
    int32_t held = *count ? *count - 1 : 0;
    for (int32_t i = 0; i < added; ++i, ++held) memcpy(frames + (size_t)held * bytes, in[0], bytes);
    *(uint8_t *)out[1] = held == p.slots;
    if (held == p.slots) {
        held -= p.step;
        memcpy(out[0], frames, (size_t)p.slots * bytes);
        memmove(frames, frames + (size_t)p.step * bytes, (size_t)held * bytes);
    } else {
        memset(out[0], 0, (size_t)p.slots * bytes);
    }
    *count = held + 1;
}

#endif
