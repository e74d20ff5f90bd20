/* SPDX-License-Identifier: Apache-2.0 */
/* state: made by twinfer VERSION for target generic. Do not edit. */
#include "state.h"
#include "state_place.h"
#include "state_data.h"
#include "kernels/core/tw.h"
#include "kernels/move/copy.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

TW_NEED_FLOATS;

/* Layer 0: RESHAPE, operator 0 of the model; tw_copy
 *   in  "state" INT8 [2, 3] at state 0..6
 *   out "y" INT8 [6] at arena 20..26 */
static STATE_TABLES(0) const tw_copy_params state_0_params = {
    .size = 6,
};
static TW_LAYER STATE_CODE(0) void state_0_reshape(unsigned char *arena, unsigned char *state) {
    const void *const in[] = {state};
    void *const out[] = {arena + 20};
    tw_copy_body(&state_0_params, in, out, out[0]);
}

/* Layer 1: RESHAPE, operator 1 of the model; tw_copy
 *   in  "more" FLOAT32 [5] at state 16..36
 *   out "z" FLOAT32 [5] at arena 0..20 */
static STATE_TABLES(1) const tw_copy_params state_1_params = {
    .size = 20,
};
static TW_LAYER STATE_CODE(1) void state_1_reshape(unsigned char *arena, unsigned char *state) {
    const void *const in[] = {state + 16};
    void *const out[] = {arena};
    tw_copy_body(&state_1_params, in, out, out[0]);
}

/* Copies unless one side is absent or the value is in place already. */
static STATE_SECTION_CODE void state_copy(void *to, const void *from, size_t size) {
    if (to != NULL && from != NULL && to != from) memmove(to, from, size);
}

STATE_SECTION_CODE int state_run(void *arena, void *state, const void *const *inputs, void *const *outputs) {
    unsigned char *const base = (unsigned char *)arena;
    unsigned char *const kept = (unsigned char *)state;
    if (base == NULL || kept == NULL) return TW_NO_MEMORY;
    if ((uintptr_t)arena % STATE_ARENA_ALIGN != 0 || (uintptr_t)state % STATE_ARENA_ALIGN != 0) return TW_MISALIGNED;
    (void)inputs;
    if (STATE_HOOK(0)) return TW_CANCELLED;
    state_0_reshape(base, kept);
    if (STATE_HOOK(1)) return TW_CANCELLED;
    state_1_reshape(base, kept);
    if (outputs != NULL) {
        state_copy(outputs[0], base + STATE_OUTPUT_0_OFFSET, STATE_OUTPUT_0_BYTES);
        state_copy(outputs[1], base + STATE_OUTPUT_1_OFFSET, STATE_OUTPUT_1_BYTES);
    }
    return TW_OK;
}

#ifdef TW_RUN_LAYERS
STATE_SECTION_CODE int state_run_layers(void *arena, void *state, int32_t from, int32_t to) {
    unsigned char *const base = (unsigned char *)arena;
    unsigned char *const kept = (unsigned char *)state;
    if (base == NULL || kept == NULL) return TW_NO_MEMORY;
    if ((uintptr_t)arena % STATE_ARENA_ALIGN != 0 || (uintptr_t)state % STATE_ARENA_ALIGN != 0) return TW_MISALIGNED;
    if (from < 0 || to > 2 || from > to) return TW_NO_LAYER;
    for (int32_t i = from; i < to; ++i) {
        if (STATE_HOOK(i)) return TW_CANCELLED;
        switch (i) {
        case 0: state_0_reshape(base, kept); break;
        case 1: state_1_reshape(base, kept); break;
        default: break; /* it runs with a later layer */
        }
    }
    return TW_OK;
}
#endif

STATE_SECTION_CODE void state_reset(void *state) {
    unsigned char *const kept = (unsigned char *)state;
    memset(kept + 0, 249, 6);
    memset(kept + 16, 0, 20);
}
