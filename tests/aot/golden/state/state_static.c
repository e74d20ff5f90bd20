/* SPDX-License-Identifier: Apache-2.0 */
/* state: made by twinfer VERSION for target generic. Do not edit. */
#include "state.h"

#include <stdalign.h>

alignas(STATE_ARENA_ALIGN) static unsigned char state_static_arena[STATE_ARENA_BYTES];
alignas(STATE_ARENA_ALIGN) static unsigned char state_static_state[STATE_STATE_BYTES];

void *state_arena(void) { return state_static_arena; }
void *state_state(void) { return state_static_state; }

int state_run_static(const void *const *inputs, void *const *outputs) {
    return state_run(state_static_arena, state_static_state, inputs, outputs);
}
