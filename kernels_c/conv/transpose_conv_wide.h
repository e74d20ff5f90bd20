/* SPDX-License-Identifier: Apache-2.0 */
/* TRANSPOSE_CONV, NHWC, int8 on computers: the windows of some outputs of a phase become rows of a panel. */
#ifndef TW_TRANSPOSE_CONV_WIDE_H
#define TW_TRANSPOSE_CONV_WIDE_H

#include "../core/window.h"
#include "../isa/wide/wide.h"

/* in: x; weights, packed (wide.h), of one phase after the other (window.h), by the tap that it begins with; bias int32
 * [phases][padded] with the input zero point and the +128 of x folded in, mult int32 and shift int8 [padded]; padded:
 * out_c rounded up to 16. Padding holds in_zero. out: y. k4: of the largest phase, a multiple of 4. scratch: uint8
 * [TW_PANEL_ROWS, k4]. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t k4, in_zero, fast;
} tw_transpose_conv_wide_s8_params;

/* One phase; y: its first output. Returns the next phase's weights. */
TW_INLINE const int8_t *tw_transpose_conv_wide_phase(const int8_t *x, const int8_t *w, int8_t *y, const tw_phase *phase,
                                                     uint8_t *panel, const tw_channels_s8 *channels,
                                                     const tw_transpose_conv_wide_s8_params *p) {
    const tw_window *window = &phase->window;
    const int32_t k4 = 4 * tw_phase_blocks(window, 4), out_c = window->out_c, step = p->window.stride_w * out_c;
    const tw_gather g = {window, window->in_c, p->in_zero, 0x80};
    tw_pixel at = tw_pixel_first(x, 1, window);
    for (int32_t line = 0; line < window->batches * window->out_h; ++line) {
        int8_t *to = y + tw_phase_line(line, window, &p->window);
        for (int32_t left = window->out_w; left > 0; left -= TW_PANEL_ROWS, to += TW_PANEL_ROWS * step) {
            const int32_t rows = tw_min(left, TW_PANEL_ROWS);
            for (int32_t r = 0; r < rows && tw_phase_has_taps(window); ++r, tw_pixel_next(&at, window))
                tw_gather_window((int8_t *)panel + r * k4, &at, 0, &g);
            tw_panel_s8(panel, rows, k4, w, to, step, out_c, channels);
        }
    }
    return w + (out_c + TW_LANES - 1) / TW_LANES * TW_LANES * k4;
}

TW_KERNEL(tw_transpose_conv_wide_s8) {
    const tw_transpose_conv_wide_s8_params p = *params;
    const int32_t out_c = p.window.out_c;
    const int8_t *w = (const int8_t *)in[1];
    tw_channels_s8 channels = tw_channels_s8_of(in, 0, p.fast, &p.end);
    for (int32_t tap = 0; tap < p.window.stride_h * p.window.stride_w; ++tap) {
        const tw_phase phase = tw_phase_of(tap / p.window.stride_w, tap % p.window.stride_w, &p.window);
        w = tw_transpose_conv_wide_phase((const int8_t *)in[0], w,
                                         (int8_t *)out[0] + tw_phase_offset(&phase, &p.window), &phase,
                                         (uint8_t *)scratch, &channels, &p);
        channels.bias += (out_c + TW_LANES - 1) / TW_LANES * TW_LANES;
    }
}

#endif
