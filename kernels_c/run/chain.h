/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the layers of a chain depth first: a layer computes its next rows when a later one asks for them. Tensors between
 * the layers hold no more rows than that needs. */
#ifndef TW_CHAIN_H
#define TW_CHAIN_H

#include "../core/tw.h"

#define TW_MAX_SOURCES 4

/* Some rows of a layer: those of its output from first to before end, at y; x: the first row that they need of every
 * source; low, high: which rows of the first source these are. */
typedef struct {
    unsigned char *arena, *y;
    const unsigned char *x[TW_MAX_SOURCES];
    int32_t first, end, low, high;
} tw_rows_part;

typedef void tw_rows_fn(const void *context, const tw_rows_part *part);

/* A layer computes at most band of its height rows at once, of row bytes each; the first row there lies at offset. Row r
 * needs the rows of a source from r * stride - pad to reach rows on. capacity: for how many rows of its output there is
 * room, of which kept stay when that is full; 0 if there is room for all. source: the numbers of what it reads by rows.
 * Without run it is no layer, but a whole value, or the input whose rows the caller gives: the first of its chain. */
typedef struct {
    tw_rows_fn *run;
    const void *context;
    int32_t offset, row, height;
    uint16_t band, stride, pad, reach, capacity, kept;
    uint8_t sources, source[TW_MAX_SOURCES];
} tw_rows_layer;

/* How far a layer is: rows that it has computed, and the first that is still there. reader: the layer that lacks its
 * next rows. */
typedef struct {
    int32_t done, base, reader;
} tw_rows_progress;

/* What gives rows, in the order of the graph, behind given values that are whole. wanted: how many rows of the input it
 * waits for. */
typedef struct {
    const tw_rows_layer *layers;
    int32_t count, given, wanted;
} tw_chain;

/* The first row of its sources that row first of a layer needs. Every row needs at least one that there is. */
TW_INLINE int32_t tw_chain_low(const tw_rows_layer *layer, int32_t first) {
    return tw_max(0, first * layer->stride - layer->pad);
}

/* The end of the rows of its sources that rows to before end need: they have the same height. */
TW_INLINE int32_t tw_chain_high(const tw_chain *s, const tw_rows_layer *layer, int32_t end) {
    return tw_min(s->layers[layer->source[0]].height, (end - 1) * layer->stride - layer->pad + layer->reach + 1);
}

/* The end of the next part of a layer. */
TW_INLINE int32_t tw_chain_end(const tw_rows_layer *layer, const tw_rows_progress *own) {
    return tw_min(own->done + layer->band, layer->height);
}

/* How many rows of its sources layer i needs for its next ones. */
TW_INLINE int32_t tw_chain_wanted(const tw_chain *s, const tw_rows_progress *at, int32_t i) {
    return tw_chain_high(s, s->layers + i, tw_chain_end(s->layers + i, at + i));
}

/* The layer that lacks rows which layer i needs next; -1 if there is none. */
TW_INLINE int32_t tw_chain_short(const tw_chain *s, const tw_rows_progress *at, int32_t i) {
    const int32_t wanted = tw_chain_wanted(s, at, i);
    for (int32_t k = 0; k < s->layers[i].sources; ++k) {
        const int32_t source = s->layers[i].source[k];
        if (source >= s->given && at[source].done < wanted) return source;
    }
    return -1;
}

/* Where row r of what a layer gives lies. */
TW_INLINE unsigned char *tw_chain_row(unsigned char *arena, const tw_rows_layer *layer, int32_t r, int32_t base) {
    return arena + layer->offset + (r - base) * layer->row;
}

/* How many rows of a part are among those from low to before high. */
TW_INLINE int32_t tw_chain_among(const tw_rows_part *part, int32_t low, int32_t high) {
    return tw_max(0, tw_min(part->end, high) - tw_max(part->first, low));
}

/* Makes room for rows up to end: of those that a layer has, the last ones move to the start. */
TW_INLINE void tw_chain_room(const tw_rows_layer *layer, tw_rows_progress *own, int32_t end, unsigned char *arena) {
    const int32_t low = own->done - layer->kept;
    if (layer->capacity == 0 || end - own->base <= layer->capacity) return;
    memmove(arena + layer->offset, tw_chain_row(arena, layer, low, own->base), (size_t)(layer->kept * layer->row));
    own->base = low;
}

/* Computes the next rows of layer i, for which all is there; backwards: those before the rows that it has. input: where
 * the given value lies that is not in the arena, or NULL. */
TW_INLINE void tw_chain_part(const tw_chain *s, tw_rows_progress *at, int32_t i, unsigned char *arena,
                             const unsigned char *input, int backwards) {
    const tw_rows_layer *layer = s->layers + i;
    const int32_t done = at[i].done, next = tw_chain_end(layer, at + i);
    tw_rows_part part; /* not initialised: that would be a call of memset */
    if (!backwards) tw_chain_room(layer, at + i, next, arena);
    part.arena = arena;
    part.first = backwards ? layer->height - next : done;
    part.end = backwards ? layer->height - done : next;
    part.y = tw_chain_row(arena, layer, part.first, at[i].base);
    part.low = tw_chain_low(layer, part.first);
    part.high = tw_chain_high(s, layer, part.end);
    for (int32_t k = 0; k < layer->sources; ++k) {
        const int32_t j = layer->source[k];
        const unsigned char *from = input != NULL && j < s->given ? input : arena;
        part.x[k] = from + s->layers[j].offset + (part.low - at[j].base) * s->layers[j].row;
    }
    layer->run(layer->context, &part);
    at[i].done = next;
}

/* Goes on until all is computed or a row of the input is missing; at: the progress of every layer. What must become whole
 * asks for its rows, the last such layer first. Who lacks rows is asked again as soon as some are there. */
TW_INLINE void tw_chain_go_on(const tw_chain *s, tw_rows_progress *at, unsigned char *arena,
                              const unsigned char *input) {
    for (int32_t goal = s->count - 1; goal >= s->given; --goal) {
        if (s->layers[goal].capacity != 0) continue;
        for (int32_t i = goal; at[goal].done < s->layers[goal].height;) {
            if (s->layers[i].run == NULL) return;
            const int32_t lacking = tw_chain_short(s, at, i);
            if (lacking >= 0) {
                at[lacking].reader = i;
                i = lacking;
                continue;
            }
            tw_chain_part(s, at, i, arena, input, 0);
            if (i != goal) i = at[i].reader;
        }
    }
}

TW_INLINE void tw_chain_begin(const tw_chain *s, tw_rows_progress *at) {
    for (int32_t i = 0; i < s->count; ++i) at[i].done = at[i].base = 0;
}

/* Runs all of a chain that waits for nothing. */
static TW_NOINLINE TW_COLD void tw_chain_run(const tw_chain *s, tw_rows_progress *at, unsigned char *arena,
                                             const unsigned char *input) {
    tw_chain_begin(s, at);
    tw_chain_go_on(s, at, arena, input);
}

/* Runs a chain of one layer, from its last row to the first. */
static TW_NOINLINE TW_COLD void tw_chain_back(const tw_chain *s, tw_rows_progress *at, unsigned char *arena,
                                              const unsigned char *input) {
    tw_chain_begin(s, at);
    while (at[s->given].done < s->layers[s->given].height) tw_chain_part(s, at, s->given, arena, input, 1);
}

#endif
