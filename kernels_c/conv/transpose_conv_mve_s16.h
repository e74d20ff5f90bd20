/* SPDX-License-Identifier: Apache-2.0 */
/* TRANSPOSE_CONV, NHWC, int16 activations and int8 weights on Helium: two outputs of a phase at a time. */
#ifndef TW_TRANSPOSE_CONV_MVE_S16_H
#define TW_TRANSPOSE_CONV_MVE_S16_H

#include "conv2d_mve_s16.h"

/* in: x, then fours (mve_tile_s16.h) of one phase after the other (window.h), by the tap that it begins with; all sums
 * fit 32 bits. out: y. scratch: int16 [2, 8 * blocks] of the largest phase. */
typedef struct {
    tw_window window;
    tw_limits limits;
} tw_transpose_conv_mve_s16_params;

/* One phase; y: its first output. */
TW_INLINE void tw_transpose_conv_mve_phase_s16(const void *x, const int32_t *fours, int16_t *y, const tw_phase *phase,
                                               void *columns, int32_t blocks,
                                               const tw_transpose_conv_mve_s16_params *p) {
    const tw_window bytes = tw_window_bytes(&phase->window, sizeof(int16_t)), *w = &bytes;
    const int32_t out_c = w->out_c, apart = p->window.stride_w * out_c;
    const tw_gather g = {w, w->in_c, 0, 0};
    const int8_t *first = (const int8_t *)columns, *second = first;
    tw_conv2d_mve_next next = tw_conv2d_mve_first(x, columns, TW_MVE_BLOCK * blocks, 0, &g);
    for (int32_t line = 0; line < w->batches * w->out_h; ++line) {
        int16_t *to = y + tw_phase_line(line, w, &p->window);
        for (int32_t left = w->out_w; left > 0; left -= 2, to += 2 * apart) {
            const int32_t both = left > 1;
            if (tw_phase_has_taps(w)) tw_conv2d_mve_windows(&first, &second, both, &next);
            tw_mve_pair_s16 pair = {(const int16_t *)(const void *)first,
                                    (const int16_t *)(const void *)second,
                                    to,
                                    to + both * apart,
                                    blocks,
                                    out_c};
            tw_mve_run_pair_s16(&pair, fours, p->limits.low, p->limits.high);
        }
    }
}

TW_KERNEL(tw_transpose_conv_mve_s16) {
    const tw_transpose_conv_mve_s16_params p = *params;
    const int32_t out_c = p.window.out_c;
    const int32_t *fours = (const int32_t *)in[1];
#pragma GCC unroll 1
    for (int32_t tap = 0; tap < p.window.stride_h * p.window.stride_w; ++tap) {
        const tw_phase phase = tw_phase_of(tap / p.window.stride_w, tap % p.window.stride_w, &p.window);
        const int32_t blocks = tw_phase_blocks(&phase.window, TW_MVE_BLOCK_S16);
        tw_transpose_conv_mve_phase_s16(in[0], fours, (int16_t *)out[0] + tw_phase_offset(&phase, &p.window), &phase,
                                        scratch, blocks, &p);
        fours += (out_c + 3) / 4 * (4 + tw_mve_four_words_s16(TW_MVE_BLOCK_S16 * blocks));
    }
}

#endif
