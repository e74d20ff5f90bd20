/* SPDX-License-Identifier: Apache-2.0 */
/* passing: made by twinfer VERSION for target host. Do not edit. */
#include "passing.h"
#include "passing_data.h"
#include "kernels/core/tw.h"
#include "kernels/move/copy.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Layer 0: RESHAPE, operator 0 of the model; tw_copy
 *   in  "*\/ x \\ "?\?/\n/\* \xe9" INT8 [1, 6, 5] at 0..30
 *   out "y" INT8 [30] at 32..62 */
static const tw_copy_params passing_0_params = {
    .size = 30,
};
static TW_NOINLINE void passing_0_reshape(unsigned char *arena) {
    const void *const in[] = {arena};
    void *const out[] = {arena + 32};
    tw_copy_body(&passing_0_params, in, out, out[0]);
}

/* Layer 1: RESHAPE, operator 1 of the model; tw_copy
 *   out "z" FLOAT32 [9] at 64..100 */
static const tw_copy_params passing_1_params = {
    .size = 36,
};
static TW_NOINLINE void passing_1_reshape(unsigned char *arena) {
    const void *const in[] = {passing_1_weights};
    void *const out[] = {arena + 64};
    tw_copy_body(&passing_1_params, in, out, out[0]);
}

/* Copies unless one side is absent or the value is in place already. */
static void passing_copy(void *to, const void *from, size_t size) {
    if (to != NULL && from != NULL && to != from) memmove(to, from, size);
}

int passing_run(void *arena, const void *const *inputs, void *const *outputs) {
    unsigned char *const base = (unsigned char *)arena;
    if (base == NULL) return 1;
    if ((uintptr_t)arena % PASSING_ARENA_ALIGN != 0) return 2;
    if (inputs != NULL) {
        passing_copy(base + PASSING_INPUT_0_OFFSET, inputs[0], PASSING_INPUT_0_BYTES);
    }
    passing_0_reshape(base);
    passing_1_reshape(base);
    if (outputs != NULL) {
        passing_copy(outputs[0], base + PASSING_OUTPUT_0_OFFSET, PASSING_OUTPUT_0_BYTES);
        passing_copy(outputs[1], base + PASSING_OUTPUT_1_OFFSET, PASSING_OUTPUT_1_BYTES);
        passing_copy(outputs[2], base + PASSING_OUTPUT_2_OFFSET, PASSING_OUTPUT_2_BYTES);
        passing_copy(outputs[3], passing_1_weights, PASSING_OUTPUT_3_BYTES);
    }
    return 0;
}
