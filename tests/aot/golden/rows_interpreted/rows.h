/* SPDX-License-Identifier: Apache-2.0 */
/* rows: made by twinfer VERSION for target generic, interpreted, memory by rows. Do not edit. */
#ifndef ROWS_H
#define ROWS_H

#include <stdint.h>

#define ROWS_TWINFER_VERSION "VERSION"
#define ROWS_ARENA_BYTES 640
#define ROWS_ARENA_ALIGN 16
#define ROWS_LOWER_BOUND_BYTES 640 /* no placement of these tensors needs less */
#define ROWS_STATE_BYTES 0 /* that last from run to run */
#define ROWS_CONSTANT_BYTES 512 /* weights and everything else in the constants' file, read only */
#define ROWS_MACS 3600 /* multiply-accumulates of a run */
#define ROWS_INPUT_COUNT 1
#define ROWS_OUTPUT_COUNT 1

/* Input 0: "x" FLOAT32, at 0..240 */
#define ROWS_INPUT_0_OFFSET 0
#define ROWS_INPUT_0_BYTES 240
#define ROWS_INPUT_0_TYPE float
#define ROWS_INPUT_0_SIZE 60
#define ROWS_INPUT_0_RANK 4
#define ROWS_INPUT_0_SHAPE {1, 6, 5, 2}

/* Output 0: "average_pool_2d_9" FLOAT32, at 0..320 */
#define ROWS_OUTPUT_0_OFFSET 0
#define ROWS_OUTPUT_0_BYTES 320
#define ROWS_OUTPUT_0_TYPE float
#define ROWS_OUTPUT_0_SIZE 80
#define ROWS_OUTPUT_0_RANK 4
#define ROWS_OUTPUT_0_SHAPE {1, 5, 4, 4}

#ifdef __cplusplus
extern "C" {
#endif

/* One inference. Returns 0; 1 if arena is NULL, 2 if it is misaligned.
 * arena: ROWS_ARENA_BYTES bytes at a multiple of ROWS_ARENA_ALIGN, the caller's. Nothing in it has to last from one
 * run to the next: models may take turns in one arena.
 * inputs, outputs: pointers to ROWS_INPUT_COUNT and ROWS_OUTPUT_COUNT values, of any alignment. A value that is
 * NULL, or that is the arena plus its _OFFSET, is in place: an input was written there before the run, an output
 * stays there until the next. inputs or outputs as a whole may be NULL: all in place. */
int rows_run(void *arena, const void *const *inputs, void *const *outputs);

/* The same over memory of rows_static.c; only a program that uses them pays for it. Not reentrant. */
int rows_run_static(const void *const *inputs, void *const *outputs);
void *rows_arena(void);

/* SHA-256 of the model's file in hexadecimal, empty if it is not known; it comes with the weights. */
extern const char rows_model_sha256[65];

#ifdef __cplusplus
}
#endif
#endif
