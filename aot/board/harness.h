/* SPDX-License-Identifier: Apache-2.0 */
/* Runs models on the board as the host asks: what a model is made of, and how intervals are marked. */
#ifndef TW_HARNESS_H
#define TW_HARNESS_H

#include <stdint.h>

/* Bytes of a model's memory, such as an input. */
typedef struct {
    unsigned char *at;
    uint32_t bytes;
} tw_span;

typedef int tw_run_fn(void *arena, const void *const *inputs, void *const *outputs);
typedef void tw_step_fn(unsigned char *arena);

typedef struct {
    tw_run_fn *run;
    void (*reset)(void *arena); /* NULL: no variables */
    tw_step_fn *const *steps;
    const tw_span *inputs, *outputs, *perishable, *memory; /* perishable: what holds nothing between two runs */
    uint32_t step_count, input_count, output_count, perishable_count, memory_count;
} tw_model;

/* The program's own, written for it by the host. */
extern const tw_model tw_models[];
extern const uint32_t tw_model_count;
extern unsigned char tw_arena[];

/* The board's own (port.c). tw_nothing, tw_no_step: they return at once. tw_loop: 2,000,002 instructions. */
int tw_nothing(void *arena, const void *const *inputs, void *const *outputs);
void tw_no_step(unsigned char *arena);
int tw_loop(void *arena, const void *const *inputs, void *const *outputs);

/* A clock that goes by instructions as far as the emulator lets it; what it shows grows. */
void tw_start_clock(void);
uint64_t tw_clock(void);

/* Paints the free stack; then, called from the same depth: the bytes below the caller's that have been written. */
void tw_paint(void);
uint32_t tw_unpainted(void);

#endif
