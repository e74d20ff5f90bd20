/* SPDX-License-Identifier: Apache-2.0 */
/* dense: made by twinfer VERSION for target generic. Do not edit. */
#ifndef DENSE_H
#define DENSE_H
#include "kernels/run/api.h"

#include <stdalign.h>
#include <stdint.h>

#define DENSE_TWINFER_VERSION "VERSION"
#define DENSE_ARENA_BYTES 16
#define DENSE_ARENA_ALIGN 16
#define DENSE_LOWER_BOUND_BYTES 12 /* no placement of these tensors needs less */
#define DENSE_STATE_BYTES 0 /* that last from run to run */
#define DENSE_CONSTANT_BYTES 195 /* weights and everything else in the constants' file, read only */
#define DENSE_MACS 108 /* multiply-accumulates of a run */
#define DENSE_LAYER_COUNT 3
#define DENSE_INPUT_COUNT 1
#define DENSE_OUTPUT_COUNT 1
#define DENSE_STRUCTURE 0x476B1A38u /* of the constants that the code is for */

/* Input 0: "x" INT8, at 0..6 */
#define DENSE_INPUT_0_OFFSET 0
#define DENSE_INPUT_0_BYTES 6
#define DENSE_INPUT_0_TYPE int8_t
#define DENSE_INPUT_0_SIZE 6
#define DENSE_INPUT_0_RANK 2
#define DENSE_INPUT_0_SHAPE {1, 6}
#define DENSE_INPUT_0_SCALE 0.0500000007f
#define DENSE_INPUT_0_ZERO_POINT 7

/* Output 0: "y2" INT8, at 8..14 */
#define DENSE_OUTPUT_0_OFFSET 8
#define DENSE_OUTPUT_0_BYTES 6
#define DENSE_OUTPUT_0_TYPE int8_t
#define DENSE_OUTPUT_0_SIZE 6
#define DENSE_OUTPUT_0_RANK 2
#define DENSE_OUTPUT_0_SHAPE {1, 6}
#define DENSE_OUTPUT_0_SCALE 0.100000001f
#define DENSE_OUTPUT_0_ZERO_POINT -3

#ifdef __cplusplus
extern "C" {
#endif

/* Memory for a run. */
typedef struct {
    alignas(DENSE_ARENA_ALIGN) unsigned char bytes[DENSE_ARENA_BYTES];
} dense_arena_t;

/* One inference. Returns a tw_status: TW_OK, TW_NO_MEMORY if arena is NULL, TW_MISALIGNED, or TW_CANCELLED by the
 * hook.
 * arena: DENSE_ARENA_BYTES bytes at a multiple of DENSE_ARENA_ALIGN, the caller's. Nothing in it has to last from
 * one run to the next: models may take turns in one arena.
 * inputs, outputs: pointers to DENSE_INPUT_COUNT and DENSE_OUTPUT_COUNT values, of any alignment. A value that is
 * NULL, or that is the arena plus its _OFFSET, is in place: an input was written there before the run, an output
 * stays there until the next. inputs or outputs as a whole may be NULL: all in place. */
int dense_run(void *arena, const void *const *inputs, void *const *outputs);

/* The same with types, of a model with one input and one output. */
static inline int dense_run_1(dense_arena_t *arena,
                              const int8_t in[DENSE_INPUT_0_SIZE],
                              int8_t out[DENSE_OUTPUT_0_SIZE]) {
    const void *const inputs[] = {in};
    void *const outputs[] = {out};
    return dense_run(arena, inputs, outputs);
}

/* Layers from to before to, in order; dense.c has it with -DTW_RUN_LAYERS. All layers, from 0 to DENSE_LAYER_COUNT,
 * are a run; between the calls of one run nothing else may write the memory given. Inputs lie at
 * DENSE_INPUT_0_OFFSET and so on. Outputs stay in place. Layers that run together, row by row or in a branch or
 * loop, all run with the last of them. Returns what a run does, or TW_NO_LAYER. */
int dense_run_layers(void *arena, int32_t from, int32_t to);

/* Every layer, in dense_layers.c; only a program that uses it pays for it. */
extern const tw_layer dense_layers[DENSE_LAYER_COUNT];

/* The same over memory of dense_static.c; only a program that uses them pays for it. Not reentrant. */
int dense_run_static(const void *const *inputs, void *const *outputs);
void *dense_arena(void);

/* Looks at the constants: TW_OK, TW_OTHER_WEIGHTS if they are for another code, or TW_BAD_WEIGHTS if a bit of them
 * has changed. It reads all of them; a program that never calls it pays nothing. */
int dense_check(void);

/* SHA-256 of the model's file in hexadecimal, empty if it is not known; it comes with the weights. */
extern const char dense_model_sha256[65];

/* scaled + zero, rounded half away from zero and saturated to [low, high]; NaN gives low. */
static inline int32_t dense_saturate(float scaled, int32_t zero, int32_t low, int32_t high) {
    int32_t whole;
    float rest;
    if (!(scaled > (float)(low - zero))) return low;
    if (scaled >= (float)(high - zero)) return high;
    whole = (int32_t)scaled;
    rest = scaled - (float)whole; /* exact, unlike scaled + 0.5 */
    return zero + whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0);
}

/* One value, by its tensor's scale and zero point; what dequantize gives is quantized to the same. */
static inline int8_t dense_quantize_input_0(float real) {
    return (int8_t)dense_saturate(real / DENSE_INPUT_0_SCALE, DENSE_INPUT_0_ZERO_POINT, INT8_MIN, INT8_MAX);
}
static inline float dense_dequantize_input_0(int8_t value) {
    return (float)(value - (DENSE_INPUT_0_ZERO_POINT)) * DENSE_INPUT_0_SCALE;
}

static inline int8_t dense_quantize_output_0(float real) {
    return (int8_t)dense_saturate(real / DENSE_OUTPUT_0_SCALE, DENSE_OUTPUT_0_ZERO_POINT, INT8_MIN, INT8_MAX);
}
static inline float dense_dequantize_output_0(int8_t value) {
    return (float)(value - (DENSE_OUTPUT_0_ZERO_POINT)) * DENSE_OUTPUT_0_SCALE;
}

#ifdef __cplusplus
}
#endif
#endif
