/* SPDX-License-Identifier: Apache-2.0 */
/* TRANSPOSE_CONV, NHWC, int16 activations and int8 weights on the DSP extension: the windows of three outputs of a phase
 * become columns of a panel. */
#ifndef TW_TRANSPOSE_CONV_DSP_S16_H
#define TW_TRANSPOSE_CONV_DSP_S16_H

#include "conv2d_dsp_s16.h"

/* in: x, then weights (dsp_tile_s16.h) of one phase after the other (window.h), by the tap that it begins with, and the
 * ends, which are those of every phase; all sums fit 32 bits. out: y. words: k / 2 of the largest phase, rounded up to an even number. scratch: the panel,
 * 12 * words bytes, then a window, 4 * words bytes. */
typedef struct {
    tw_window window;
    tw_limits limits;
    int32_t words;
} tw_transpose_conv_dsp_s16_params;

/* One phase; y: its first output. m: weights move on to the next phase's. */
TW_INLINE void tw_transpose_conv_dsp_phase_s16(const void *x, int16_t *y, const tw_phase *phase, uint32_t *panel,
                                               tw_dsp_matrix_s16 *m, const tw_transpose_conv_dsp_s16_params *p) {
    const tw_window bytes = tw_window_bytes(&phase->window, sizeof(int16_t)), *w = &bytes;
    m->words = m->chunk = 2 * tw_phase_blocks(&phase->window, 4);
    const tw_conv2d_dsp_gather g = {
        {w, w->in_c, 0, 0}, (int8_t *)(panel + TW_DSP_PIXELS_S16 * p->words), 4 * m->words, 1, 0};
    tw_pixel at = tw_pixel_first(x, 1, w);
    for (int32_t line = 0; line < w->batches * w->out_h; ++line) {
        int16_t *to = y + tw_phase_line(line, w, &p->window);
        for (int32_t left = w->out_w; left > 0; left -= TW_DSP_PIXELS_S16, to += TW_DSP_PIXELS_S16 * m->pitch) {
            const int32_t rows = tw_min(left, TW_DSP_PIXELS_S16);
            for (int32_t r = 0; r < rows && tw_phase_has_taps(w); ++r, tw_pixel_next(&at, w))
                tw_conv2d_dsp_window(panel + r, &at, &g);
            tw_dsp_panel_s16(panel, to, rows, m);
        }
    }
    m->weights += (m->out + 1) / 2 * m->words;
}

TW_KERNEL(tw_transpose_conv_dsp_s16) {
    const tw_transpose_conv_dsp_s16_params p = *params;
    const int32_t out_c = p.window.out_c;
    tw_dsp_matrix_s16 m = {
        (const uint32_t *)in[1], (const int32_t *)in[2], 0, 0, out_c, p.window.stride_w * out_c, p.limits};
    int16_t *y = (int16_t *)out[0];
#pragma GCC unroll 1
    for (int32_t tap = 0; tap < p.window.stride_h * p.window.stride_w; ++tap) {
        const tw_phase phase = tw_phase_of(tap / p.window.stride_w, tap % p.window.stride_w, &p.window);
        tw_transpose_conv_dsp_phase_s16(in[0], y + tw_phase_offset(&phase, &p.window), &phase, (uint32_t *)scratch, &m,
                                        &p);
    }
}

#endif
