/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor as kernels that work along an axis see it: in as few dimensions as they need. */
#ifndef TW_AXIS_H
#define TW_AXIS_H

#include "tw.h"

/* x [rows, depth]: along the last dimension. */
typedef struct {
    int32_t rows, depth;
} tw_last_axis;

/* x [outer, count, inner]: along the dimension of count. */
typedef struct {
    int32_t outer, count, inner;
} tw_axis;

/* x [outer, first, inner, middle, depth, last]: first, middle and last are reduced, the others kept. */
typedef struct {
    int32_t outer, first, inner, middle, depth, last;
} tw_axes;

/* Where the first of the first * middle reduced rows begins for place k of the outer * inner kept ones. */
TW_INLINE ptrdiff_t tw_axes_offset(tw_axes x, int32_t k) {
    return ((ptrdiff_t)(k / x.inner) * x.first * x.inner + k % x.inner) * x.middle * x.depth * x.last;
}

/* How far behind it the row of place i of first and j of middle begins. */
TW_INLINE ptrdiff_t tw_axes_row(tw_axes x, int32_t i, int32_t j) {
    return ((ptrdiff_t)i * x.inner * x.middle + j) * x.depth * x.last;
}

/* Stands before what is done with the row at i and j. */
#define TW_EACH_REDUCED(x)                                                                                             \
    for (int32_t i = 0; i < (x).first; ++i)                                                                            \
        for (int32_t j = 0; j < (x).middle; ++j)

#endif
