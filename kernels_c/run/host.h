/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter's part in C: the tables of kernels, and functions that run and time calls. Only the extension
 * includes it. */
#ifndef TW_HOST_H
#define TW_HOST_H

#include <time.h>

#include "../core/tw.h"
#include "cpu.h"
#include "feed.h"
#include "pool.h"
#include "rows.h"

#define TW_ENTRY(name) #name,
const char *const tw_names[] = {
#include "names.inc"
};
#undef TW_ENTRY
const int tw_count = sizeof tw_names / sizeof tw_names[0];

/* The tables of the levels; those that are not linked have no address. */
#define TW_LINKED(level) extern __attribute__((weak)) tw_fn *const tw_table_##level[];
TW_LINKED(base)
TW_LINKED(v3)
TW_LINKED(v4)
TW_LINKED(dotprod)
TW_LINKED(i8mm)
TW_LINKED(avx_vnni)
#undef TW_LINKED

static tw_fn *const *tw_level_table(int level) {
#ifdef TW_LEVELS_X86
    if (level == 2) return tw_table_v4;
    if (level == 1) return tw_table_v3;
#endif
#ifdef TW_LEVELS_ARM
    if (level == 2) return tw_table_i8mm;
    if (level == 1) return tw_table_dotprod;
#endif
    return level ? 0 : tw_table_base;
}

static int tw_built(int level) { return tw_level_table(level) != 0; }

static tw_fn *tw_kernel(int level, int index) {
#ifdef TW_SET_AVX_VNNI
    if (*tw_set(level) && tw_table_avx_vnni && tw_table_avx_vnni[index]) return tw_table_avx_vnni[index];
#endif
    return tw_level_table(level)[index];
}

static void tw_run(const tw_call *calls, int count) {
    for (int i = 0; i < count; ++i) calls[i].fn(calls[i].params, calls[i].in, calls[i].out, calls[i].scratch);
}

/* A call in parts, each rows of its own. */
typedef struct {
    const tw_rows_call *call;
    const tw_rows_part *parts;
    int32_t count;
} tw_split;

static void tw_split_part(void *context, int32_t part) {
    const tw_split *split = (const tw_split *)context;
    tw_run_rows(split->call, split->parts + part);
}

/* A split as a call: params is a tw_split, scratch the pool. */
static void tw_run_split(const void *params, const void *const *in, void *const *out, void *scratch) {
    tw_split split = *(const tw_split *)params;
    (void)in, (void)out;
    tw_pool_run((tw_pool *)scratch, split.count, tw_split_part, &split);
}

/* A chain as a call: params is a tw_chain, in[0] an input that is not in the arena or NULL, out[0] the progress of its
 * layers, scratch the arena. */
static void tw_run_chain(const void *params, const void *const *in, void *const *out, void *scratch) {
    tw_chain_run((const tw_chain *)params, (tw_rows_progress *)out[0], (unsigned char *)scratch,
                 (const unsigned char *)in[0]);
}

/* The same of a layer that goes from its last row to the first. */
static void tw_run_chain_back(const void *params, const void *const *in, void *const *out, void *scratch) {
    tw_chain_back((const tw_chain *)params, (tw_rows_progress *)out[0], (unsigned char *)scratch,
                  (const unsigned char *)in[0]);
}

/* The same of a chain that waits for rows of the input, in[0], which is whole here. */
static void tw_run_feed(const void *params, const void *const *in, void *const *out, void *scratch) {
    tw_feed_all((const tw_chain *)params, (tw_rows_progress *)out[0], (unsigned char *)scratch, in[0]);
}

static void tw_begin_rows(const void *chain, void *progress) {
    tw_feed_begin((const tw_chain *)chain, (tw_rows_progress *)progress);
}

static int32_t tw_push_row(const void *chain, void *progress, void *arena, const void *row) {
    return tw_feed_row((const tw_chain *)chain, (tw_rows_progress *)progress, (unsigned char *)arena, row);
}

static int64_t tw_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void tw_profile(const tw_call *calls, int count, int64_t *ns) {
    for (int i = 0; i < count; ++i) {
        const int64_t start = tw_now();
        tw_run(calls + i, 1);
        const int64_t took = tw_now() - start;
        if (took < ns[i]) ns[i] = took;
    }
}

#endif
