/* SPDX-License-Identifier: Apache-2.0 */
/* CONV_2D, NHWC, int8, of 3 x 1 or 1 x 3 taps, by Winograd's F(2, 3): a tile of two outputs takes 4 multiplications of
 * an input channel instead of 6. Taps that have gaps make tiles of outputs with the same gap.
 *
 * Of the four inputs of a tile, taps and sums see winograd.h: this is one of its columns, with the places in the order 1,
 * 2, 0, 3. It gives twice the convolution, exactly. */
#ifndef TW_WINOGRAD_LINE_H
#define TW_WINOGRAD_LINE_H

#include "winograd.h"

/* Transforms the inputs of a tile into a panel, [4][depth][3]. x: its four pixels. */
typedef void tw_winograd_line_transform(void *panel, int32_t tile, const int8_t *const *x, int32_t depth);

/* Where the first output of a tile lies, and how far the second one is: 0 if there is none, so that the first overwrites
 * it. */
typedef struct {
    int8_t *y;
    int32_t next;
} tw_winograd_pair;

/* All channels of the tiles of a panel. */
TW_INLINE void tw_winograd_line_panel(const void *panel, const tw_winograd_pair *to, int32_t tiles,
                                      const void *const *in, const tw_winograd_s8_params *p, tw_winograd_sums *sum) {
    int32_t sums[12];
    const int32_t out = p->window.out_c;
    const tw_dsp_matrix m = {NULL, (const int32_t *)in[2], 0, out, out, p->end.zero};
    const void *w = in[1];
    const int32_t *ends = m.ends;
    for (int32_t c = 0; c < out; c += 2, ends += TW_DSP_ENDS) {
        w = sum(panel, w, p->depth, sums);
        for (int j = 1; j >= 0; --j) {
            if (c + j == out) continue;
            const tw_dsp_channel end = tw_dsp_end(ends, j, &m);
            const int32_t *at = sums + TW_WINOGRAD_TILES * j;
            for (int32_t t = 0; t < tiles; ++t, ++at) {
                int8_t *const y = to[t].y + c + j;
                y[to[t].next] = tw_dsp_output(tw_add(ends[j], at[0]), &end);
                y[0] = tw_dsp_output(tw_add(ends[j], at[6]), &end);
            }
        }
    }
}

/* All of it. in and out: as in winograd.h. scratch: int8 [in_c], a pixel of padding, up to a multiple of 4, then the
 * panel. */
TW_INLINE void tw_winograd_line_s8(const tw_winograd_s8_params *params, const void *const *in, void *const *out,
                                   void *scratch, tw_winograd_line_transform *transform, tw_winograd_sums *sum) {
    const tw_winograd_s8_params p = *params;
    const tw_window *w = &p.window;
    const int32_t down = w->k_h > 1, gap = down ? w->dilation_h : w->dilation_w, pad = down ? w->pad_h : w->pad_w;
    const int32_t from_line = down ? w->in_c : w->in_w * w->in_c, to_line = down ? w->out_c : w->out_w * w->out_c;
    const int32_t from_next = down ? w->in_w * w->in_c : w->in_c, to_next = down ? w->out_w * w->out_c : w->out_c;
    const int32_t extent = down ? w->in_h : w->in_w, length = down ? w->out_h : w->out_w;
    const int32_t lines = down ? w->out_w : w->out_h;
    int8_t *const padding = (int8_t *)scratch, *const panel = padding + ((w->in_c + 3) & ~3), *y = (int8_t *)out[0];
    tw_winograd_pair to[TW_WINOGRAD_TILES];
    int32_t tiles = 0;
    memset(padding, p.in_zero, (size_t)w->in_c);
    for (int32_t image = 0; image < w->batches; ++image)
        for (int32_t line = 0; line < lines; ++line) {
            const int8_t *const x = (const int8_t *)in[0] + image * tw_window_image(w) + line * from_line;
            int8_t *const first = y + image * w->out_h * w->out_w * w->out_c + line * to_line;
            for (int32_t phase = 0; phase < gap; ++phase)
                for (int32_t i = phase; i < length; i += 2 * gap) {
                    const int8_t *pixels[4];
                    for (int j = 0; j < 4; ++j) {
                        const int32_t at = i - pad + j * gap;
                        pixels[j] = tw_is_inside(at, extent) ? x + at * from_next : padding;
                    }
                    to[tiles].y = first + i * to_next;
                    to[tiles].next = i + gap < length ? gap * to_next : 0;
                    transform(panel, tiles, pixels, p.depth);
                    if (++tiles < TW_WINOGRAD_TILES) continue;
                    tw_winograd_line_panel(panel, to, tiles, in, &p, sum);
                    tiles = 0;
                }
        }
    if (tiles > 0) tw_winograd_line_panel(panel, to, tiles, in, &p, sum);
    tw_dsp_activation(y, tw_window_count(w) * w->out_c, p.end.low, p.end.high);
}

#endif
