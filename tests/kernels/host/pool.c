/* SPDX-License-Identifier: Apache-2.0 */
/* Several callers of one pool, each with works of its own, beside a thread that makes and frees pools. */
#include <stdio.h>
#include <string.h>

#include "core/tw.h"
#include "run/pool.h"

enum { PARTS = 5, BYTES = 64, ROUNDS = 1500, CALLERS = 3 };
static int32_t seen;

typedef struct {
    unsigned char x[PARTS * BYTES], y[PARTS * BYTES], scratch[PARTS * BYTES];
    int32_t add;
} work;

static void add(void *context, int32_t part) {
    work *w = (work *)context;
    const unsigned char *x = w->x + part * BYTES;
    unsigned char *y = w->y + part * BYTES, *t = w->scratch + part * BYTES;
    for (int i = 0; i < BYTES; ++i) t[i] = (unsigned char)(x[i] + w->add);
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
    work w = {{0}, {0}, {0}, 0};
    intptr_t bad = 0;
    for (int i = 0; i < PARTS * BYTES; ++i) w.x[i] = (unsigned char)(7 * i + (int)(intptr_t)number);
    for (int32_t round = 0; round < ROUNDS; ++round) {
        const int32_t count = 1 + round % PARTS;
        memset(w.y, 0, sizeof w.y);
        w.add = round;
        for (int32_t i = count; i < PARTS; ++i) add(&w, i);
        tw_pool_run(shared, count, add, &w);
        bad += wrong(w.x, w.y, round);
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
