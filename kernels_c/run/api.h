/* SPDX-License-Identifier: Apache-2.0 */
/* What the headers of all models have in common: what their functions return, and how a layer is described. */
#ifndef TW_API_H
#define TW_API_H

#include <stdint.h>

/* A run, or a part of one. push_row returns errors with a minus sign. */
typedef enum {
    TW_OK = 0,
    TW_NO_MEMORY = 1,     /* a block of memory is NULL */
    TW_MISALIGNED = 2,    /* a block of memory, or an input in place */
    TW_NO_INPUT = 3,      /* an input or some of its rows are missing; of push_row: no row is wanted any more */
    TW_NOT_BEGUN = 4,     /* no begin before */
    TW_CANCELLED = 5,     /* by the hook: nothing was copied to outputs; reset the state, if there is one */
    TW_NO_LAYER = 6,      /* from or to is no number of a layer, or to is less than from */
    TW_OTHER_WEIGHTS = 7, /* of check: no weights, or for another code */
    TW_BAD_WEIGHTS = 8    /* of check: their CRC is wrong */
} tw_status;

/* In words, of push_row's errors, too. */
static inline const char *tw_status_text(int status) {
    switch (status < 0 ? -status : status) {
    case TW_OK: return "done";
    case TW_NO_MEMORY: return status < 0 ? "the arena or the row is NULL" : "a block of memory is NULL";
    case TW_MISALIGNED: return "a block of memory is misaligned";
    case TW_NO_INPUT: return status < 0 ? "no row is wanted any more" : "an input or rows of it are missing";
    case TW_NOT_BEGUN: return "not begun";
    case TW_CANCELLED: return "cancelled by the hook";
    case TW_NO_LAYER: return "no such layers";
    case TW_OTHER_WEIGHTS: return "the weights are for another code";
    case TW_BAD_WEIGHTS: return "the weights are damaged";
    default: return "a layer wrote outside of its memory";
    }
}

/* A layer, as it is numbered in hooks and names of functions. */
typedef struct {
    const char *op, *kernel, *output; /* operator, kernel, name of its output in the model */
    uint64_t macs;                    /* multiply-accumulates */
    const char *type;                 /* of its output, such as INT8 */
    const int32_t *shape;
    int32_t rank;
    int32_t with; /* the layer that it runs with: itself, or the last of those that run together */
} tw_layer;

#endif
