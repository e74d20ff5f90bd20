/* FULLY_CONNECTED on the DSP extension. */
#ifndef TW_FULLY_CONNECTED_DSP_H
#define TW_FULLY_CONNECTED_DSP_H

#include "dsp_tile.h"

/* int8. in: x [batches, depth], then weights, ends and shift (dsp_tile.h), the input zero point folded into the biases.
 * out: y [batches, out]. scratch: int8 [k4], k4: depth rounded up to 4; none where depth is that. */
typedef struct {
    int32_t batches, depth, k4, chunk, out;
    int32_t out_zero, act_min, act_max;
} tw_fully_connected_dsp_s8_params;

TW_KERNEL(tw_fully_connected_dsp_s8) {
    const tw_fully_connected_dsp_s8_params p = *params;
    const tw_dsp_matrix m = {(const uint32_t *)in[1], (const int32_t *)in[2], (const int8_t *)in[3],
                             p.k4 / 2,                p.chunk,                p.out,
                             p.out_zero,              p.act_min,              p.act_max};
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    for (int32_t b = 0; b < p.batches; ++b, x += p.depth, y += p.out) {
        if (p.depth != p.k4) memcpy(scratch, x, (size_t)p.depth);
        tw_dsp_row(p.depth != p.k4 ? (const int8_t *)scratch : x, y, &m);
    }
}

#endif
