/* SPDX-License-Identifier: Apache-2.0 */
/* state: made by twinfer VERSION for target generic. Do not edit. */
#ifndef STATE_H
#define STATE_H
#include "kernels/run/api.h"

#include <stdalign.h>
#include <stdint.h>

#define STATE_TWINFER_VERSION "VERSION"
#define STATE_ARENA_BYTES 32
#define STATE_ARENA_ALIGN 16
#define STATE_LOWER_BOUND_BYTES 26 /* no placement of these tensors needs less */
#define STATE_STATE_BYTES 48 /* that last from run to run */
#define STATE_MEMORY_BYTES 80 /* of one buffer for both */
#define STATE_STATE_OFFSET 32 /* in that buffer, the arena before it */
#define STATE_CONSTANT_BYTES 0 /* weights and everything else in the constants' file, read only */
#define STATE_MACS 0 /* multiply-accumulates of a run */
#define STATE_LAYER_COUNT 2
#define STATE_INPUT_COUNT 0
#define STATE_OUTPUT_COUNT 2
#define STATE_STRUCTURE 0x85161D03u /* of the constants that the code is for */

/* Output 0: "y" INT8, at arena 20..26 */
#define STATE_OUTPUT_0_OFFSET 20
#define STATE_OUTPUT_0_BYTES 6
#define STATE_OUTPUT_0_TYPE int8_t
#define STATE_OUTPUT_0_SIZE 6
#define STATE_OUTPUT_0_RANK 1
#define STATE_OUTPUT_0_SHAPE {6}
#define STATE_OUTPUT_0_SCALE 0.5f
#define STATE_OUTPUT_0_ZERO_POINT -7

/* Output 1: "z" FLOAT32, at arena 0..20 */
#define STATE_OUTPUT_1_OFFSET 0
#define STATE_OUTPUT_1_BYTES 20
#define STATE_OUTPUT_1_TYPE float
#define STATE_OUTPUT_1_SIZE 5
#define STATE_OUTPUT_1_RANK 1
#define STATE_OUTPUT_1_SHAPE {5}

#ifdef __cplusplus
extern "C" {
#endif

/* Memory for a run. */
typedef struct {
    alignas(STATE_ARENA_ALIGN) unsigned char bytes[STATE_ARENA_BYTES];
} state_arena_t;
typedef struct {
    alignas(STATE_ARENA_ALIGN) unsigned char bytes[STATE_STATE_BYTES];
} state_state_t;

/* One inference. Returns a tw_status: TW_OK, TW_NO_MEMORY if arena or state is NULL, TW_MISALIGNED, or TW_CANCELLED
 * by the hook.
 * arena: STATE_ARENA_BYTES bytes at a multiple of STATE_ARENA_ALIGN, the caller's. Nothing in it has to last from
 * one run to the next: models may take turns in one arena.
 * state: STATE_STATE_BYTES bytes, aligned likewise, that hold what the model keeps from run to run: no other model
 * may write them. One buffer of STATE_MEMORY_BYTES bytes has room for both, the state at STATE_STATE_OFFSET.
 * inputs, outputs: pointers to STATE_INPUT_COUNT and STATE_OUTPUT_COUNT values, of any alignment. A value that is
 * NULL, or that is the arena plus its _OFFSET, is in place: an input was written there before the run, an output
 * stays there until the next. inputs or outputs as a whole may be NULL: all in place. */
int state_run(void *arena, void *state, const void *const *inputs, void *const *outputs);

/* Sets variables to their first values: before the first run, and to start anew. The block must be there. */
void state_reset(void *state);

/* Layers from to before to, in order; state.c has it with -DTW_RUN_LAYERS. All layers, from 0 to STATE_LAYER_COUNT,
 * are a run; between the calls of one run nothing else may write the memory given. Inputs lie at
 * STATE_INPUT_0_OFFSET and so on. Outputs stay in place. Layers that run together, row by row or in a branch or
 * loop, all run with the last of them. Returns what a run does, or TW_NO_LAYER. */
int state_run_layers(void *arena, void *state, int32_t from, int32_t to);

/* Every layer, in state_layers.c; only a program that uses it pays for it. */
extern const tw_layer state_layers[STATE_LAYER_COUNT];

/* The same over memory of state_static.c; only a program that uses them pays for it. Not reentrant. */
int state_run_static(const void *const *inputs, void *const *outputs);
void *state_arena(void);
void *state_state(void);

/* Looks at the constants: TW_OK, TW_OTHER_WEIGHTS if they are for another code, or TW_BAD_WEIGHTS if a bit of them
 * has changed. It reads all of them; a program that never calls it pays nothing. */
int state_check(void);

/* SHA-256 of the model's file in hexadecimal, empty if it is not known; it comes with the weights. */
extern const char state_model_sha256[65];

/* scaled + zero, rounded half away from zero and saturated to [low, high]; NaN gives low. */
static inline int32_t state_saturate(float scaled, int32_t zero, int32_t low, int32_t high) {
    int32_t whole;
    float rest;
    if (!(scaled > (float)(low - zero))) return low;
    if (scaled >= (float)(high - zero)) return high;
    whole = (int32_t)scaled;
    rest = scaled - (float)whole; /* exact, unlike scaled + 0.5 */
    return zero + whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0);
}

/* One value, by its tensor's scale and zero point; what dequantize gives is quantized to the same. */
static inline int8_t state_quantize_output_0(float real) {
    return (int8_t)state_saturate(real / STATE_OUTPUT_0_SCALE, STATE_OUTPUT_0_ZERO_POINT, INT8_MIN, INT8_MAX);
}
static inline float state_dequantize_output_0(int8_t value) {
    return (float)(value - (STATE_OUTPUT_0_ZERO_POINT)) * STATE_OUTPUT_0_SCALE;
}

#ifdef __cplusplus
}
#endif
#endif
