/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a plan's steps from a table where weights are coded: what decodes them is in the table, too. */
#ifndef TW_RUN_CODED_H
#define TW_RUN_CODED_H

#include "run.h"

/* A layer: `once` rows of the table, the first one's number `first`, which run once; then, for every slice, the two that
 * follow, a decoder and the layer itself; then, if there is a rest, the decoder for one slice more, and the row behind,
 * as for slice 1. */
typedef struct {
    uint16_t first, once, slices, rest;
} tw_layer;

/* A table of all layers' rows. strides: by how many bytes every pointer moves from slice to slice. */
typedef struct {
    const tw_step *rows;
    const int32_t *pointers, *strides;
    const void *const *constants;
} tw_table;

/* Where an argument lies that is so many bytes further on. */
TW_INLINE const unsigned char *tw_run_at(int32_t at, int32_t byte, const void *const *constants,
                                         const unsigned char *arena) {
    const unsigned char *base = at < 0 ? (const unsigned char *)constants[~at] : arena + at;
    return byte != 0 ? base + byte : base;
}

TW_INLINE void tw_run_slice(const tw_table *t, const tw_step *step, int32_t slice, unsigned char *arena,
                            const void **in, void **out) {
    const int32_t *at = step->pointers, *stride = t->strides + (at - t->pointers);
    for (int32_t i = 0; i < step->inputs; ++i) in[i] = tw_run_at(*at++, slice * *stride++, t->constants, arena);
    for (int32_t i = 0; i < step->outputs; ++i) out[i] = arena + *at++ + slice * *stride++;
    step->kernel(step->params, in, out, arena + step->scratch);
}

/* in, out: room for a row's pointers. */
TW_INLINE void tw_run_layer(const tw_table *t, const tw_layer *layer, unsigned char *arena, const void **in,
                            void **out) {
    const tw_step *step = t->rows + layer->first;
    for (int32_t i = 0; i < layer->once; ++i) tw_run_slice(t, step++, 0, arena, in, out);
    for (int32_t slice = 0; slice < layer->slices; ++slice)
        for (int j = 0; j < 2; ++j) tw_run_slice(t, step + j, slice, arena, in, out);
    if (layer->rest == 0) return;
    tw_run_slice(t, step, layer->slices, arena, in, out);
    tw_run_slice(t, step + 2, 1, arena, in, out);
}

#endif
