/* SPDX-License-Identifier: Apache-2.0 */
/* FULLY_CONNECTED of one batch whose input comes piece by piece, on the DSP extension. */
#ifndef TW_FULLY_CONNECTED_SUMS_DSP_H
#define TW_FULLY_CONNECTED_SUMS_DSP_H

#include "../core/part.h"
#include "fully_connected_dsp.h"

/* int8. in and out as for tw_fully_connected_dsp_s8, but x [part.count]. depth, part.first and part.count are multiples
 * of 4. scratch: int32 [out rounded up to 4], doubled sums. */
typedef struct {
    tw_fully_connected_dsp_s8_params all;
    tw_part part;
} tw_fully_connected_sums_dsp_s8_params;

TW_KERNEL(tw_fully_connected_sums_dsp_s8) {
    const tw_fully_connected_dsp_s8_params p = params->all;
    const tw_part part = params->part;
    const int8_t *x = (const int8_t *)in[0];
    const uint32_t *w = (const uint32_t *)in[1] + part.first;
    const int32_t *bias = (const int32_t *)in[2];
    int8_t *y = (int8_t *)out[0];
    int32_t *twice = (int32_t *)scratch;
    for (int32_t c = 0; c < p.out; c += 4, w += p.k4) {
        if (part.first == 0) memcpy(twice + c, bias + c, 4 * sizeof *twice);
        (void)tw_fully_connected_dsp_sums(x, w, twice + c, part.count / 2, p.chunk, p.bytes);
    }
    if (part.first + part.count < p.depth) return;
    for (int32_t c = 0; c < p.out; ++c) {
        const tw_dsp_channel end = tw_fully_connected_dsp_end(in + 3, p.mults > 1 ? c : 0, p.end.zero);
        y[c] = tw_dsp_output(twice[c], &end);
    }
    tw_dsp_activation(y, p.out, p.end.low, p.end.high);
}

#endif
