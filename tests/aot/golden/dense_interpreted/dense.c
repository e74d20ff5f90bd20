/* SPDX-License-Identifier: Apache-2.0 */
/* dense: made by twinfer VERSION for target generic, interpreted. Do not edit. */
#include "dense.h"
#include "dense_place.h"
#include "dense_data.h"
#include "kernels/run/run.h"
#include "kernels/dense/fully_connected.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Kernels that layers share, params read at run time. */
static DENSE_CODE(tw_fully_connected_s8) TW_SHARED(tw_fully_connected_s8, dense_tw_fully_connected_s8)

/* Layer 0: FULLY_CONNECTED, operator 0 of the model; tw_fully_connected_s8, 36 MACs
 *   in  "x" INT8 [1, 6] at 0..6
 *   out "y0" INT8 [1, 6] at 8..14 */
static DENSE_TABLES(0) const tw_fully_connected_s8_params dense_0_params = {
    .end = {.zero = -3, .low = -3, .high = 57}, .batches = 1, .depth = 6, .out = 6, .mults = 1, .fast = 1,
};

/* Layer 1: FULLY_CONNECTED, operator 1 of the model; tw_fully_connected_s8, 36 MACs
 *   in  "y0" INT8 [1, 6] at 8..14
 *   out "y1" INT8 [1, 6] at 0..6 */
static DENSE_TABLES(1) const tw_fully_connected_s8_params dense_1_params = {
    .end = {.zero = -3, .low = -3, .high = 127}, .batches = 1, .depth = 6, .out = 6, .mults = 1, .fast = 1,
};

/* Layer 2: FULLY_CONNECTED, operator 2 of the model; tw_fully_connected_s8, 36 MACs
 *   in  "y1" INT8 [1, 6] at 0..6
 *   out "y2" INT8 [1, 6] at 8..14 */

static DENSE_ADDRESSES const void *const dense_constants[] = {
    dense_0_weights, dense_0_bias, dense_0_multipliers, dense_0_shifts, dense_1_weights, dense_1_bias,
    dense_1_multipliers, dense_1_shifts, dense_2_weights, dense_2_bias, dense_2_multipliers, dense_2_shifts,
};
/* Of every layer the inputs, then the outputs: bytes of the arena, below 0 constants. */
static DENSE_SECTION_TABLES const int32_t dense_pointers[] = {
    0, -1, -2, -3, -4, 8,
    8, -5, -6, -7, -8, 0,
    0, -9, -10, -11, -12, 8,
};
/* Kernel, params, pointers, scratch, how many inputs and outputs. */
static DENSE_ADDRESSES const tw_step dense_table[] = {
    {dense_tw_fully_connected_s8, &dense_0_params, dense_pointers + 0, 0, 5, 1},
    {dense_tw_fully_connected_s8, &dense_1_params, dense_pointers + 6, 0, 5, 1},
    {dense_tw_fully_connected_s8, &dense_1_params, dense_pointers + 12, 0, 5, 1},
};

static TW_LAYER DENSE_SECTION_CODE void dense_layer(unsigned char *arena, int32_t i) {
    const tw_memory memory = {arena, NULL, INT32_MAX};
    const void *in[5];
    void *out[1];
    tw_run_step(&dense_table[i], dense_constants, &memory, in, out);
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
    for (int32_t i = 0; i < 3; ++i) {
        if (DENSE_HOOK(i)) return TW_CANCELLED;
        dense_layer(base, i);
    }
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
        dense_layer(base, i);
    }
    return TW_OK;
}
#endif
