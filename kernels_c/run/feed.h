/* SPDX-License-Identifier: Apache-2.0 */
/* Chains that begin with the rows of the input, which the caller gives one by one. */
#ifndef TW_FEED_H
#define TW_FEED_H

#include "chain.h"

/* What a begun chain has as the reader of its last layer, which nothing reads: rubbish, zeros, and what another chain has
 * left there are something else. */
TW_INLINE int32_t tw_feed_mark(const tw_chain *s) { return (int32_t)((uint32_t)(uintptr_t)s ^ 0x5EED10F5U); }

TW_INLINE void tw_feed_begin(const tw_chain *s, tw_rows_progress *at) {
    tw_chain_begin(s, at);
    at[s->count - 1].reader = tw_feed_mark(s);
}

TW_INLINE int tw_feed_begun(const tw_chain *s, const tw_rows_progress *at) {
    return at[s->count - 1].reader == tw_feed_mark(s);
}

TW_INLINE void tw_feed_end(const tw_chain *s, tw_rows_progress *at) { at[s->count - 1].reader = 0; }

/* Whether rows of the input are missing. */
TW_INLINE int tw_feed_waits(const tw_chain *s, const tw_rows_progress *at) { return at->done < s->wanted; }

/* Takes the next row of the input and computes what it allows. Returns how many rows are still wanted; where none was, row
 * is not read. */
static TW_NOINLINE int32_t tw_feed_row(const tw_chain *s, tw_rows_progress *at, unsigned char *arena, const void *row) {
    if (!tw_feed_waits(s, at)) return 0;
    tw_chain_room(s->layers, at, at->done + 1, arena);
    memcpy(tw_chain_row(arena, s->layers, at->done, at->base), row, (size_t)s->layers->row);
    ++at->done;
    tw_chain_go_on(s, at, arena, NULL);
    return s->wanted - at->done;
}

/* Runs all of a chain over a whole input. */
static TW_NOINLINE void tw_feed_all(const tw_chain *s, tw_rows_progress *at, unsigned char *arena, const void *input) {
    const unsigned char *row = (const unsigned char *)input;
    tw_feed_begin(s, at);
    while (tw_feed_row(s, at, arena, row)) row += s->layers->row;
}

#endif
