/* SPDX-License-Identifier: Apache-2.0 */
/* MEAN over Helium, int8, four channels at a time: the reduced dimensions are neighbours, and the last one is kept. */
#ifndef TW_MEAN_MVE_H
#define TW_MEAN_MVE_H

#include "../isa/mve/mve.h"

/* zero: the input's zero point times reduced; mult and shift include 1 / reduced. in: x [kept, reduced, depth].
 * out: y [kept, depth]. */
typedef struct {
    int32_t kept, reduced, depth, zero, mult, shift, out_zero;
} tw_mean_mve_s8_params;

TW_KERNEL(tw_mean_mve_s8) {
    const tw_mean_mve_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    const tw_v4 mult = tw_v4_all(p.mult), shift = tw_v4_all(p.shift);
    (void)scratch;
    for (int32_t k = 0; k < p.kept; ++k, x += p.reduced * p.depth, y += p.depth)
        for (int32_t c = 0; c < p.depth; c += 4) {
            const int32_t lanes = tw_min(p.depth - c, 4);
            tw_v4 sum = tw_v4_all(-p.zero);
            for (int32_t r = 0; r < p.reduced; ++r) sum = tw_v4_add(sum, tw_v4_load_s8(x + r * p.depth + c, lanes));
            tw_v4_store_s8(y + c, tw_v4_requantize(sum, mult, shift), p.out_zero, INT8_MIN, INT8_MAX, lanes);
        }
}

#endif
