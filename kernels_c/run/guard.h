/* SPDX-License-Identifier: Apache-2.0 */
/* Guard mode of emitted C: before a step, bytes that hold no value are poisoned; after it, bytes that it may not write
 * must be unchanged. */
#ifndef TW_GUARD_H
#define TW_GUARD_H

#include "../core/tw.h"

/* Bytes of the arena, [begin, end). */
typedef struct {
    int32_t begin, end;
} tw_range;

/* The bytes that hold a value when a step starts, and those that it may write; each in rising order without
 * overlaps. */
typedef struct {
    const tw_range *held, *own;
    int32_t held_count, own_count;
} tw_guard;

/* A hash of all bytes that the step may not write: FNV-1a, so every changed byte changes it. */
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

/* The poison of an address. Others have others, so that a copy of one element too many, poison over poison, is seen. */
static unsigned char tw_guard_poison(const unsigned char *address) {
    const uint32_t place = (uint32_t)(uintptr_t)address;
    return (unsigned char)((place * place * 2654435761u) >> 24);
}

/* Poisons bytes that hold no value; returns the hash that must be the same after the step. */
static TW_NOINLINE uint32_t tw_guard_enter(const tw_guard *guard, unsigned char *arena, int32_t size) {
    int32_t at = 0;
    for (int32_t i = 0; i <= guard->held_count; ++i) {
        const int32_t end = i < guard->held_count ? guard->held[i].begin : size;
        for (; at < end; ++at) arena[at] = tw_guard_poison(arena + at);
        if (i < guard->held_count) at = guard->held[i].end;
    }
    return tw_guard_hash(guard, arena, size);
}

#endif
