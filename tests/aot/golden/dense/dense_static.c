/* SPDX-License-Identifier: Apache-2.0 */
/* dense: made by twinfer VERSION for target generic. Do not edit. */
#include "dense.h"
#include "dense_place.h"

static DENSE_SECTION_ARENA dense_arena_t dense_static_arena;

void *dense_arena(void) { return &dense_static_arena; }

int dense_run_static(const void *const *inputs, void *const *outputs) {
    return dense_run(&dense_static_arena, inputs, outputs);
}
