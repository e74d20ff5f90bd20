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

/* Where rows lie: the first at a byte of the arena, and how many bytes each has. */
typedef struct {
    int32_t offset, row;
} tw_rows_image;

/* What a layer reads by rows, height of them: the output of a layer of the chain, or whole (layer -1). */
typedef struct {
    int32_t layer, height;
    tw_rows_image image;
} tw_rows_source;

typedef void tw_rows_fn(const void *context, const tw_rows_part *part);

/* A layer computes at most band of its height rows at once. Row r needs the rows of a source from r * stride - pad to
 * reach rows on. capacity: how many rows of its output there is room for, height if it is whole. readers: the layers
 * that read it lie before this one. Without run it is no layer, but the input, whose rows the caller gives: the first of
 * its chain. */
typedef struct {
    tw_rows_fn *run;
    const void *context;
    int32_t height, band, stride, pad, reach, capacity, readers, sources;
    tw_rows_image image;
    const tw_rows_source *source;
} tw_rows_layer;

/* How far a layer is: rows that it has computed, and the first that is still there. reader: the layer that lacks its
 * next rows. */
typedef struct {
    int32_t done, base, reader;
} tw_rows_progress;

/* Layers in the order of the graph; goals: those that must become whole, the last one first. backwards: a lone layer goes
 * from its last row to the first. wanted: how many rows of the input it waits for. */
typedef struct {
    const tw_rows_layer *layers;
    const int32_t *goals;
    int32_t count, goal_count, backwards, wanted;
} tw_chain;

/* The first row of a source that row first needs, and the end of those that a part to before end needs. */
TW_INLINE int32_t tw_chain_low(const tw_rows_layer *layer, int32_t first, int32_t height) {
    return tw_clamp(first * layer->stride - layer->pad, 0, height - 1);
}

TW_INLINE int32_t tw_chain_high(const tw_rows_layer *layer, int32_t end, int32_t height) {
    return tw_clamp((end - 1) * layer->stride - layer->pad + layer->reach, 0, height - 1) + 1;
}

/* The end of the next part of a layer. */
TW_INLINE int32_t tw_chain_end(const tw_rows_layer *layer, const tw_rows_progress *own) {
    return tw_min(own->done + layer->band, layer->height);
}

/* How many rows of source k layer i needs for its next ones. */
TW_INLINE int32_t tw_chain_wanted(const tw_chain *s, const tw_rows_progress *at, int32_t i, int32_t k) {
    const tw_rows_layer *layer = s->layers + i;
    return tw_chain_high(layer, tw_chain_end(layer, at + i), layer->source[k].height);
}

/* The layer that lacks rows which layer i needs next; -1 if there is none. */
TW_INLINE int32_t tw_chain_short(const tw_chain *s, const tw_rows_progress *at, int32_t i) {
    for (int32_t k = 0; k < s->layers[i].sources; ++k) {
        const int32_t source = s->layers[i].source[k].layer;
        if (source >= 0 && at[source].done < tw_chain_wanted(s, at, i, k)) return source;
    }
    return -1;
}

/* The first row of the output of layer i that is still needed. */
TW_INLINE int32_t tw_chain_needed(const tw_chain *s, const tw_rows_progress *at, int32_t i) {
    int32_t low = at[i].done;
    for (int32_t j = i + 1; j < s->layers[i].readers; ++j) {
        const tw_rows_layer *reader = s->layers + j;
        if (at[j].done == reader->height) continue;
        for (int32_t k = 0; k < reader->sources; ++k)
            if (reader->source[k].layer == i)
                low = tw_min(low, tw_chain_low(reader, at[j].done, reader->source[k].height));
    }
    return low;
}

/* Where row r of an image lies whose first row there is base. */
TW_INLINE unsigned char *tw_chain_row(unsigned char *arena, const tw_rows_image *image, int32_t r, int32_t base) {
    return arena + image->offset + (r - base) * image->row;
}

/* How many rows of a part are among those from low to before high. */
TW_INLINE int32_t tw_chain_among(const tw_rows_part *part, int32_t low, int32_t high) {
    return tw_max(0, tw_min(part->end, high) - tw_max(part->first, low));
}

/* Makes room for rows of layer i up to end: the rows that are still needed move to the start. */
TW_INLINE void tw_chain_room(const tw_chain *s, tw_rows_progress *at, int32_t i, int32_t end, unsigned char *arena) {
    const tw_rows_layer *layer = s->layers + i;
    if (layer->capacity == layer->height || end - at[i].base <= layer->capacity) return;
    const int32_t low = tw_chain_needed(s, at, i), kept = at[i].done - low;
    if (kept > 0)
        memmove(arena + layer->image.offset, tw_chain_row(arena, &layer->image, low, at[i].base),
                (size_t)(kept * layer->image.row));
    at[i].base = low;
}

/* Computes the next rows of layer i, for which all is there. */
TW_INLINE void tw_chain_part(const tw_chain *s, tw_rows_progress *at, int32_t i, unsigned char *arena) {
    const tw_rows_layer *layer = s->layers + i;
    const tw_rows_source *source = layer->source;
    const int32_t done = at[i].done, next = tw_chain_end(layer, at + i);
    tw_rows_part part; /* not initialised: that would be a call of memset */
    if (!s->backwards) tw_chain_room(s, at, i, next, arena);
    part.arena = arena;
    part.first = s->backwards ? layer->height - next : done;
    part.end = s->backwards ? layer->height - done : next;
    part.y = tw_chain_row(arena, &layer->image, part.first, at[i].base);
    part.low = tw_chain_low(layer, part.first, source->height);
    part.high = tw_chain_high(layer, part.end, source->height);
    for (int32_t k = 0; k < layer->sources; ++k, ++source)
        part.x[k] = tw_chain_row(arena, &source->image, tw_chain_low(layer, part.first, source->height),
                                 source->layer < 0 ? 0 : at[source->layer].base);
    layer->run(layer->context, &part);
    at[i].done = next;
}

/* Goes on until all is computed or a row of the input is missing; at: the progress of every layer. Who lacks rows is asked
 * again as soon as some are there. */
TW_INLINE void tw_chain_go_on(const tw_chain *s, tw_rows_progress *at, unsigned char *arena) {
    for (int32_t g = 0; g < s->goal_count; ++g) {
        const int32_t goal = s->goals[g];
        for (int32_t i = goal; at[goal].done < s->layers[goal].height;) {
            const int32_t lacking = tw_chain_short(s, at, i);
            if (lacking >= 0) {
                at[lacking].reader = i;
                i = lacking;
                continue;
            }
            if (s->layers[i].run == NULL) return;
            tw_chain_part(s, at, i, arena);
            if (i != goal) i = at[i].reader;
        }
    }
}

TW_INLINE void tw_chain_begin(const tw_chain *s, tw_rows_progress *at) { memset(at, 0, (size_t)s->count * sizeof *at); }

/* Runs all of a chain that waits for nothing. */
static TW_NOINLINE TW_COLD void tw_chain_run(const tw_chain *s, tw_rows_progress *at, unsigned char *arena) {
    tw_chain_begin(s, at);
    tw_chain_go_on(s, at, arena);
}

#endif
