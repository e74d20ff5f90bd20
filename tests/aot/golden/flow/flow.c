/* SPDX-License-Identifier: Apache-2.0 */
/* flow: made by twinfer VERSION for target generic. Do not edit. */
#include "flow.h"
#include "flow_data.h"
#include "kernels/core/tw.h"
#include "kernels/elementwise/add.h"
#include "kernels/elementwise/compare.h"
#include "kernels/elementwise/mul.h"
#include "kernels/move/copy.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Kernels that layers share, params read at run time. */
static TW_SHARED(tw_copy, flow_tw_copy)

/* Layer 0: ADD, operator 2 of the model; tw_add_f32
 *   in  "then_2" FLOAT32 [2] at state 0..8
 *   in  "main_0" FLOAT32 [2] at arena 0..8
 *   out "then_3" FLOAT32 [2] at state 0..8 */
static const tw_add_f32_params flow_0_params = {
    .walk = {
        .size = 2, .tile = 1, .a_step = 1, .b_step = 1,
        .outer = {.rows = 1, .shape = {0, 0, 0, 0, 0}, .a_jump = {0, 0, 0, 0, 0}, .b_jump = {0, 0, 0, 0, 0}},
    },
    .b_sign = 1.0f, .low = -3.40282347e+38f, .high = 3.40282347e+38f,
};
static TW_NOINLINE void flow_0_add(unsigned char *arena, unsigned char *state) {
    const void *const in[] = {state, arena};
    void *const out[] = {state};
    tw_add_f32_body(&flow_0_params, in, out, out[0]);
}

/* Layer 1: IF, operator 1 of the model; tw_copy
 *   in  "main_0" FLOAT32 [2] at arena 0..8
 *   out "main_2" FLOAT32 [2] at arena 8..16 */
static const tw_copy_params flow_1_params = {
    .size = 8,
};
static TW_NOINLINE void flow_1_body(const void *const *in, void *const *out, void *scratch) {
    tw_copy_body(&flow_1_params, in, out, scratch);
}
static TW_NOINLINE void flow_1_model_if(unsigned char *arena, unsigned char *state) {
    (void)state;
    const void *const in[] = {arena};
    void *const out[] = {arena + 8};
    flow_1_body(in, out, NULL);
}

/* Layer 2: READ_VARIABLE, operator 1 of the model; tw_copy
 *   in  "v" FLOAT32 [2] at state 0..8
 *   out "main_2" FLOAT32 [2] at arena 8..16 */
static TW_NOINLINE void flow_2_read_variable(unsigned char *arena, unsigned char *state) {
    const void *const in[] = {state};
    void *const out[] = {arena + 8};
    flow_1_body(in, out, NULL);
}

/* Layer 3: WHILE, operator 2 of the model; tw_copy
 *   out "main_4" FLOAT32 [1] at arena 24..28 */
static const tw_copy_params flow_3_params = {
    .size = 4,
};
static TW_NOINLINE void flow_3_model_while(unsigned char *arena, unsigned char *state) {
    (void)state;
    const void *const in[] = {flow_3_weights};
    void *const out[] = {arena + 24};
    tw_copy_body(&flow_3_params, in, out, out[0]);
}

/* Layer 4: LESS, operator 0 of the model; tw_compare_f32
 *   in  "main_4" FLOAT32 [1] at arena 24..28
 *   out "test_3" BOOL [1] at arena 16..17 */
static const tw_compare_f32_params flow_4_params = {
    .walk = {
        .size = 1, .tile = 1, .a_step = 1, .b_step = 1,
        .outer = {.rows = 1, .shape = {0, 0, 0, 0, 0}, .a_jump = {0, 0, 0, 0, 0}, .b_jump = {0, 0, 0, 0, 0}},
    },
    .accepted = 1,
};
static TW_NOINLINE void flow_4_less(unsigned char *arena, unsigned char *state) {
    (void)state;
    const void *const in[] = {arena + 24, flow_4_weights};
    void *const out[] = {arena + 16};
    tw_compare_f32_body(&flow_4_params, in, out, out[0]);
}

/* Layer 5: ADD, operator 0 of the model; tw_add_f32
 *   in  "main_4" FLOAT32 [1] at arena 24..28
 *   out "body_3" FLOAT32 [1] at arena 24..28 */
static const tw_add_f32_params flow_5_params = {
    .walk = {
        .size = 1, .tile = 1, .a_step = 1, .b_step = 1,
        .outer = {.rows = 1, .shape = {0, 0, 0, 0, 0}, .a_jump = {0, 0, 0, 0, 0}, .b_jump = {0, 0, 0, 0, 0}},
    },
    .b_sign = 1.0f, .low = -3.40282347e+38f, .high = 3.40282347e+38f,
};
static TW_NOINLINE void flow_5_add(unsigned char *arena, unsigned char *state) {
    (void)state;
    const void *const in[] = {arena + 24, flow_5_weights};
    void *const out[] = {arena + 24};
    tw_add_f32_body(&flow_5_params, in, out, out[0]);
}

/* Layer 6: MUL, operator 1 of the model; tw_mul_f32
 *   in  "main_5" FLOAT32 [2] at arena 0..8
 *   in  "main_6" FLOAT32 [2] at arena 8..16
 *   out "body_5" FLOAT32 [2] at arena 16..24 */
static const tw_mul_f32_params flow_6_params = {
    .walk = {
        .size = 2, .tile = 1, .a_step = 1, .b_step = 1,
        .outer = {.rows = 1, .shape = {0, 0, 0, 0, 0}, .a_jump = {0, 0, 0, 0, 0}, .b_jump = {0, 0, 0, 0, 0}},
    },
    .low = -3.40282347e+38f, .high = 3.40282347e+38f,
};
static TW_NOINLINE void flow_6_mul(unsigned char *arena, unsigned char *state) {
    (void)state;
    const void *const in[] = {arena, arena + 8};
    void *const out[] = {arena + 16};
    tw_mul_f32_body(&flow_6_params, in, out, out[0]);
}

/* Layer 7: WHILE, operator 2 of the model; tw_copy
 *   in  "main_5" FLOAT32 [2] at arena 0..8
 *   out "main_5" FLOAT32 [2] at arena 8..16 */
static TW_NOINLINE void flow_7_model_while(unsigned char *arena, unsigned char *state) {
    (void)state;
    const void *const in[] = {arena};
    void *const out[] = {arena + 8};
    flow_1_body(in, out, NULL);
}

/* Layer 8: WHILE, operator 2 of the model; tw_copy
 *   in  "body_5" FLOAT32 [2] at arena 16..24
 *   out "main_5" FLOAT32 [2] at arena 0..8 */
static TW_NOINLINE void flow_8_model_while(unsigned char *arena, unsigned char *state) {
    (void)state;
    const void *const in[] = {arena + 16};
    void *const out[] = {arena};
    flow_1_body(in, out, NULL);
}

/* Copies unless one side is absent or the value is in place already. */
static void flow_copy(void *to, const void *from, size_t size) {
    if (to != NULL && from != NULL && to != from) memmove(to, from, size);
}

int flow_run(void *arena, void *state, const void *const *inputs, void *const *outputs) {
    unsigned char *const base = (unsigned char *)arena;
    unsigned char *const kept = (unsigned char *)state;
    if (base == NULL || kept == NULL) return 1;
    if ((uintptr_t)arena % FLOW_ARENA_ALIGN != 0 || (uintptr_t)state % FLOW_ARENA_ALIGN != 0) return 2;
    if (inputs != NULL) {
        flow_copy(base + FLOW_INPUT_0_OFFSET, inputs[0], FLOW_INPUT_0_BYTES);
        flow_copy(base + FLOW_INPUT_1_OFFSET, inputs[1], FLOW_INPUT_1_BYTES);
    }
    if (*(base + 8) != 0) {
        flow_0_add(base, kept);
        flow_1_model_if(base, kept);
    } else {
        flow_2_read_variable(base, kept);
    }
    flow_3_model_while(base, kept);
    for (;;) {
        flow_4_less(base, kept);
        if (*(base + 16) == 0) break;
        flow_5_add(base, kept);
        flow_6_mul(base, kept);
        flow_7_model_while(base, kept);
        flow_8_model_while(base, kept);
    }
    if (outputs != NULL) {
        flow_copy(outputs[0], base + FLOW_OUTPUT_0_OFFSET, FLOW_OUTPUT_0_BYTES);
        flow_copy(outputs[1], base + FLOW_OUTPUT_1_OFFSET, FLOW_OUTPUT_1_BYTES);
    }
    return 0;
}

static const tw_copy_params flow_9_params = {
    .size = 8,
};
static TW_NOINLINE void flow_start(unsigned char *state) {
    /* operator 1 ASSIGN_VARIABLE */
    const void *const in[] = {flow_9_weights};
    void *const out[] = {state};
    flow_tw_copy(&flow_9_params, in, out, NULL);
}

void flow_reset(void *state) {
    unsigned char *const kept = (unsigned char *)state;
    memset(kept + 0, 0, 8);
    flow_start((unsigned char *)state);
}
