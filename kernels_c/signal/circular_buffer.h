/* SPDX-License-Identifier: Apache-2.0 */
/* CIRCULAR_BUFFER: the last few values of a stream, the newest last. */
#ifndef TW_CIRCULAR_BUFFER_H
#define TW_CIRCULAR_BUFFER_H

#include "../core/tw.h"

/* in: x [size] int8. out: y [slots, size], the same as state, which may be y itself. If cycles > 0, also runs so far,
 * modulo cycles [1] int32, a state, and valid [1] bool, which is true in every run of that number. */
typedef struct {
    int32_t slots, size, cycles;
} tw_circular_buffer_params;

TW_KERNEL(tw_circular_buffer) {
    const tw_circular_buffer_params p = *params;
    const size_t size = (size_t)p.size, older = (size_t)(p.slots - 1) * size;
    char *state = (char *)out[1];
    memmove(state, state + size, older);
    memcpy(state + older, in[0], size);
    if (out[0] != out[1]) memcpy(out[0], state, older + size);
    if (p.cycles > 0) {
        int32_t *runs = (int32_t *)out[2];
        *runs = *runs + 1 < p.cycles ? *runs + 1 : 0;
        *(uint8_t *)out[3] = *runs == 0;
    }
}

#endif
