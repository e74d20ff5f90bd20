/* dense: made by twinfer VERSION for target generic, model SHA-256 0000000000000000000000000000000000000000000000000000000000000000. Do not edit. */
#ifndef DENSE_H
#define DENSE_H

#include <stdint.h>

#define DENSE_ARENA_BYTES 22
#define DENSE_ARENA_ALIGN 16
#define DENSE_LOWER_BOUND_BYTES 12 /* no placement of these tensors needs less */
#define DENSE_CONSTANT_BYTES 186
#define DENSE_MACS 108
#define DENSE_INPUT_COUNT 1
#define DENSE_OUTPUT_COUNT 1

/* Input 0: "x" INT8, arena [0, 6) */
#define DENSE_INPUT_0_OFFSET 0
#define DENSE_INPUT_0_BYTES 6
#define DENSE_INPUT_0_TYPE int8_t
#define DENSE_INPUT_0_SIZE 6
#define DENSE_INPUT_0_RANK 2
#define DENSE_INPUT_0_SHAPE {1, 6}
#define DENSE_INPUT_0_SCALE 0.0500000007f
#define DENSE_INPUT_0_ZERO_POINT 7

/* Output 0: "y2" INT8, arena [16, 22) */
#define DENSE_OUTPUT_0_OFFSET 16
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

/* One inference. Returns 0; 1 if arena is NULL, 2 if it is misaligned.
 * arena: DENSE_ARENA_BYTES bytes at a multiple of DENSE_ARENA_ALIGN, the caller's.
 * inputs, outputs: pointers to DENSE_INPUT_COUNT and DENSE_OUTPUT_COUNT values, of any alignment. A value that is
 * NULL, or that is the arena plus its _OFFSET, is in place: an input was written there before the run, an output stays
 * there until the next. inputs or outputs as a whole may be NULL: all in place. */
int dense_run(void *arena, const void *const *inputs, void *const *outputs);

/* The same over an arena of dense_static.c; only a program that uses them pays for it. Not reentrant. */
int dense_run_static(const void *const *inputs, void *const *outputs);
void *dense_arena(void);

#ifdef __cplusplus
}
#endif
#endif
