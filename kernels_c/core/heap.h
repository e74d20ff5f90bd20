/* SPDX-License-Identifier: Apache-2.0 */
/* Heaps of numbers of elements, in an order that the caller gives: for sorting, and for the first few of many. */
#ifndef TW_HEAP_H
#define TW_HEAP_H

#include "tw.h"

/* Whether element a of x stands before element b; a total order. */
typedef int tw_before_fn(const void *x, int32_t a, int32_t b);

/* Sinks the number at i, above which all is in order: the number that stands last comes to the top. */
TW_INLINE void tw_heap_sink(tw_before_fn *before, const void *x, int32_t *heap, int32_t count, int32_t i) {
    for (int32_t child = 2 * i + 1; child < count; i = child, child = 2 * i + 1) {
        if (child + 1 < count && before(x, heap[child], heap[child + 1])) ++child;
        if (!before(x, heap[i], heap[child])) return;
        const int32_t sunk = heap[i];
        heap[i] = heap[child];
        heap[child] = sunk;
    }
}

/* Makes a heap of count numbers in any order. */
TW_INLINE void tw_heap_build(tw_before_fn *before, const void *x, int32_t *heap, int32_t count) {
    for (int32_t i = count / 2 - 1; i >= 0; --i) tw_heap_sink(before, x, heap, count, i);
}

/* Brings the numbers of a heap into order. */
TW_INLINE void tw_heap_sort(tw_before_fn *before, const void *x, int32_t *heap, int32_t count) {
    for (int32_t end = count - 1; end > 0; --end) {
        const int32_t last = heap[0];
        heap[0] = heap[end];
        heap[end] = last;
        tw_heap_sink(before, x, heap, end, 0);
    }
}

#endif
