/* SPDX-License-Identifier: Apache-2.0 */
/* POSIX threads that do parts of a work side by side: for the interpreter, and for compiled code with threads. Kernels know
 * nothing of them. */
#ifndef TW_POOL_H
#define TW_POOL_H

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "../core/tw.h"

#define TW_MAX_THREADS 64

/* How often a thread looks before it sleeps or lets others run: some ten microseconds. */
enum { TW_LOOKS = 2000 };

/* Does one part of a work. Parts may run at the same time: none reads or writes what another writes. */
typedef void tw_part_fn(void *context, int32_t part);

/* ticket: the number of the work, and in its lower half how many parts nobody has taken yet; who lowers it has the part
 * of that number. left: the parts that are not done; part and context only change when there are none. turn: callers take
 * turns, each with the whole pool. owner: a process that was forked has no threads. */
typedef struct {
    pthread_mutex_t lock, turn;
    pthread_cond_t begun;
    tw_part_fn *part;
    void *context;
    uint64_t ticket;
    int32_t left, stopped, size;
    pid_t owner;
    pthread_t threads[TW_MAX_THREADS];
} tw_pool;

TW_INLINE void tw_pool_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

TW_INLINE uint64_t tw_pool_ticket(tw_pool *pool) { return __atomic_load_n(&pool->ticket, __ATOMIC_ACQUIRE); }

/* Does parts until all are taken; returns the ticket then. */
static uint64_t tw_pool_help(tw_pool *pool) {
    uint64_t ticket = tw_pool_ticket(pool);
    while ((uint32_t)ticket) {
        if (!__atomic_compare_exchange_n(&pool->ticket, &ticket, ticket - 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            continue;
        pool->part(pool->context, (int32_t)((uint32_t)ticket - 1));
        __atomic_sub_fetch(&pool->left, 1, __ATOMIC_RELEASE);
        ticket = tw_pool_ticket(pool);
    }
    return ticket;
}

/* Waits for another ticket than the one seen. */
static void tw_pool_wait(tw_pool *pool, uint64_t seen) {
    for (int i = 0; i < TW_LOOKS; ++i) {
        if (tw_pool_ticket(pool) != seen) return;
        tw_pool_pause();
    }
    pthread_mutex_lock(&pool->lock);
    while (tw_pool_ticket(pool) == seen) pthread_cond_wait(&pool->begun, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

static void *tw_pool_work(void *argument) {
    tw_pool *pool = (tw_pool *)argument;
    for (;;) {
        const uint64_t ticket = tw_pool_help(pool);
        if (__atomic_load_n(&pool->stopped, __ATOMIC_ACQUIRE)) return NULL; /* it is set before the last ticket */
        tw_pool_wait(pool, ticket);
    }
}

/* Gives out the next ticket, for so many parts. */
static void tw_pool_begin(tw_pool *pool, int32_t parts) {
    const uint64_t next = (((tw_pool_ticket(pool) >> 32) + 1) << 32) | (uint32_t)parts;
    pthread_mutex_lock(&pool->lock);
    __atomic_store_n(&pool->ticket, next, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&pool->begun);
    pthread_mutex_unlock(&pool->lock);
}

/* Ends the threads, but for those that a fork has left behind. */
static TW_LAYER void tw_pool_free(void *given) {
    tw_pool *pool = (tw_pool *)given;
    if (pool->owner == getpid()) {
        __atomic_store_n(&pool->stopped, 1, __ATOMIC_RELEASE);
        tw_pool_begin(pool, 0);
        for (int32_t i = 0; i < pool->size; ++i) pthread_join(pool->threads[i], NULL);
    }
    free(pool);
}

/* A pool of so many threads beside the caller's; with fewer, or NULL, if the system gives no more. */
static void *tw_pool_new(int threads) {
    tw_pool *pool = (tw_pool *)calloc(1, sizeof *pool);
    if (!pool) return NULL;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_mutex_init(&pool->turn, NULL);
    pthread_cond_init(&pool->begun, NULL);
    pool->owner = getpid();
    while (pool->size < tw_min(threads, TW_MAX_THREADS) &&
           !pthread_create(pool->threads + pool->size, NULL, tw_pool_work, pool))
        ++pool->size;
    return pool;
}

/* Does all parts of a work. Those that no thread takes in time are the caller's; without a pool all are. */
static void tw_pool_run(tw_pool *pool, int32_t parts, tw_part_fn *part, void *context) {
    if (!pool || pool->owner != getpid()) {
        for (int32_t i = 0; i < parts; ++i) part(context, i);
        return;
    }
    pthread_mutex_lock(&pool->turn);
    pool->part = part;
    pool->context = context;
    __atomic_store_n(&pool->left, parts, __ATOMIC_RELAXED);
    tw_pool_begin(pool, parts);
    (void)tw_pool_help(pool);
    for (int32_t looks = 0; __atomic_load_n(&pool->left, __ATOMIC_ACQUIRE); ++looks) {
        if (looks < TW_LOOKS)
            tw_pool_pause();
        else
            sched_yield();
    }
    pthread_mutex_unlock(&pool->turn);
}

#endif
