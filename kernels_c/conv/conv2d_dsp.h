/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, on the DSP extension: the windows of three pixels at a time become columns of a panel. So do those of
 * groups of channels, and of the phases of a TRANSPOSE_CONV. */
#ifndef TW_CONV2D_DSP_H
#define TW_CONV2D_DSP_H

#include "../core/window.h"
#include "../isa/dsp/dsp_sparse.h"

/* int8. in: x, then weights and ends (dsp_tile.h) for k = k_h * k_w * in_c; the input zero point is folded into the
 * biases; padding holds in_zero. out: y. scratch: the panel, 6 * k4 bytes, then int8 [k4]. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t k4, in_zero;
} tw_conv2d_dsp_s8_params;

/* How windows become pixels of a panel: gathered as bytes of int8, or of int16 if wide. column: room for one window.
 * k4: its bytes, rounded up to 4. sparse: the pixels of a panel of dsp_sparse.h, 0 of others. */
typedef struct {
    tw_gather rows;
    int8_t *column;
    int32_t k4, wide, sparse;
} tw_conv2d_dsp_gather;

/* Copies count bytes of int16, a multiple of 4, into one pixel of a panel; returns where the next ones go. */
static TW_NOINLINE uint32_t *tw_dsp_gather(uint32_t *TW_RESTRICT to, const int8_t *TW_RESTRICT from, int32_t count) {
#pragma GCC unroll 4
    for (const int8_t *const end = from + count; from != end; from += 4, to += TW_DSP_PIXELS) *to = tw_word(from);
    return to;
}

/* The same for what is gathered. */
TW_INLINE uint32_t *tw_conv2d_dsp_fill(uint32_t *to, const int8_t *from, int32_t count, const tw_conv2d_dsp_gather *g) {
    if (g->sparse) return g->sparse == 1 ? tw_sparse_widen1(to, from, count) : tw_sparse_widen4(to, from, count);
    return g->wide ? tw_dsp_gather(to, from, count) : tw_dsp_widen(to, from, count);
}

/* Copies the window at a pixel into one pixel of a panel: directly, row of taps by row, if these are whole words inside
 * the image, else by way of the column. */
TW_INLINE void tw_conv2d_dsp_window(uint32_t *panel, const tw_pixel *at, const tw_conv2d_dsp_gather *g) {
    const tw_window *w = g->rows.window;
    const int32_t taps = w->k_w * w->in_c, words = taps % 4 == 0, runs = tw_gather_runs(at->x, &g->rows);
    int8_t *to = g->column;
    int32_t y = at->y;
    for (int32_t ky = 0; ky < w->k_h; ++ky, y += w->dilation_h) {
        const int32_t direct = words && runs && tw_row_inside(y, w);
        if (!direct) tw_gather_row(to, at->image, y, at->x, &g->rows);
        if (words)
            panel = tw_conv2d_dsp_fill(panel, direct ? at->image + (y * w->in_w + at->x) * w->in_c : to, taps, g);
        else
            to += taps;
    }
    if (!words) tw_conv2d_dsp_fill(panel, g->column, g->k4, g);
}

TW_KERNEL(tw_conv2d_dsp_s8) {
    const tw_conv2d_dsp_s8_params p = *params;
    const int32_t out_c = p.window.out_c;
    const tw_dsp_matrix m = {(const uint32_t *)in[1], (const int32_t *)in[2], p.k4 / 2, out_c, out_c, p.end.zero};
    uint32_t *panel = (uint32_t *)scratch;
    const tw_conv2d_dsp_gather g = {
        {&p.window, p.window.in_c, p.in_zero, 0}, (int8_t *)scratch + 2 * TW_DSP_PIXELS * p.k4, p.k4, 0, 0};
    int8_t *y = (int8_t *)out[0];
    tw_pixel at = tw_pixel_first(in[0], 1, &p.window);
    for (int32_t left = tw_window_count(&p.window); left > 0; left -= TW_DSP_PIXELS) {
        const int32_t rows = tw_min(left, TW_DSP_PIXELS);
        for (int32_t r = 0; r < rows; ++r, tw_pixel_next(&at, &p.window)) tw_conv2d_dsp_window(panel + r, &at, &g);
        tw_dsp_panel(panel, y, rows, &m);
        tw_dsp_activation(y, rows * out_c, p.end.low, p.end.high);
        y += rows * out_c;
    }
}

/* CONV_2D with groups, as above but for k = k_h * k_w * bytes; group by group, whose numbers of channels are bytes and
 * out. ends have 2 * ((out + 1) / 2) channels of a group. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t k4, in_zero, bytes, out;
} tw_conv2d_groups_dsp_s8_params;

TW_KERNEL(tw_conv2d_groups_dsp_s8) {
    const tw_conv2d_groups_dsp_s8_params p = *params;
    const tw_gather g = {&p.window, p.bytes, p.in_zero, 0};
    uint32_t *panel = (uint32_t *)scratch;
    int8_t *y = (int8_t *)out[0], *column = (int8_t *)scratch + 2 * TW_DSP_PIXELS * p.k4;
    tw_pixel next = tw_pixel_first(in[0], 1, &p.window);
    for (int32_t left = tw_window_count(&p.window); left > 0; left -= TW_DSP_PIXELS) {
        const int32_t rows = tw_min(left, TW_DSP_PIXELS);
        tw_dsp_matrix m = {
            (const uint32_t *)in[1], (const int32_t *)in[2], p.k4 / 2, p.out, p.window.out_c, p.end.zero};
        tw_pixel at = next;
        for (int32_t first = 0, c = 0; first < p.window.in_c; first += p.bytes, c += p.out) {
            at = next;
            for (int32_t r = 0; r < rows; ++r, tw_pixel_next(&at, &p.window)) {
                tw_gather_window(column, &at, first, &g);
                tw_dsp_widen(panel + r, column, p.k4);
            }
            tw_dsp_panel(panel, y + c, rows, &m);
            tw_dsp_next(&m);
        }
        next = at;
        tw_dsp_activation(y, rows * p.window.out_c, p.end.low, p.end.high);
        y += rows * p.window.out_c;
    }
}

/* TRANSPOSE_CONV. in: x, then weights and ends of one phase after the other (window.h), by the tap that it begins with.
 * k4: of the largest phase; in_zero and scratch: as above. */
typedef tw_conv2d_dsp_s8_params tw_transpose_conv_dsp_s8_params;

/* One phase; y: its first output. m, end: of the whole layer; weights and ends move on to the next phase's. */
TW_INLINE void tw_transpose_conv_dsp_phase(const int8_t *x, int8_t *y, const tw_phase *phase, uint32_t *panel,
                                           tw_dsp_matrix *m, const tw_transpose_conv_dsp_s8_params *p) {
    const tw_window *w = &phase->window;
    const int32_t k4 = 4 * tw_phase_blocks(w, 4);
    const tw_conv2d_dsp_gather g = {{w, w->in_c, p->in_zero, 0}, (int8_t *)panel + 2 * TW_DSP_PIXELS * p->k4, k4, 0, 0};
    tw_pixel at = tw_pixel_first(x, 1, w);
    m->words = k4 / 2;
    for (int32_t line = 0; line < w->batches * w->out_h; ++line) {
        int8_t *to = y + tw_phase_line(line, w, &p->window);
        for (int32_t left = w->out_w; left > 0; left -= TW_DSP_PIXELS, to += TW_DSP_PIXELS * m->pitch) {
            const int32_t rows = tw_min(left, TW_DSP_PIXELS);
            for (int32_t r = 0; r < rows && tw_phase_has_taps(w); ++r, tw_pixel_next(&at, w))
                tw_conv2d_dsp_window(panel + r, &at, &g);
            tw_dsp_panel(panel, to, rows, m);
        }
    }
    tw_dsp_next(m);
}

TW_KERNEL(tw_transpose_conv_dsp_s8) {
    const tw_transpose_conv_dsp_s8_params p = *params;
    const int32_t out_c = p.window.out_c;
    tw_dsp_matrix m = {
        (const uint32_t *)in[1], (const int32_t *)in[2], 0, out_c, p.window.stride_w * out_c, p.end.zero};
    int8_t *y = (int8_t *)out[0];
#pragma GCC unroll 1
    for (int32_t tap = 0; tap < p.window.stride_h * p.window.stride_w; ++tap) {
        const tw_phase phase = tw_phase_of(tap / p.window.stride_w, tap % p.window.stride_w, &p.window);
        tw_transpose_conv_dsp_phase((const int8_t *)in[0], y + tw_phase_offset(&phase, &p.window), &phase,
                                    (uint32_t *)scratch, &m, &p);
    }
    tw_dsp_activation(y, tw_window_count(&p.window) * out_c, p.end.low, p.end.high);
}

#endif
