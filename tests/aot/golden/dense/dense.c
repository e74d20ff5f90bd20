/* SPDX-License-Identifier: Apache-2.0 */
/* dense: made by twinfer VERSION for target generic. Do not edit. */
#include "dense.h"
#include "dense_place.h"
#include "dense_data.h"
#include "kernels/core/tw.h"
#include "kernels/dense/fully_connected.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Layer 0: FULLY_CONNECTED, operator 0 of the model; tw_fully_connected_s8, 36 MACs
 *   in  "x" INT8 [1, 6] at 0..6
 *   out "y0" INT8 [1, 6] at 8..14 */
static DENSE_TABLES(0) const tw_fully_connected_s8_params dense_0_params = {
    .end = {.zero = -3, .low = -3, .high = 57}, .batches = 1, .depth = 6, .out = 6, .mults = 1, .fast = 1,
};
static TW_LAYER DENSE_CODE(0) void dense_0_fully_connected(unsigned char *arena) {
    const void *const in[] = {arena, dense_0_weights, dense_0_bias, dense_0_multipliers, dense_0_shifts};
    void *const out[] = {arena + 8};
    tw_fully_connected_s8_body(&dense_0_params, in, out, out[0]);
}

/* Layer 1: FULLY_CONNECTED, operator 1 of the model; tw_fully_connected_s8, 36 MACs
 *   in  "y0" INT8 [1, 6] at 8..14
 *   out "y1" INT8 [1, 6] at 0..6 */
static DENSE_TABLES(1) const tw_fully_connected_s8_params dense_1_params = {
    .end = {.zero = -3, .low = -3, .high = 127}, .batches = 1, .depth = 6, .out = 6, .mults = 1, .fast = 1,
};
static TW_LAYER DENSE_CODE(1) void dense_1_body(const void *const *in, void *const *out, void *scratch) {
    tw_fully_connected_s8_body(&dense_1_params, in, out, scratch);
}
static TW_LAYER DENSE_CODE(1) void dense_1_fully_connected(unsigned char *arena) {
    const void *const in[] = {arena + 8, dense_1_weights, dense_1_bias, dense_1_multipliers, dense_1_shifts};
    void *const out[] = {arena};
    dense_1_body(in, out, NULL);
}

/* Layer 2: FULLY_CONNECTED, operator 2 of the model; tw_fully_connected_s8, 36 MACs
 *   in  "y1" INT8 [1, 6] at 0..6
 *   out "y2" INT8 [1, 6] at 8..14 */
static TW_LAYER DENSE_CODE(2) void dense_2_fully_connected(unsigned char *arena) {
    const void *const in[] = {arena, dense_2_weights, dense_2_bias, dense_2_multipliers, dense_2_shifts};
    void *const out[] = {arena + 8};
    dense_1_body(in, out, NULL);
}

/* Copies unless one side is absent or the value is in place already. */
static DENSE_SECTION_CODE void dense_copy(void *to, const void *from, size_t size) {
    if (to != NULL && from != NULL && to != from) memmove(to, from, size);
}

DENSE_SECTION_CODE int dense_run(void *arena, const void *const *inputs, void *const *outputs) {
    unsigned char *const base = (unsigned char *)arena;
    if (base == NULL) return TW_NO_MEMORY;
    if ((uintptr_t)arena % DENSE_ARENA_ALIGN != 0) return TW_MISALIGNED;
    if (inputs != NULL) {
        dense_copy(base + DENSE_INPUT_0_OFFSET, inputs[0], DENSE_INPUT_0_BYTES);
    }
    if (DENSE_HOOK(0)) return TW_CANCELLED;
    dense_0_fully_connected(base);
    if (DENSE_HOOK(1)) return TW_CANCELLED;
    dense_1_fully_connected(base);
    if (DENSE_HOOK(2)) return TW_CANCELLED;
    dense_2_fully_connected(base);
    if (outputs != NULL) {
        dense_copy(outputs[0], base + DENSE_OUTPUT_0_OFFSET, DENSE_OUTPUT_0_BYTES);
    }
    return TW_OK;
}

#ifdef TW_RUN_LAYERS
DENSE_SECTION_CODE int dense_run_layers(void *arena, int32_t from, int32_t to) {
    unsigned char *const base = (unsigned char *)arena;
    if (base == NULL) return TW_NO_MEMORY;
    if ((uintptr_t)arena % DENSE_ARENA_ALIGN != 0) return TW_MISALIGNED;
    if (from < 0 || to > 3 || from > to) return TW_NO_LAYER;
    for (int32_t i = from; i < to; ++i) {
        if (DENSE_HOOK(i)) return TW_CANCELLED;
        switch (i) {
        case 0: dense_0_fully_connected(base); break;
        case 1: dense_1_fully_connected(base); break;
        case 2: dense_2_fully_connected(base); break;
        default: break; /* it runs with a later layer */
        }
    }
    return TW_OK;
}
#endif
