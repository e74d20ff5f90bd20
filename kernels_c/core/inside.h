/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a window that lies inside the image. */
#ifndef TW_INSIDE_H
#define TW_INSIDE_H

#include "tw.h"

/* The taps of a window that lie inside the image: rows top..bottom, columns first..end; none, if either is empty. */
typedef struct {
    int32_t top, bottom, first, end;
} tw_inside;

/* Of a window of kernel taps at a distance of dilation, with its first at origin: the first inside 0..extent - 1. */
TW_INLINE int32_t tw_first_inside(int32_t origin, int32_t dilation, int32_t kernel) {
    int32_t first = 0;
    for (; first < kernel && origin < 0; origin += dilation) ++first;
    return first;
}

/* The same for the end of those inside. */
TW_INLINE int32_t tw_end_inside(int32_t origin, int32_t dilation, int32_t kernel, int32_t extent) {
    int32_t end = kernel;
    for (origin += (kernel - 1) * dilation; end > 0 && origin >= extent; origin -= dilation) --end;
    return end;
}

/* Of the window with its corner at (y0, x0). */
TW_INLINE tw_inside tw_inside_of(int32_t y0, int32_t x0, int32_t dilation_h, int32_t dilation_w, int32_t k_h,
                                 int32_t k_w, int32_t in_h, int32_t in_w) {
    const tw_inside inside = {tw_first_inside(y0, dilation_h, k_h), tw_end_inside(y0, dilation_h, k_h, in_h),
                              tw_first_inside(x0, dilation_w, k_w), tw_end_inside(x0, dilation_w, k_w, in_w)};
    return inside;
}

#endif
