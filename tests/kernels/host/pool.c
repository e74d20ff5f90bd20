/* SPDX-License-Identifier: Apache-2.0 */
/* Several callers of one pool, each with splits of its own, beside a thread that makes and frees pools. */
#include <stdio.h>
#include <string.h>

#include "core/tw.h"
#include "run/pool.h"

enum { PARTS = 5, BYTES = 64, ROUNDS = 1500, CALLERS = 3 };
static int32_t seen;

typedef struct {
    int32_t add;
} add_params;

static void add(const void *params, const void *const *in, void *const *out, void *scratch) {
    const unsigned char *x = (const unsigned char *)in[0];
    unsigned char *y = (unsigned char *)out[0], *t = (unsigned char *)scratch;
    for (int i = 0; i < BYTES; ++i) t[i] = (unsigned char)(x[i] + ((const add_params *)params)->add);
    for (int i = 0; i < BYTES; ++i) y[i] = t[BYTES - 1 - i];
#ifdef PLANTED
    ++seen;
#endif
}

static tw_pool *shared;

static int wrong(const unsigned char *x, const unsigned char *y, int32_t n) {
    int bad = 0;
    for (int i = 0; i < PARTS * BYTES; ++i) {
        const int j = i / BYTES * BYTES + BYTES - 1 - i % BYTES;
        bad += y[i] != (unsigned char)(x[j] + n);
    }
    return bad;
}

static void *calls(void *number) {
    unsigned char x[PARTS * BYTES], y[PARTS * BYTES], scratch[PARTS][BYTES];
    add_params params = {0};
    const void *const none[1] = {NULL};
    tw_rows_call call = {.kernel = add, .params = &params, .in = none, .bytes = sizeof params, .inputs = 1, .sources = 1};
    tw_rows_part parts[PARTS];
    intptr_t bad = 0;
    for (int i = 0; i < PARTS * BYTES; ++i) x[i] = (unsigned char)(7 * i + (int)(intptr_t)number);
    memset(parts, 0, sizeof parts);
    for (int i = 0; i < PARTS; ++i) parts[i].arena = scratch[i], parts[i].y = y + i * BYTES, parts[i].x[0] = x + i * BYTES;
    for (int32_t round = 0; round < ROUNDS; ++round) {
        const tw_split split = {&call, parts, 1 + round % PARTS};
        memset(y, 0, sizeof y);
        for (int32_t i = split.count; i < PARTS; ++i) params.add = round, tw_run_rows(&call, parts + i);
        params.add = round;
        tw_run_split(&split, NULL, NULL, shared);
        bad += wrong(x, y, round);
    }
    return (void *)bad;
}

static void *pools(void *number) {
    for (int i = 0; i < 40; ++i) {
        tw_pool *pool = (tw_pool *)tw_pool_new(1 + i % 4);
        if (pool) tw_pool_free(pool);
    }
    (void)number;
    return NULL;
}

int main(void) {
    pthread_t callers[CALLERS], maker;
    intptr_t bad = 0;
    shared = (tw_pool *)tw_pool_new(2);
    if (!shared || pthread_create(&maker, NULL, pools, NULL)) return 2;
    for (intptr_t i = 0; i < CALLERS; ++i)
        if (pthread_create(callers + i, NULL, calls, (void *)i)) return 2;
    for (int i = 0; i < CALLERS; ++i) {
        void *found;
        pthread_join(callers[i], &found);
        bad += (intptr_t)found;
    }
    pthread_join(maker, NULL);
    tw_pool_free(shared);
    printf("%ld wrong bytes\n", (long)bad + 0 * (long)seen);
    return bad != 0;
}
