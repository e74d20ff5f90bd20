/* SPDX-License-Identifier: Apache-2.0 */
/* Runs models on the board as the host asks: what a model is made of, and how intervals are marked. */
#ifndef TW_HARNESS_H
#define TW_HARNESS_H

#include <stdint.h>

/* Where an input or output lies in the arena. */
typedef struct {
    uint32_t offset, bytes;
} tw_span;

typedef int tw_run_fn(void *arena, const void *const *inputs, void *const *outputs);
typedef void tw_step_fn(unsigned char *arena);

typedef struct {
    tw_run_fn *run;
    void (*reset)(void *arena); /* NULL: no variables */
    tw_step_fn *const *steps;
    const tw_span *inputs, *outputs, *perishable; /* the last: what holds nothing between two runs */
    uint32_t step_count, input_count, output_count, perishable_count, arena_bytes;
} tw_model;

/* The program's own, written for it by the host. */
extern const tw_model tw_models[];
extern const uint32_t tw_model_count;
extern unsigned char tw_arena[];

/* The linker script's: where the stack ends, which grows downwards. */
extern uint32_t tw_stack_limit[];

#endif
