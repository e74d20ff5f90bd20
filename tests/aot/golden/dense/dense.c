/* SPDX-License-Identifier: Apache-2.0 */
/* dense: made by twinfer VERSION for target generic. Do not edit. */
#include "dense.h"
#include "dense_data.h"
#include "kernels/core/tw.h"
#include "kernels/dense/fully_connected.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Layer 0: FULLY_CONNECTED, operator 0 of the model; tw_fully_connected_s8, 36 MACs
 *   in  "x" INT8[1, 6]: arena [0, 6)
 *   in  int8[6, 6]: dense_0_in1
 *   in  int32[6]: dense_0_in2
 *   in  int32[1]: dense_0_in3
 *   in  int8[1]: dense_0_in4
 *   out "y0" INT8[1, 6]: arena [16, 22) */
static const tw_fully_connected_s8_params dense_0_params = {
    .end = {.zero = -3, .low = -3, .high = 57}, .batches = 1, .depth = 6, .out = 6, .mults = 1, .fast = 1,
};
static TW_NOINLINE void dense_0_fully_connected(unsigned char *arena) {
    const void *const in[] = {arena + 0, dense_0_in1, dense_0_in2, dense_0_in3, dense_0_in4};
    void *const out[] = {arena + 16};
    tw_fully_connected_s8_body(&dense_0_params, in, out, NULL);
}

/* Layer 1: FULLY_CONNECTED, operator 1 of the model; tw_fully_connected_s8, 36 MACs
 *   in  "y0" INT8[1, 6]: arena [16, 22)
 *   in  int8[6, 6]: dense_1_in1
 *   in  int32[6]: dense_1_in2
 *   in  int32[1]: dense_1_in3
 *   in  int8[1]: dense_1_in4
 *   out "y1" INT8[1, 6]: arena [0, 6) */
static const tw_fully_connected_s8_params dense_1_params = {
    .end = {.zero = -3, .low = -3, .high = 127}, .batches = 1, .depth = 6, .out = 6, .mults = 1, .fast = 1,
};
static TW_NOINLINE void dense_1_body(const void *const *in, void *const *out, void *scratch) {
    tw_fully_connected_s8_body(&dense_1_params, in, out, scratch);
}
static TW_NOINLINE void dense_1_fully_connected(unsigned char *arena) {
    const void *const in[] = {arena + 16, dense_1_in1, dense_1_in2, dense_1_in3, dense_1_in4};
    void *const out[] = {arena + 0};
    dense_1_body(in, out, NULL);
}

/* Layer 2: FULLY_CONNECTED, operator 2 of the model; tw_fully_connected_s8, 36 MACs
 *   in  "y1" INT8[1, 6]: arena [0, 6)
 *   in  int8[6, 6]: dense_2_in1
 *   in  int32[6]: dense_2_in2
 *   in  int32[1]: dense_2_in3
 *   in  int8[1]: dense_2_in4
 *   out "y2" INT8[1, 6]: arena [16, 22) */
static TW_NOINLINE void dense_2_fully_connected(unsigned char *arena) {
    const void *const in[] = {arena + 0, dense_2_in1, dense_2_in2, dense_2_in3, dense_2_in4};
    void *const out[] = {arena + 16};
    dense_1_body(in, out, NULL);
}

/* Copies unless one side is absent or the value is in place already. */
static void dense_copy(void *to, const void *from, size_t size) {
    if (to != NULL && from != NULL && to != from) memmove(to, from, size);
}

int dense_run(void *arena, const void *const *inputs, void *const *outputs) {
    unsigned char *const base = (unsigned char *)arena;
    if (base == NULL) return 1;
    if ((uintptr_t)arena % DENSE_ARENA_ALIGN != 0) return 2;
    if (inputs != NULL) {
        dense_copy(base + DENSE_INPUT_0_OFFSET, inputs[0], DENSE_INPUT_0_BYTES);
    }
    dense_0_fully_connected(base);
    dense_1_fully_connected(base);
    dense_2_fully_connected(base);
    if (outputs != NULL) {
        dense_copy(outputs[0], base + DENSE_OUTPUT_0_OFFSET, DENSE_OUTPUT_0_BYTES);
    }
    return 0;
}
