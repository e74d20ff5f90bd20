/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a plan's steps from a table of constants: the interpreted mode of emitted C. Nothing is written but the arena. */
#ifndef TW_RUN_H
#define TW_RUN_H

#include "../core/tw.h"

/* What the caller gives. last: the number of the arena's last byte; those above are the state's, from its first on. */
typedef struct {
    unsigned char *arena, *state;
    int32_t last;
} tw_memory;

/* Byte number at. */
TW_INLINE unsigned char *tw_byte(const tw_memory *memory, int32_t at) {
    return at <= memory->last ? memory->arena + at : memory->state + (at - memory->last - 1);
}

/* One step of a plan, ready for flash. pointers: of the inputs, then of the outputs; n >= 0 is byte number n, n < 0 is
 * constant number ~n. scratch: its first byte in the arena. */
typedef struct {
    tw_fn *kernel;
    const void *params;
    const int32_t *pointers;
    int32_t scratch;
    uint16_t inputs, outputs;
} tw_step;

/* in, out: room for the step's pointers. */
TW_INLINE void tw_run_step(const tw_step *step, const void *const *constants, const tw_memory *memory, const void **in,
                           void **out) {
    const int32_t *at = step->pointers;
    for (int32_t i = 0; i < step->inputs; ++i, ++at) in[i] = *at < 0 ? constants[~*at] : tw_byte(memory, *at);
    for (int32_t i = 0; i < step->outputs; ++i, ++at) out[i] = tw_byte(memory, *at);
    step->kernel(step->params, in, out, memory->arena + step->scratch);
}

#endif
