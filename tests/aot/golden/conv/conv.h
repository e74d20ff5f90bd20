/* SPDX-License-Identifier: Apache-2.0 */
/* conv: made by twinfer VERSION for target host. Do not edit. */
#ifndef CONV_H
#define CONV_H
#include "kernels/run/api.h"

#include <stdalign.h>
#include <stdint.h>

#define CONV_TWINFER_VERSION "VERSION"
#define CONV_ARENA_BYTES 304
#define CONV_ARENA_ALIGN 16
#define CONV_LOWER_BOUND_BYTES 296 /* no placement of these tensors needs less */
#define CONV_STATE_BYTES 0 /* that last from run to run */
#define CONV_CONSTANT_BYTES 1216 /* weights and everything else in the constants' file, read only */
#define CONV_MACS 216 /* multiply-accumulates of a run */
#define CONV_LAYER_COUNT 1
#define CONV_INPUT_COUNT 1
#define CONV_OUTPUT_COUNT 1
#define CONV_STRUCTURE 0xF3138F7Du /* of the constants that the code is for */

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

/* Memory for a run. */
typedef struct {
    alignas(CONV_ARENA_ALIGN) unsigned char bytes[CONV_ARENA_BYTES];
} conv_arena_t;

/* One inference. Returns a tw_status: TW_OK, TW_NO_MEMORY if arena is NULL, TW_MISALIGNED, or TW_CANCELLED by the
 * hook.
 * arena: CONV_ARENA_BYTES bytes at a multiple of CONV_ARENA_ALIGN, the caller's. Nothing in it has to last from one
 * run to the next: models may take turns in one arena.
 * inputs, outputs: pointers to CONV_INPUT_COUNT and CONV_OUTPUT_COUNT values, of any alignment. A value that is
 * NULL, or that is the arena plus its _OFFSET, is in place: an input was written there before the run, an output
 * stays there until the next. inputs or outputs as a whole may be NULL: all in place. */
int conv_run(void *arena, const void *const *inputs, void *const *outputs);

/* The same with types, of a model with one input and one output. */
static inline int conv_run_1(conv_arena_t *arena, const float in[CONV_INPUT_0_SIZE], float out[CONV_OUTPUT_0_SIZE]) {
    const void *const inputs[] = {in};
    void *const outputs[] = {out};
    return conv_run(arena, inputs, outputs);
}

/* Layers from to before to, in order; conv.c has it with -DTW_RUN_LAYERS. All layers, from 0 to CONV_LAYER_COUNT,
 * are a run; between the calls of one run nothing else may write the memory given. Inputs lie at CONV_INPUT_0_OFFSET
 * and so on. Outputs stay in place. Layers that run together, row by row or in a branch or loop, all run with the
 * last of them. Returns what a run does, or TW_NO_LAYER. */
int conv_run_layers(void *arena, int32_t from, int32_t to);

/* Every layer, in conv_layers.c; only a program that uses it pays for it. */
extern const tw_layer conv_layers[CONV_LAYER_COUNT];

/* The same over memory of conv_static.c; only a program that uses them pays for it. Not reentrant. */
int conv_run_static(const void *const *inputs, void *const *outputs);
void *conv_arena(void);

/* Looks at the constants: TW_OK, TW_OTHER_WEIGHTS if they are for another code, or TW_BAD_WEIGHTS if a bit of them
 * has changed. It reads all of them; a program that never calls it pays nothing. */
int conv_check(void);

/* SHA-256 of the model's file in hexadecimal, empty if it is not known; it comes with the weights. */
extern const char conv_model_sha256[65];

#ifdef __cplusplus
}
#endif
#endif
