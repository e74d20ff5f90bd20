/* SPDX-License-Identifier: Apache-2.0 */
/* flow: made by twinfer VERSION for target generic. Do not edit. */
#include "flow.h"
#include "flow_place.h"
#include "flow_data.h"
#include "kernels/core/tw.h"
#include "kernels/elementwise/add.h"
#include "kernels/elementwise/compare.h"
#include "kernels/elementwise/mul.h"
#include "kernels/move/copy.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

TW_NEED_FLOATS;

/* Kernels that layers share, params read at run time. */
static FLOW_CODE(tw_copy) TW_SHARED(tw_copy, flow_tw_copy)

/* Layer 0: ADD, operator 2 of the model; tw_add_f32
 *   in  "then_2" FLOAT32 [2] at state 0..8
 *   in  "main_0" FLOAT32 [2] at arena 0..8
 *   out "then_3" FLOAT32 [2] at state 0..8 */
static FLOW_TABLES(0) const tw_add_f32_params flow_0_params = {
    .walk = {
        .size = 2, .tile = 1, .a_step = 1, .b_step = 1,
        .outer = {.rows = 1, .shape = {0, 0, 0, 0, 0}, .a_jump = {0, 0, 0, 0, 0}, .b_jump = {0, 0, 0, 0, 0}},
    },
    .b_sign = 1.0f, .low = -3.40282347e+38f, .high = 3.40282347e+38f,
};
static TW_LAYER FLOW_CODE(0) void flow_0_add(unsigned char *arena, unsigned char *state) {
    const void *const in[] = {state, arena};
    void *const out[] = {state};
    tw_add_f32_body(&flow_0_params, in, out, out[0]);
}

/* Layer 1: IF, operator 1 of the model; tw_copy
 *   in  "main_0" FLOAT32 [2] at arena 0..8
 *   out "main_2" FLOAT32 [2] at arena 8..16 */
static FLOW_TABLES(1) const tw_copy_params flow_1_params = {
    .size = 8,
};
static TW_LAYER FLOW_CODE(1) void flow_1_body(const void *const *in, void *const *out, void *scratch) {
    tw_copy_body(&flow_1_params, in, out, scratch);
}
static TW_LAYER FLOW_CODE(1) void flow_1_model_if(unsigned char *arena, unsigned char *state) {
    (void)state;
    const void *const in[] = {arena};
    void *const out[] = {arena + 8};
    flow_1_body(in, out, NULL);
}

/* Layer 2: READ_VARIABLE, operator 1 of the model; tw_copy
 *   in  "v" FLOAT32 [2] at state 0..8
 *   out "main_2" FLOAT32 [2] at arena 8..16 */
static TW_LAYER FLOW_CODE(2) void flow_2_read_variable(unsigned char *arena, unsigned char *state) {
    const void *const in[] = {state};
    void *const out[] = {arena + 8};
    flow_1_body(in, out, NULL);
}

/* Layer 3: WHILE, operator 2 of the model; tw_copy
 *   out "main_4" FLOAT32 [1] at arena 24..28 */
static FLOW_TABLES(3) const tw_copy_params flow_3_params = {
    .size = 4,
};
static TW_LAYER FLOW_CODE(3) void flow_3_model_while(unsigned char *arena, unsigned char *state) {
    (void)state;
    const void *const in[] = {flow_3_weights};
    void *const out[] = {arena + 24};
    tw_copy_body(&flow_3_params, in, out, out[0]);
}

/* Layer 4: LESS, operator 0 of the model; tw_compare_f32
 *   in  "main_4" FLOAT32 [1] at arena 24..28
 *   out "test_3" BOOL [1] at arena 16..17 */
static FLOW_TABLES(4) const tw_compare_f32_params flow_4_params = {
    .walk = {
        .size = 1, .tile = 1, .a_step = 1, .b_step = 1,
        .outer = {.rows = 1, .shape = {0, 0, 0, 0, 0}, .a_jump = {0, 0, 0, 0, 0}, .b_jump = {0, 0, 0, 0, 0}},
    },
    .accepted = 1,
};
static TW_LAYER FLOW_CODE(4) void flow_4_less(unsigned char *arena, unsigned char *state) {
    (void)state;
    const void *const in[] = {arena + 24, flow_4_weights};
    void *const out[] = {arena + 16};
    tw_compare_f32_body(&flow_4_params, in, out, out[0]);
}

/* Layer 5: ADD, operator 0 of the model; tw_add_f32
 *   in  "main_4" FLOAT32 [1] at arena 24..28
 *   out "body_3" FLOAT32 [1] at arena 24..28 */
static FLOW_TABLES(5) const tw_add_f32_params flow_5_params = {
    .walk = {
        .size = 1, .tile = 1, .a_step = 1, .b_step = 1,
        .outer = {.rows = 1, .shape = {0, 0, 0, 0, 0}, .a_jump = {0, 0, 0, 0, 0}, .b_jump = {0, 0, 0, 0, 0}},
    },
    .b_sign = 1.0f, .low = -3.40282347e+38f, .high = 3.40282347e+38f,
};
static TW_LAYER FLOW_CODE(5) void flow_5_add(unsigned char *arena, unsigned char *state) {
    (void)state;
    const void *const in[] = {arena + 24, flow_5_weights};
    void *const out[] = {arena + 24};
    tw_add_f32_body(&flow_5_params, in, out, out[0]);
}

/* Layer 6: MUL, operator 1 of the model; tw_mul_f32
 *   in  "main_5" FLOAT32 [2] at arena 0..8
 *   in  "main_6" FLOAT32 [2] at arena 8..16
 *   out "body_5" FLOAT32 [2] at arena 16..24 */
static FLOW_TABLES(6) const tw_mul_f32_params flow_6_params = {
    .walk = {
        .size = 2, .tile = 1, .a_step = 1, .b_step = 1,
        .outer = {.rows = 1, .shape = {0, 0, 0, 0, 0}, .a_jump = {0, 0, 0, 0, 0}, .b_jump = {0, 0, 0, 0, 0}},
    },
    .low = -3.40282347e+38f, .high = 3.40282347e+38f,
};
static TW_LAYER FLOW_CODE(6) void flow_6_mul(unsigned char *arena, unsigned char *state) {
    (void)state;
    const void *const in[] = {arena, arena + 8};
    void *const out[] = {arena + 16};
    tw_mul_f32_body(&flow_6_params, in, out, out[0]);
}

/* Layer 7: WHILE, operator 2 of the model; tw_copy
 *   in  "main_5" FLOAT32 [2] at arena 0..8
 *   out "main_5" FLOAT32 [2] at arena 8..16 */
static TW_LAYER FLOW_CODE(7) void flow_7_model_while(unsigned char *arena, unsigned char *state) {
    (void)state;
    const void *const in[] = {arena};
    void *const out[] = {arena + 8};
    flow_1_body(in, out, NULL);
}

/* Layer 8: WHILE, operator 2 of the model; tw_copy
 *   in  "body_5" FLOAT32 [2] at arena 16..24
 *   out "main_5" FLOAT32 [2] at arena 0..8 */
static TW_LAYER FLOW_CODE(8) void flow_8_model_while(unsigned char *arena, unsigned char *state) {
    (void)state;
    const void *const in[] = {arena + 16};
    void *const out[] = {arena};
    flow_1_body(in, out, NULL);
}

/* Copies unless one side is absent or the value is in place already. */
static FLOW_SECTION_CODE void flow_copy(void *to, const void *from, size_t size) {
    if (to != NULL && from != NULL && to != from) memmove(to, from, size);
}

FLOW_SECTION_CODE int flow_run(void *arena, void *state, const void *const *inputs, void *const *outputs) {
    unsigned char *const base = (unsigned char *)arena;
    unsigned char *const kept = (unsigned char *)state;
    if (base == NULL || kept == NULL) return TW_NO_MEMORY;
    if ((uintptr_t)arena % FLOW_ARENA_ALIGN != 0 || (uintptr_t)state % FLOW_ARENA_ALIGN != 0) return TW_MISALIGNED;
    if (inputs != NULL) {
        flow_copy(base + FLOW_INPUT_0_OFFSET, inputs[0], FLOW_INPUT_0_BYTES);
        flow_copy(base + FLOW_INPUT_1_OFFSET, inputs[1], FLOW_INPUT_1_BYTES);
    }
    if (*(base + 8) != 0) {
        if (FLOW_HOOK(0)) return TW_CANCELLED;
        flow_0_add(base, kept);
        if (FLOW_HOOK(1)) return TW_CANCELLED;
        flow_1_model_if(base, kept);
    } else {
        if (FLOW_HOOK(2)) return TW_CANCELLED;
        flow_2_read_variable(base, kept);
    }
    if (FLOW_HOOK(3)) return TW_CANCELLED;
    flow_3_model_while(base, kept);
    for (;;) {
        if (FLOW_HOOK(4)) return TW_CANCELLED;
        flow_4_less(base, kept);
        if (*(base + 16) == 0) break;
        if (FLOW_HOOK(5)) return TW_CANCELLED;
        flow_5_add(base, kept);
        if (FLOW_HOOK(6)) return TW_CANCELLED;
        flow_6_mul(base, kept);
        if (FLOW_HOOK(7)) return TW_CANCELLED;
        flow_7_model_while(base, kept);
        if (FLOW_HOOK(8)) return TW_CANCELLED;
        flow_8_model_while(base, kept);
    }
    if (outputs != NULL) {
        flow_copy(outputs[0], base + FLOW_OUTPUT_0_OFFSET, FLOW_OUTPUT_0_BYTES);
        flow_copy(outputs[1], base + FLOW_OUTPUT_1_OFFSET, FLOW_OUTPUT_1_BYTES);
    }
    return TW_OK;
}

#ifdef TW_RUN_LAYERS
FLOW_SECTION_CODE int flow_run_layers(void *arena, void *state, int32_t from, int32_t to) {
    unsigned char *const base = (unsigned char *)arena;
    unsigned char *const kept = (unsigned char *)state;
    if (base == NULL || kept == NULL) return TW_NO_MEMORY;
    if ((uintptr_t)arena % FLOW_ARENA_ALIGN != 0 || (uintptr_t)state % FLOW_ARENA_ALIGN != 0) return TW_MISALIGNED;
    if (from < 0 || to > 9 || from > to) return TW_NO_LAYER;
    for (int32_t i = from; i < to; ++i) {
        switch (i) {
        case 2:
            if (*(base + 8) != 0) {
                if (FLOW_HOOK(0)) return TW_CANCELLED;
                flow_0_add(base, kept);
                if (FLOW_HOOK(1)) return TW_CANCELLED;
                flow_1_model_if(base, kept);
            } else {
                if (FLOW_HOOK(2)) return TW_CANCELLED;
                flow_2_read_variable(base, kept);
            }
            break;
        case 3:
            if (FLOW_HOOK(3)) return TW_CANCELLED;
            flow_3_model_while(base, kept);
            break;
        case 8:
            for (;;) {
                if (FLOW_HOOK(4)) return TW_CANCELLED;
                flow_4_less(base, kept);
                if (*(base + 16) == 0) break;
                if (FLOW_HOOK(5)) return TW_CANCELLED;
                flow_5_add(base, kept);
                if (FLOW_HOOK(6)) return TW_CANCELLED;
                flow_6_mul(base, kept);
                if (FLOW_HOOK(7)) return TW_CANCELLED;
                flow_7_model_while(base, kept);
                if (FLOW_HOOK(8)) return TW_CANCELLED;
                flow_8_model_while(base, kept);
            }
            break;
        default: break; /* it runs with a later layer */
        }
    }
    return TW_OK;
}
#endif

static FLOW_TABLES(9) const tw_copy_params flow_9_params = {
    .size = 8,
};
static TW_LAYER FLOW_SECTION_CODE void flow_start(unsigned char *state) {
    /* operator 1 ASSIGN_VARIABLE */
    const void *const in[] = {flow_9_weights};
    void *const out[] = {state};
    flow_tw_copy(&flow_9_params, in, out, NULL);
}

FLOW_SECTION_CODE void flow_reset(void *state) {
    unsigned char *const kept = (unsigned char *)state;
    memset(kept + 0, 0, 8);
    flow_start((unsigned char *)state);
}
