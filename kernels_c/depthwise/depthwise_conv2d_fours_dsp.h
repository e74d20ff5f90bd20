/* SPDX-License-Identifier: Apache-2.0 */
/* DEPTHWISE_CONV_2D on the DSP extension, int8, four channels at a time: for few outputs, whose windows lie inside the
 * image. One SMLAD takes two taps of a channel. */
#ifndef TW_DEPTHWISE_CONV2D_FOURS_DSP_H
#define TW_DEPTHWISE_CONV2D_FOURS_DSP_H

#include "../core/epilogue.h"
#include "../core/window.h"
#include "../isa/dsp/dsp_tile.h"

/* Windows are runs of taps that lie step bytes apart, the runs themselves run bytes apart. There are at least four
 * channels; the last four may overlap those before. in: x, weights int8 [ceil(in_c / 4)][runs][ceil(taps / 2)][8]: of
 * two taps, those of channels 0 and 1, then 2 and 3, with 0 for a tap that a run lacks; ends int32 [ceil(in_c / 4)][4]
 * [bias doubled, with the input zero point folded in, mult, shift to the right 1..22]. out: y. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t runs, run, taps, step;
} tw_depthwise_conv2d_fours_dsp_s8_params;

/* twice[4]: the doubled sums of the window at x, without what they start with. Returns the weights that follow. */
TW_INLINE const int8_t *tw_fours_dsp_sums(const int8_t *x, const int8_t *w, int32_t *twice,
                                          const tw_depthwise_conv2d_fours_dsp_s8_params *p) {
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (int32_t run = 0; run < p->runs; ++run, x += p->run) {
        const int8_t *tap = x;
        for (int32_t left = p->taps; left > 0; left -= 2, w += 8) {
            const uint32_t a = tw_word(tap), b = left > 1 ? tw_word(tap + p->step) : a;
            const uint32_t lower = tw_pack(a, b), upper = tw_pack_tops(a, b), v = tw_word(w), u = tw_word(w + 4);
            s0 = tw_dual(tw_even(lower), tw_even(v), s0), s1 = tw_dual(tw_odd(lower), tw_odd(v), s1);
            s2 = tw_dual(tw_even(upper), tw_even(u), s2), s3 = tw_dual(tw_odd(upper), tw_odd(u), s3);
            tap += 2 * p->step;
        }
    }
    twice[0] = tw_shift_left(s0, 1), twice[1] = tw_shift_left(s1, 1);
    twice[2] = tw_shift_left(s2, 1), twice[3] = tw_shift_left(s3, 1);
    return w;
}

TW_KERNEL(tw_depthwise_conv2d_fours_dsp_s8) {
    const tw_depthwise_conv2d_fours_dsp_s8_params p = *params;
    const tw_window *g = &p.window;
    int8_t *y = (int8_t *)out[0];
    tw_pixel at = tw_pixel_first(in[0], 1, g);
    for (int32_t left = tw_window_count(g); left > 0; --left, y += g->out_c, tw_pixel_next(&at, g)) {
        const int8_t *x = (const int8_t *)tw_pixel_corner(&at, g), *w = (const int8_t *)in[1];
        const int32_t *ends = (const int32_t *)in[2];
        for (int32_t c = 0; c < g->in_c; c += 4) {
            const int32_t first = tw_min(c, g->in_c - 4);
            int32_t twice[4];
            w = tw_fours_dsp_sums(x + first, w, twice, &p);
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j, ends += 3) {
                const int32_t rounding = tw_rounding(p.end.zero, ends[2]);
                y[first + j] = (int8_t)tw_clamp8(tw_scaled(tw_add(ends[0], twice[j]), ends[1], rounding, ends[2]));
            }
        }
    }
    tw_dsp_activation((int8_t *)out[0], tw_window_count(g) * g->out_c, p.end.low, p.end.high);
}

#endif
