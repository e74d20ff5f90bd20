/* SPDX-License-Identifier: Apache-2.0 */
/* flow: made by twinfer VERSION for target generic. Do not edit. */
#include "flow.h"

#include <stdalign.h>

alignas(FLOW_ARENA_ALIGN) static unsigned char flow_static_arena[FLOW_ARENA_BYTES];
alignas(FLOW_ARENA_ALIGN) static unsigned char flow_static_state[FLOW_STATE_BYTES];

void *flow_arena(void) { return flow_static_arena; }
void *flow_state(void) { return flow_static_state; }

int flow_run_static(const void *const *inputs, void *const *outputs) {
    return flow_run(flow_static_arena, flow_static_state, inputs, outputs);
}
