/* SPDX-License-Identifier: Apache-2.0 */
/* conv: made by twinfer VERSION for target host. Do not edit. */
#include "conv.h"

#include <stdalign.h>

alignas(CONV_ARENA_ALIGN) static unsigned char conv_static_arena[CONV_ARENA_BYTES];

void *conv_arena(void) { return conv_static_arena; }

int conv_run_static(const void *const *inputs, void *const *outputs) {
    return conv_run(conv_static_arena, inputs, outputs);
}
