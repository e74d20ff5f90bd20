/* SPDX-License-Identifier: Apache-2.0 */
/* Guard mode of emitted C: before a step, what holds no value is poisoned; after it, what is not its own is as before. */
#ifndef TW_GUARD_H
#define TW_GUARD_H

#include "../core/tw.h"

/* Bytes of the arena, [begin, end). */
typedef struct {
    int32_t begin, end;
} tw_range;

/* Of one step: what holds a value when it starts, and what it may write. Each in rising order and without overlaps. */
typedef struct {
    const tw_range *held, *own;
    int32_t held_count, own_count;
} tw_guard;

/* A hash of all that the step may not write: FNV-1a, so every changed byte changes it. */
static TW_NOINLINE uint32_t tw_guard_hash(const tw_guard *guard, const unsigned char *arena, int32_t size) {
    uint32_t hash = 2166136261u;
    int32_t at = 0;
    for (int32_t i = 0; i <= guard->own_count; ++i) {
        const int32_t end = i < guard->own_count ? guard->own[i].begin : size;
        for (; at < end; ++at) hash = (hash ^ arena[at]) * 16777619u;
        if (i < guard->own_count) at = guard->own[i].end;
    }
    return hash;
}

/* Poisons what holds no value; the hash to find again after the step. */
static TW_NOINLINE uint32_t tw_guard_enter(const tw_guard *guard, unsigned char *arena, int32_t size) {
    int32_t at = 0;
    for (int32_t i = 0; i <= guard->held_count; ++i) {
        const int32_t end = i < guard->held_count ? guard->held[i].begin : size;
        for (; at < end; ++at) arena[at] = 0xA5;
        if (i < guard->held_count) at = guard->held[i].end;
    }
    return tw_guard_hash(guard, arena, size);
}

#endif
