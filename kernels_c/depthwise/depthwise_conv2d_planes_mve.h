/* SPDX-License-Identifier: Apache-2.0 */
/* DEPTHWISE_CONV_2D over Helium, int8, channel by channel (depthwise_planes.h): windows of any size, stride, dilation
 * and multiplier. */
#ifndef TW_DEPTHWISE_CONV2D_PLANES_MVE_H
#define TW_DEPTHWISE_CONV2D_PLANES_MVE_H

#include "../core/epilogue.h"
#include "../isa/mve/mve_plane.h"
#include "depthwise_planes.h"

/* The kernel walks along rows of the image, or, turned, along its columns. taps: along [k], of each the lines.
 * in: x, weights int8 [out_c][taps], at uint8 [vectors][16], ends int32 [out_c][bias, mult, shift] with the input zero
 * point folded into the bias; shift -22..-1. at: where the weights lie in scratch, each column of taps twice; beyond
 * the taps, the place of a zero. Axes with a dilation have a stride of 1. out: y, which may be x if it has its shape.
 * scratch: int8 [multiplier][room], room = 2 * taps + lines rounded up to 16, then the ring. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t multiplier, turned, vectors, in_zero;
} tw_depthwise_conv2d_planes_mve_s8_params;

/* Where a channel's weights and ring lie. */
typedef struct {
    int8_t *w, *ring;
    int32_t room;
} tw_plane_scratch;

/* Line i of a channel goes to its place in the ring; x: the first line inside the image. */
TW_INLINE void tw_plane_keep(int8_t *ring, const int8_t *x, int32_t i, const tw_plane_axis *lines,
                             const tw_plane_axis *along, int8_t zero) {
    int8_t *to = ring + along->pad * lines->taps + i % lines->taps;
    const int32_t line = i - lines->pad;
    if (tw_is_inside(line, lines->in))
        tw_plane_copy(to, lines->taps, x + line * lines->x_step, along->x_step, along->in);
    else
        tw_plane_copy(to, lines->taps, &zero, 0, along->in);
}

/* All outputs of one input channel, or of one phase of it; c: the first output channel. */
TW_INLINE void tw_plane_channel(const int8_t *x, int8_t *y, int32_t c, const void *const *in,
                                const tw_plane_scratch *scratch, const tw_plane_axis *lines, const tw_plane_axis *along,
                                const tw_depthwise_conv2d_planes_mve_s8_params *p) {
    const int32_t columns = tw_plane_columns(along);
    int32_t kept = 0; /* the first line that is not in the ring */
    tw_b16_fill(scratch->ring, p->in_zero, (columns * lines->taps + 15) & -16);
    for (int32_t i = 0, top = 0; i < lines->out; ++i, top += lines->stride) {
        for (kept = tw_max(kept, top); kept < top + lines->taps; ++kept)
            tw_plane_keep(scratch->ring, x, kept, lines, along, (int8_t)p->in_zero);
        for (int32_t m = 0; m < p->multiplier; ++m) {
            const int32_t turn = top % lines->taps;
            const tw_plane_row row = {scratch->ring,
                                      scratch->w + m * scratch->room + (turn ? lines->taps - turn : 0),
                                      y + i * lines->y_step + m,
                                      (const uint8_t *)in[2],
                                      (const int32_t *)in[3] + 3 * (c + m),
                                      along->stride * lines->taps,
                                      along->y_step,
                                      along->out,
                                      p->end.zero};
            tw_plane_across(&row, p->vectors);
        }
    }
}

/* All outputs of one input channel of an image. */
TW_INLINE void tw_plane_phases_of(const int8_t *x, int8_t *y, int32_t c, const void *const *in,
                                  const tw_plane_scratch *scratch, const tw_depthwise_conv2d_planes_mve_s8_params *p) {
    const tw_window *w = &p->window;
    for (int32_t i = 0; i < tw_plane_phases(w, !p->turned); ++i)
        for (int32_t j = 0; j < tw_plane_phases(w, p->turned); ++j) {
            const tw_plane_axis lines = tw_plane_axis_of(w, !p->turned, i), along = tw_plane_axis_of(w, p->turned, j);
            tw_plane_channel(x + lines.x_first + along.x_first, y + lines.y_first + along.y_first, c, in, scratch,
                             &lines, &along, p);
        }
}

TW_KERNEL(tw_depthwise_conv2d_planes_mve_s8) {
    const tw_depthwise_conv2d_planes_mve_s8_params p = *params;
    const tw_window *w = &p.window;
    const int32_t taps = w->k_h * w->k_w, lines = p.turned ? w->k_w : w->k_h, room = (2 * taps + lines + 15) & -16;
    const tw_plane_scratch at = {(int8_t *)scratch, (int8_t *)scratch + p.multiplier * room, room};
    const int32_t size = w->out_h * w->out_w * w->out_c;
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    tw_b16_fill(at.w, 0, p.multiplier * room);
    for (int32_t b = 0; b < w->batches; ++b, x += tw_window_image(w), y += size)
        for (int32_t i = 0, c = 0; i < w->in_c; ++i, c += p.multiplier) {
            for (int32_t m = 0; m < p.multiplier; ++m)
                tw_plane_spread(at.w + m * room, (const int8_t *)in[1] + (c + m) * taps, (const uint8_t *)in[2], lines,
                                taps);
            tw_plane_phases_of(x + i, y + c, c, in, &at, &p);
        }
    if (p.end.low > INT8_MIN || p.end.high < INT8_MAX)
        tw_b16_clamp_all((int8_t *)out[0], p.end.low, p.end.high, w->batches * size);
}

#endif
