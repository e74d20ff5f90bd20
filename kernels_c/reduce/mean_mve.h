/* SPDX-License-Identifier: Apache-2.0 */
/* MEAN over Helium, int8, four channels at a time: the reduced dimensions are neighbours, and the last one is kept. */
#ifndef TW_MEAN_MVE_H
#define TW_MEAN_MVE_H

#include "../core/axis.h"
#include "../isa/mve/mve.h"

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
    const tw_v4 mult = tw_v4_all(p.mult), shift = tw_v4_all(p.shift);
    (void)scratch;
    for (int32_t k = 0; k < axis.outer; ++k, x += axis.count * axis.inner, y += axis.inner)
        for (int32_t c = 0; c < axis.inner; c += 4) {
            const int32_t lanes = tw_min(axis.inner - c, 4);
            tw_v4 sum = tw_v4_all(-p.zero);
            for (int32_t r = 0; r < axis.count; ++r) sum = tw_v4_add(sum, tw_v4_load_s8(x + r * axis.inner + c, lanes));
            tw_v4_store_s8(y + c, tw_v4_requantize(sum, mult, shift), p.out_zero, INT8_MIN, INT8_MAX, lanes);
        }
}

#endif
