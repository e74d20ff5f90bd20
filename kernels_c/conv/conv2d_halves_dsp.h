/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, of int8 on the DSP extension, with weights of 16 bits: the windows of three pixels at a time become
 * columns of a panel.
 *
 * Of each row of taps whole words come first; what is left of the rows, at most three values each, comes behind all. So
 * windows inside the image are read where they lie, whatever the number of channels. */
#ifndef TW_CONV2D_HALVES_DSP_H
#define TW_CONV2D_HALVES_DSP_H

#include "../core/window.h"
#include "../isa/dsp/dsp_halves.h"

/* in: x, rows (dsp_halves.h) for k = k_h * k_w * in_c; the input zero point is folded into what sums start with; padding
 * holds in_zero. k4: k rounded up to 4. signs, shift: of a tw_dsp_halves. out: y. scratch: the panel, 6 * k4 bytes, int8 [k4] for
 * a window or what is left of its rows. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t k4, in_zero, signs, shift;
} tw_conv2d_halves_dsp_s8_params;

/* So many rows of taps, n values each and apart bytes from one another, into one pixel of a panel. left: room for what is left
 * of them; it may be from, as it takes no byte that is still to be read. */
TW_INLINE void tw_halves_rows(uint32_t *to, const int8_t *from, int32_t apart, int32_t rows, int32_t n, int8_t *left) {
    const int32_t whole = n & -4, rest = n & 3;
    int8_t *end = left;
    for (; rows > 0; --rows, from += apart) {
        if (whole > 12)
            to = tw_dsp_widen(to, from, whole);
        else
            for (int32_t i = 0; i < whole; i += 4, to += 2 * TW_DSP_PIXELS) {
                const uint32_t four = tw_word(from + i);
                to[0] = tw_even(four);
                to[TW_DSP_PIXELS] = tw_odd(four);
            }
        for (int32_t i = 0; i < rest; ++i) *end++ = from[whole + i];
    }
    for (; left < end; left += 4, to += 2 * TW_DSP_PIXELS) {
        const uint32_t four = tw_load4(left);
        to[0] = tw_even(four);
        to[TW_DSP_PIXELS] = tw_odd(four);
    }
}

/* The window at a pixel into one pixel of a panel. window: room for its values. */
TW_INLINE void tw_halves_window(uint32_t *to, const tw_pixel *at, int8_t *window, const tw_gather *gather) {
    const tw_window *g = gather->window;
    const int32_t n = g->k_w * g->in_c, whole = g->dilation_w == 1 && tw_window_whole(at, g);
    if (!whole) tw_gather_window(window, at, 0, gather);
    const int8_t *from = whole ? (const int8_t *)tw_pixel_corner(at, g) : window;
    tw_halves_rows(to, from, whole ? g->dilation_h * g->in_w * g->in_c : n, g->k_h, n, window);
}

TW_KERNEL(tw_conv2d_halves_dsp_s8) {
    const tw_conv2d_halves_dsp_s8_params p = *params;
    const tw_window *g = &p.window;
    const int32_t n = g->k_w * g->in_c;
    const tw_dsp_halves m = {(const uint32_t *)in[1], p.k4 / 2, g->out_c, g->out_c, p.signs, p.shift};
    const tw_gather gather = {g, g->in_c, p.in_zero, 0};
    uint32_t *panel = (uint32_t *)scratch;
    int8_t *window = (int8_t *)(panel + TW_DSP_PIXELS * m.words), *y = (int8_t *)out[0];
    const int8_t *pixel = (const int8_t *)in[0];
    tw_pixel at = tw_pixel_first(pixel, 1, g);
    for (int32_t more = tw_window_count(g); more > 0; more -= TW_DSP_PIXELS) {
        const int32_t pixels = tw_min(more, TW_DSP_PIXELS);
        if (!tw_window_pixels(g) || n % 4 != 0)
            for (int32_t r = 0; r < pixels; ++r, tw_pixel_next(&at, g))
                tw_halves_window(panel + r, &at, window, &gather);
        else if (pixels == TW_DSP_PIXELS)
            tw_dsp_widen3(panel, pixel, n), pixel += TW_DSP_PIXELS * n;
        else
            for (int32_t r = 0; r < pixels; ++r, pixel += n) tw_dsp_widen(panel + r, pixel, n);
        tw_dsp_halves_panel(panel, y, pixels, &m);
        tw_dsp_activation(y, pixels * g->out_c, p.end.low, p.end.high);
        y += pixels * g->out_c;
    }
}

#endif
