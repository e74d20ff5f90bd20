/* SPDX-License-Identifier: Apache-2.0 */
/* dense: made by twinfer VERSION for target generic. Do not edit. */
#include "dense.h"

#include <stdalign.h>

alignas(DENSE_ARENA_ALIGN) static unsigned char dense_static_arena[DENSE_ARENA_BYTES];

void *dense_arena(void) { return dense_static_arena; }

int dense_run_static(const void *const *inputs, void *const *outputs) {
    return dense_run(dense_static_arena, inputs, outputs);
}
