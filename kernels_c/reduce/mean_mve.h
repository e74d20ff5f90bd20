/* SPDX-License-Identifier: Apache-2.0 */
/* MEAN over Helium, int8, 16 channels at a time: the reduced dimensions are neighbours, and the last one is kept. */
#ifndef TW_MEAN_MVE_H
#define TW_MEAN_MVE_H

#include "../core/axis.h"
#include "../isa/mve/mve_pixels.h"

/* zero: the input's zero point times axis.count; mult and shift include 1 / axis.count. in: x [axis].
 * out: y [outer, inner]. */
typedef struct {
    tw_axis axis;
    int32_t zero, mult, shift, out_zero;
} tw_mean_mve_s8_params;

TW_KERNEL(tw_mean_mve_s8) {
    const tw_mean_mve_s8_params p = *params;
    const tw_axis axis = p.axis;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    const tw_v4 mult = tw_v4_all(p.mult), shift = tw_v4_all(p.shift), zero = tw_v4_all(p.out_zero);
    const tw_area area = {1, axis.count, axis.inner, axis.inner};
    for (int32_t k = 0; k < axis.outer; ++k, x += axis.count * axis.inner, y += axis.inner)
        TW_EACH_BLOCK16(c, lanes, axis.inner) {
            tw_sums16 s = tw_sums16_of(x + c, area, -p.zero, lanes);
            for (int i = 0; i < 4; ++i) s.part[i] = tw_v4_add(tw_v4_requantize(s.part[i], mult, shift), zero);
            tw_sums16_store(y + c, &s, INT8_MIN, INT8_MAX, lanes);
        }
}

#endif
