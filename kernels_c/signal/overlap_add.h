/* SPDX-License-Identifier: Apache-2.0 */
/* SignalOverlapAdd: a stream from frames that overlap. */
#ifndef TW_OVERLAP_ADD_H
#define TW_OVERLAP_ADD_H

#include "../core/tw.h"

/* in: x [rows, frames, size]. out: y [rows, frames, step], state [rows, size]: what later frames are added to. int16
 * sums saturate. 1 <= step <= size. */
typedef struct {
    int32_t rows, frames, size, step;
} tw_overlap_add;

typedef tw_overlap_add tw_overlap_add_s16_params;
typedef tw_overlap_add tw_overlap_add_f32_params;

#define TW_OVERLAP_ADD(scalar, sum)                                                                                    \
    const tw_overlap_add p = *params;                                                                                  \
    const scalar *x = (const scalar *)in[0];                                                                           \
    scalar *y = (scalar *)out[0], *state = (scalar *)out[1];                                                           \
    const size_t done = (size_t)p.step * sizeof(scalar), left = (size_t)(p.size - p.step) * sizeof(scalar);            \
    for (int32_t frame = 0; frame < p.rows * p.frames; ++frame, x += p.size, y += p.step) {                            \
        if (frame && frame % p.frames == 0) state += p.size;                                                           \
        for (int32_t i = 0; i < p.size; ++i) state[i] = (scalar)(sum);                                                 \
        memcpy(y, state, done);                                                                                        \
        memmove(state, state + p.step, left);                                                                          \
        memset(state + p.size - p.step, 0, done);                                                                      \
    }

TW_KERNEL(tw_overlap_add_s16) { TW_OVERLAP_ADD(int16_t, tw_clamp(x[i] + state[i], INT16_MIN, INT16_MAX)); }

TW_KERNEL(tw_overlap_add_f32) { TW_OVERLAP_ADD(float, x[i] + state[i]); }

#endif
