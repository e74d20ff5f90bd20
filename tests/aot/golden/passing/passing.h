/* SPDX-License-Identifier: Apache-2.0 */
/* passing: made by twinfer VERSION for target host. Do not edit. */
#ifndef PASSING_H
#define PASSING_H

#include <stdint.h>

#define PASSING_TWINFER_VERSION "VERSION"
#define PASSING_ARENA_BYTES 112
#define PASSING_ARENA_ALIGN 16
#define PASSING_LOWER_BOUND_BYTES 96 /* no placement of these tensors needs less */
#define PASSING_STATE_BYTES 0 /* that last from run to run */
#define PASSING_CONSTANT_BYTES 36 /* weights and everything else in the constants' file, read only */
#define PASSING_MACS 0 /* multiply-accumulates of a run */
#define PASSING_INPUT_COUNT 1
#define PASSING_OUTPUT_COUNT 4

/* Input 0: "*\/ x \\ "?\?/\n/\* \xe9" INT8, at 0..30 */
#define PASSING_INPUT_0_OFFSET 0
#define PASSING_INPUT_0_BYTES 30
#define PASSING_INPUT_0_TYPE int8_t
#define PASSING_INPUT_0_SIZE 30
#define PASSING_INPUT_0_RANK 3
#define PASSING_INPUT_0_SHAPE {1, 6, 5}
#define PASSING_INPUT_0_SCALE 0.5f
#define PASSING_INPUT_0_ZERO_POINT 3

/* Output 0: "y" INT8, at 32..62 */
#define PASSING_OUTPUT_0_OFFSET 32
#define PASSING_OUTPUT_0_BYTES 30
#define PASSING_OUTPUT_0_TYPE int8_t
#define PASSING_OUTPUT_0_SIZE 30
#define PASSING_OUTPUT_0_RANK 1
#define PASSING_OUTPUT_0_SHAPE {30}
#define PASSING_OUTPUT_0_SCALE 0.5f
#define PASSING_OUTPUT_0_ZERO_POINT 3

/* Output 1: "z" FLOAT32, at 64..100 */
#define PASSING_OUTPUT_1_OFFSET 64
#define PASSING_OUTPUT_1_BYTES 36
#define PASSING_OUTPUT_1_TYPE float
#define PASSING_OUTPUT_1_SIZE 9
#define PASSING_OUTPUT_1_RANK 1
#define PASSING_OUTPUT_1_SHAPE {9}

/* Output 2: "*\/ x \\ "?\?/\n/\* \xe9" INT8, at 0..30 */
#define PASSING_OUTPUT_2_OFFSET 0
#define PASSING_OUTPUT_2_BYTES 30
#define PASSING_OUTPUT_2_TYPE int8_t
#define PASSING_OUTPUT_2_SIZE 30
#define PASSING_OUTPUT_2_RANK 3
#define PASSING_OUTPUT_2_SHAPE {1, 6, 5}
#define PASSING_OUTPUT_2_SCALE 0.5f
#define PASSING_OUTPUT_2_ZERO_POINT 3

/* Output 3: "odd floats" FLOAT32, a constant, not in the arena */
#define PASSING_OUTPUT_3_BYTES 36
#define PASSING_OUTPUT_3_TYPE float
#define PASSING_OUTPUT_3_SIZE 9
#define PASSING_OUTPUT_3_RANK 2
#define PASSING_OUTPUT_3_SHAPE {3, 3}

#ifdef __cplusplus
extern "C" {
#endif

/* One inference. Returns 0; 1 if arena is NULL, 2 if it is misaligned.
 * arena: PASSING_ARENA_BYTES bytes at a multiple of PASSING_ARENA_ALIGN, the caller's. Nothing in it has to last
 * from one run to the next: models may take turns in one arena.
 * inputs, outputs: pointers to PASSING_INPUT_COUNT and PASSING_OUTPUT_COUNT values, of any alignment. A value that
 * is NULL, or that is the arena plus its _OFFSET, is in place: an input was written there before the run, an output
 * stays there until the next. inputs or outputs as a whole may be NULL: all in place. */
int passing_run(void *arena, const void *const *inputs, void *const *outputs);

/* The same over memory of passing_static.c; only a program that uses them pays for it. Not reentrant. */
int passing_run_static(const void *const *inputs, void *const *outputs);
void *passing_arena(void);

/* SHA-256 of the model's file in hexadecimal, empty if it is not known; it comes with the weights. */
extern const char passing_model_sha256[65];

/* scaled + zero, rounded half away from zero and saturated to [low, high]; NaN gives low. */
static inline int32_t passing_saturate(float scaled, int32_t zero, int32_t low, int32_t high) {
    int32_t whole;
    float rest;
    if (!(scaled > (float)(low - zero))) return low;
    if (scaled >= (float)(high - zero)) return high;
    whole = (int32_t)scaled;
    rest = scaled - (float)whole; /* exact, unlike scaled + 0.5 */
    return zero + whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0);
}

/* One value, by its tensor's scale and zero point; what dequantize gives is quantized to the same. */
static inline int8_t passing_quantize_input_0(float real) {
    return (int8_t)passing_saturate(real / PASSING_INPUT_0_SCALE, PASSING_INPUT_0_ZERO_POINT, INT8_MIN, INT8_MAX);
}
static inline float passing_dequantize_input_0(int8_t value) {
    return (float)(value - (PASSING_INPUT_0_ZERO_POINT)) * PASSING_INPUT_0_SCALE;
}

static inline int8_t passing_quantize_output_0(float real) {
    return (int8_t)passing_saturate(real / PASSING_OUTPUT_0_SCALE, PASSING_OUTPUT_0_ZERO_POINT, INT8_MIN, INT8_MAX);
}
static inline float passing_dequantize_output_0(int8_t value) {
    return (float)(value - (PASSING_OUTPUT_0_ZERO_POINT)) * PASSING_OUTPUT_0_SCALE;
}

static inline int8_t passing_quantize_output_2(float real) {
    return (int8_t)passing_saturate(real / PASSING_OUTPUT_2_SCALE, PASSING_OUTPUT_2_ZERO_POINT, INT8_MIN, INT8_MAX);
}
static inline float passing_dequantize_output_2(int8_t value) {
    return (float)(value - (PASSING_OUTPUT_2_ZERO_POINT)) * PASSING_OUTPUT_2_SCALE;
}

#ifdef __cplusplus
}
#endif
#endif
