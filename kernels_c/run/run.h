/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a plan's steps from a table of constants: the interpreted mode of emitted C. Nothing is written but the arena. */
#ifndef TW_RUN_H
#define TW_RUN_H

#include "../core/tw.h"

/* One step of a plan, ready for flash. pointers: of the inputs, then of the outputs; n >= 0 is byte n of the arena, n <
 * 0 is constant number ~n. scratch: its first byte in the arena. */
typedef struct {
    tw_fn *kernel;
    const void *params;
    const int32_t *pointers;
    int32_t scratch;
    uint16_t inputs, outputs;
} tw_step;

/* in, out: room for the step's pointers. */
TW_INLINE void tw_run_step(const tw_step *step, const void *const *constants, unsigned char *arena, const void **in,
                           void **out) {
    const int32_t *at = step->pointers;
    for (int32_t i = 0; i < step->inputs; ++i, ++at) in[i] = *at < 0 ? constants[~*at] : arena + *at;
    for (int32_t i = 0; i < step->outputs; ++i, ++at) out[i] = arena + *at;
    step->kernel(step->params, in, out, arena + step->scratch);
}

#endif
