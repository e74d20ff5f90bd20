/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a plan's layers from a table of constants where some layers are more than one call, or loop over calls. */
#ifndef TW_RUN_LOOPS_H
#define TW_RUN_LOOPS_H

#include "run.h"

/* Consecutive rows of the table, and how many times they run: once, or as the body of a loop. */
typedef struct {
    uint16_t first, rows, times;
} tw_repeat;

/* The table of all layers. Layer i has the loops from layers[i] up to, not including, layers[i + 1]. strides: bytes by
 * which every pointer moves per iteration. */
typedef struct {
    const uint16_t *layers;
    const tw_repeat *loops;
    const tw_step *rows;
    const int32_t *pointers, *strides;
    const void *const *constants;
} tw_table;

/* The address of an argument plus byte bytes. */
TW_INLINE const unsigned char *tw_run_at(int32_t at, int32_t byte, const void *const *constants,
                                         const tw_memory *memory) {
    const unsigned char *base = at < 0 ? (const unsigned char *)constants[~at] : tw_byte(memory, at);
    return byte != 0 ? base + byte : base;
}

/* One iteration of a row. */
TW_INLINE void tw_run_row(const tw_table *t, const tw_step *row, int32_t iteration, const tw_memory *memory,
                          const void **in, void **out) {
    const int32_t *at = row->pointers, *stride = t->strides + (at - t->pointers);
    for (int32_t i = 0; i < row->inputs; ++i) in[i] = tw_run_at(*at++, iteration * *stride++, t->constants, memory);
    for (int32_t i = 0; i < row->outputs; ++i) out[i] = tw_byte(memory, *at++) + iteration * *stride++;
    row->kernel(row->params, in, out, memory->arena + row->scratch);
}

/* in, out: room for a row's pointers. */
TW_INLINE void tw_run_layer(const tw_table *t, int32_t layer, const tw_memory *memory, const void **in, void **out) {
    for (int32_t l = t->layers[layer]; l < t->layers[layer + 1]; ++l)
        for (int32_t iteration = 0; iteration < t->loops[l].times; ++iteration)
            for (int32_t r = 0; r < t->loops[l].rows; ++r)
                tw_run_row(t, t->rows + t->loops[l].first + r, iteration, memory, in, out);
}

#endif
