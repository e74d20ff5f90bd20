/* SPDX-License-Identifier: Apache-2.0 */
/* REVERSE_SEQUENCE: the first elements along one dimension backwards, as many as each batch has. */
#ifndef TW_REVERSE_SEQUENCE_H
#define TW_REVERSE_SEQUENCE_H

#include "../core/bytes.h"
#include "index.h"

/* in: x [outer, a, mid, b, run bytes], lengths [batches] integers of wide bytes. out: y like x. Sequences run along a if
 * first is 1, and b counts the batches; else the other way round. A length is brought into 0..extent. */
typedef struct {
    int32_t outer, a, mid, b, run, wide, first;
} tw_reverse_sequence_params;

/* The element that comes to place at. */
TW_INLINE int32_t tw_reversed(int32_t at, int32_t length) { return at < length ? length - 1 - at : at; }

TW_KERNEL(tw_reverse_sequence) {
    const tw_reverse_sequence_params p = *params;
    const uint8_t *x = (const uint8_t *)in[0];
    uint8_t *y = (uint8_t *)out[0];
    const int32_t extent = p.first ? p.a : p.b;
    for (int32_t o = 0; o < p.outer; ++o)
        for (int32_t i = 0; i < p.a; ++i)
            for (int32_t m = 0; m < p.mid; ++m)
                for (int32_t k = 0; k < p.b; ++k, y += p.run) {
                    const int32_t length = tw_clamped_index(tw_index_at(in[1], p.first ? k : i, p.wide), extent);
                    const int32_t from_a = p.first ? tw_reversed(i, length) : i;
                    const int32_t from_b = p.first ? k : tw_reversed(k, length);
                    const ptrdiff_t place = (((ptrdiff_t)o * p.a + from_a) * p.mid + m) * p.b + from_b;
                    tw_copy_bytes(y, x + place * p.run, p.run);
                }
}

#endif
