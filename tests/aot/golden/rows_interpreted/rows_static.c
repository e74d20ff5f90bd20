/* SPDX-License-Identifier: Apache-2.0 */
/* rows: made by twinfer VERSION for target generic, interpreted, memory by rows. Do not edit. */
#include "rows.h"

#include <stdalign.h>

alignas(ROWS_ARENA_ALIGN) static unsigned char rows_static_arena[ROWS_ARENA_BYTES];

void *rows_arena(void) { return rows_static_arena; }

int rows_run_static(const void *const *inputs, void *const *outputs) {
    return rows_run(rows_static_arena, inputs, outputs);
}
