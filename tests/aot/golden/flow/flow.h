/* SPDX-License-Identifier: Apache-2.0 */
/* flow: made by twinfer VERSION for target generic. Do not edit. */
#ifndef FLOW_H
#define FLOW_H

#include <stdint.h>

#define FLOW_TWINFER_VERSION "VERSION"
#define FLOW_ARENA_BYTES 32
#define FLOW_ARENA_ALIGN 16
#define FLOW_LOWER_BOUND_BYTES 28 /* no placement of these tensors needs less */
#define FLOW_STATE_BYTES 16 /* that last from run to run */
#define FLOW_MEMORY_BYTES 48 /* of one buffer for both */
#define FLOW_STATE_OFFSET 32 /* in that buffer, the arena before it */
#define FLOW_CONSTANT_BYTES 20 /* weights and everything else in the constants' file, read only */
#define FLOW_MACS 0 /* multiply-accumulates of a run */
#define FLOW_INPUT_COUNT 2
#define FLOW_OUTPUT_COUNT 2

/* Input 0: "main_0" FLOAT32, at arena 0..8 */
#define FLOW_INPUT_0_OFFSET 0
#define FLOW_INPUT_0_BYTES 8
#define FLOW_INPUT_0_TYPE float
#define FLOW_INPUT_0_SIZE 2
#define FLOW_INPUT_0_RANK 1
#define FLOW_INPUT_0_SHAPE {2}

/* Input 1: "main_1" BOOL, at arena 8..9 */
#define FLOW_INPUT_1_OFFSET 8
#define FLOW_INPUT_1_BYTES 1
#define FLOW_INPUT_1_TYPE uint8_t
#define FLOW_INPUT_1_SIZE 1
#define FLOW_INPUT_1_RANK 1
#define FLOW_INPUT_1_SHAPE {1}

/* Output 0: "main_5" FLOAT32, at arena 0..8 */
#define FLOW_OUTPUT_0_OFFSET 0
#define FLOW_OUTPUT_0_BYTES 8
#define FLOW_OUTPUT_0_TYPE float
#define FLOW_OUTPUT_0_SIZE 2
#define FLOW_OUTPUT_0_RANK 1
#define FLOW_OUTPUT_0_SHAPE {2}

/* Output 1: "main_6" FLOAT32, at arena 8..16 */
#define FLOW_OUTPUT_1_OFFSET 8
#define FLOW_OUTPUT_1_BYTES 8
#define FLOW_OUTPUT_1_TYPE float
#define FLOW_OUTPUT_1_SIZE 2
#define FLOW_OUTPUT_1_RANK 1
#define FLOW_OUTPUT_1_SHAPE {2}

#ifdef __cplusplus
extern "C" {
#endif

/* One inference. Returns 0; 1 if arena or state is NULL, 2 if it is misaligned.
 * arena: FLOW_ARENA_BYTES bytes at a multiple of FLOW_ARENA_ALIGN, the caller's. Nothing in it has to last from one
 * run to the next: models may take turns in one arena.
 * state: FLOW_STATE_BYTES bytes, aligned likewise, that hold what the model keeps from run to run: no other model
 * may write them. One buffer of FLOW_MEMORY_BYTES bytes has room for both, the state at FLOW_STATE_OFFSET.
 * inputs, outputs: pointers to FLOW_INPUT_COUNT and FLOW_OUTPUT_COUNT values, of any alignment. A value that is
 * NULL, or that is the arena plus its _OFFSET, is in place: an input was written there before the run, an output
 * stays there until the next. inputs or outputs as a whole may be NULL: all in place. */
int flow_run(void *arena, void *state, const void *const *inputs, void *const *outputs);

/* Sets variables to their first values: before the first run, and to start anew. The block must be there. */
void flow_reset(void *state);

/* The same over memory of flow_static.c; only a program that uses them pays for it. Not reentrant. */
int flow_run_static(const void *const *inputs, void *const *outputs);
void *flow_arena(void);
void *flow_state(void);

/* SHA-256 of the model's file in hexadecimal, empty if it is not known; it comes with the weights. */
extern const char flow_model_sha256[65];

#ifdef __cplusplus
}
#endif
#endif
