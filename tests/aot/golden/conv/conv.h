/* SPDX-License-Identifier: Apache-2.0 */
/* conv: made by twinfer VERSION for target host. Do not edit. */
#ifndef CONV_H
#define CONV_H

#include <stdint.h>

#define CONV_TWINFER_VERSION "VERSION"
#define CONV_ARENA_BYTES 304
#define CONV_ARENA_ALIGN 16
#define CONV_LOWER_BOUND_BYTES 296 /* no placement of these tensors needs less */
#define CONV_STATE_BYTES 0 /* that last from run to run */
#define CONV_CONSTANT_BYTES 1216 /* weights and everything else in the constants' file, read only */
#define CONV_MACS 216 /* multiply-accumulates of a run */
#define CONV_INPUT_COUNT 1
#define CONV_OUTPUT_COUNT 1

/* Input 0: "x" FLOAT32, at 0..128 */
#define CONV_INPUT_0_OFFSET 0
#define CONV_INPUT_0_BYTES 128
#define CONV_INPUT_0_TYPE float
#define CONV_INPUT_0_SIZE 32
#define CONV_INPUT_0_RANK 4
#define CONV_INPUT_0_SHAPE {1, 4, 4, 2}

/* Output 0: "y" FLOAT32, at 128..176 */
#define CONV_OUTPUT_0_OFFSET 128
#define CONV_OUTPUT_0_BYTES 48
#define CONV_OUTPUT_0_TYPE float
#define CONV_OUTPUT_0_SIZE 12
#define CONV_OUTPUT_0_RANK 4
#define CONV_OUTPUT_0_SHAPE {1, 2, 2, 3}

#ifdef __cplusplus
extern "C" {
#endif

/* One inference. Returns 0; 1 if arena is NULL, 2 if it is misaligned.
 * arena: CONV_ARENA_BYTES bytes at a multiple of CONV_ARENA_ALIGN, the caller's. Nothing in it has to last from one
 * run to the next: models may take turns in one arena.
 * inputs, outputs: pointers to CONV_INPUT_COUNT and CONV_OUTPUT_COUNT values, of any alignment. A value that is
 * NULL, or that is the arena plus its _OFFSET, is in place: an input was written there before the run, an output
 * stays there until the next. inputs or outputs as a whole may be NULL: all in place. */
int conv_run(void *arena, const void *const *inputs, void *const *outputs);

/* The same over memory of conv_static.c; only a program that uses them pays for it. Not reentrant. */
int conv_run_static(const void *const *inputs, void *const *outputs);
void *conv_arena(void);

/* SHA-256 of the model's file in hexadecimal, empty if it is not known; it comes with the weights. */
extern const char conv_model_sha256[65];

#ifdef __cplusplus
}
#endif
#endif
