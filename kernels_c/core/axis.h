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

/* Where row r of the first * middle reduced ones begins for place k of the outer * inner kept ones. */
TW_INLINE ptrdiff_t tw_axes_offset(tw_axes x, int32_t k, int32_t r) {
    const int32_t outer = k / x.inner * x.first + r / x.middle;
    const int32_t inner = k % x.inner * x.middle + r % x.middle;
    return ((ptrdiff_t)outer * x.inner * x.middle + inner) * x.depth * x.last;
}

#endif
