/* SPDX-License-Identifier: Apache-2.0 */
/* passing: made by twinfer VERSION for target host. Do not edit. */
#include "passing.h"

#include <stdalign.h>

alignas(PASSING_ARENA_ALIGN) static unsigned char passing_static_arena[PASSING_ARENA_BYTES];

void *passing_arena(void) { return passing_static_arena; }

int passing_run_static(const void *const *inputs, void *const *outputs) {
    return passing_run(passing_static_arena, inputs, outputs);
}
