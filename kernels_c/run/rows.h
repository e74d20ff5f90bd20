/* SPDX-License-Identifier: Apache-2.0 */
/* Calls a kernel for some rows of its output, with params that differ from those for all rows in a few members. */
#ifndef TW_ROWS_OF_CALL_H
#define TW_ROWS_OF_CALL_H

#include "chain.h"

#define TW_MAX_PARAMS 256
#define TW_MAX_INPUTS 16

/* A member of the params, at a byte of them: each times the rows of the part that lie in low..high - 1; with each
 * TW_ROWS_IN the rows that the part sees of the first source, with TW_ROWS_PAD the padding before them, low being the
 * padding before the first row and high the stride; with TW_ROWS_FIRST high times the part's first row. */
typedef struct {
    int32_t at, low, high, each;
} tw_rows_member;

enum { TW_ROWS_IN = 0, TW_ROWS_PAD = -1, TW_ROWS_FIRST = -2 };

/* A kernel's call for all rows. in: its inputs; those that are read by rows, places of them, are not used. */
typedef struct {
    tw_fn *kernel;
    const void *params;
    const void *const *in;
    const tw_rows_member *members;
    int32_t bytes, inputs, member_count, scratch, sources;
    int32_t places[TW_MAX_SOURCES];
} tw_rows_call;

TW_INLINE int32_t tw_patched(const tw_rows_member *member, const tw_rows_part *part) {
    if (member->each == TW_ROWS_IN) return part->high - part->low;
    if (member->each == TW_ROWS_PAD) return tw_max(0, member->low - part->first * member->high);
    if (member->each == TW_ROWS_FIRST) return part->first * member->high;
    return member->each * tw_chain_among(part, member->low, member->high);
}

static TW_NOINLINE void tw_run_rows(const void *context, const tw_rows_part *part) {
    const tw_rows_call *call = (const tw_rows_call *)context;
    int64_t params[TW_MAX_PARAMS / 8];
    const void *in[TW_MAX_INPUTS];
    void *out[1];
    memcpy(params, call->params, (size_t)call->bytes);
    for (int32_t i = 0; i < call->member_count; ++i) {
        const int32_t value = tw_patched(call->members + i, part);
        memcpy((char *)params + call->members[i].at, &value, sizeof value);
    }
    memcpy(in, call->in, (size_t)call->inputs * sizeof *in);
    for (int32_t k = 0; k < call->sources; ++k) in[call->places[k]] = part->x[k];
    out[0] = part->y;
    call->kernel(params, in, out, part->arena + call->scratch);
}

#endif
