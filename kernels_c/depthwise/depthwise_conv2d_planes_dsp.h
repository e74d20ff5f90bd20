/* SPDX-License-Identifier: Apache-2.0 */
/* DEPTHWISE_CONV_2D on the DSP extension, channel by channel (depthwise_planes.h): windows of any size, stride, dilation
 * and multiplier, over int8 or int16. */
#ifndef TW_DEPTHWISE_CONV2D_PLANES_DSP_H
#define TW_DEPTHWISE_CONV2D_PLANES_DSP_H

#include "../core/epilogue.h"
#include "../isa/dsp/dsp_plane.h"
#include "../isa/dsp/dsp_tile.h"
#include "depthwise_planes.h"

/* The kernel walks along rows of the image, or, turned, along its columns. taps: along [k], of each the lines.
 * in: x, weights int8 [out_c][taps], ends int32 [out_c][bias, mult, shift] with the input zero point folded into the
 * bias; of int8, the bias is doubled and the shift 1..22; of int16, sums fit 32 bits and tw_top takes mult. Axes with a
 * dilation have a stride of 1. out: y, which may be x if it has its shape. scratch: int16 [turns][taps rounded up to 2],
 * then the ring; turns: the lesser of lines of windows and of outputs. */
typedef struct {
    tw_window window;
    tw_epilogue_s8 end;
    int32_t multiplier, turned, in_zero;
} tw_depthwise_conv2d_planes_dsp_s8_params;

/* in_zero and end.zero are 0. */
typedef tw_depthwise_conv2d_planes_dsp_s8_params tw_depthwise_conv2d_planes_dsp_s16_params;

/* A weight as int16, doubled unless wide; w16: it is int16 already. */
TW_INLINE int16_t tw_plane_dsp_weight(const int8_t *w, int wide, int w16) {
    const int32_t tap = w16 ? *(const int16_t *)(const void *)w : *w;
    return (int16_t)(wide ? tap : 2 * tap);
}

/* The weights of a channel [taps] as a window sees them whose first line lies in the ring at place first. */
TW_INLINE void tw_plane_dsp_turn(int16_t *to, const int8_t *w, int32_t lines, int32_t taps, int32_t first, int wide,
                                 int w16) {
    if (taps % 2 != 0) to[taps] = 0;
    for (; taps > 0; taps -= lines, to += lines) {
        for (int32_t i = first; i < lines; ++i, w += 1 + w16) to[i] = tw_plane_dsp_weight(w, wide, w16);
        for (int32_t i = 0; i < first; ++i, w += 1 + w16) to[i] = tw_plane_dsp_weight(w, wide, w16);
    }
}

/* Line i of a channel goes to its place in the ring; x: the first line inside the image. */
TW_INLINE void tw_plane_dsp_keep(int16_t *ring, const int8_t *x, int32_t i, const tw_plane_axis *lines,
                                 const tw_plane_axis *along, int16_t zero, int wide) {
    int16_t *to = ring + along->pad * lines->taps + i % lines->taps;
    const int32_t line = i - lines->pad;
    if (tw_is_inside(line, lines->in))
        tw_plane_dsp_copy(to, lines->taps, x + (line * lines->x_step << wide), along->x_step << wide, along->in, wide);
    else
        tw_plane_dsp_copy(to, lines->taps, (const int8_t *)&zero, 0, along->in, 1);
}

/* All outputs of one input channel, or of one phase of it. w: the weights of its output channels; turns: in scratch. */
TW_INLINE void tw_plane_dsp_channel(const int8_t *x, int8_t *y, const int8_t *w, const int32_t *ends, int16_t *turns,
                                    const tw_plane_axis *lines, const tw_plane_axis *along, int wide, int w16,
                                    const tw_depthwise_conv2d_planes_dsp_s8_params *p) {
    const int32_t taps = lines->taps * along->taps, pitch = (taps + 1) & -2;
    const int32_t turned = tw_min(lines->taps, lines->out);
    int16_t *ring = turns + p->multiplier * turned * pitch;
    for (int32_t m = 0; m < p->multiplier; ++m)
        for (int32_t i = 0, first = 0; i < turned; ++i, first = (first + lines->stride) % lines->taps)
            tw_plane_dsp_turn(turns + (m * turned + i) * pitch, w + (m * taps << w16), lines->taps, taps, first, wide,
                              w16);
    for (int32_t i = tw_plane_columns(along) * lines->taps - 1; i >= 0; --i) ring[i] = (int16_t)p->in_zero;
    int32_t kept = 0; /* the first line that is not in the ring */
    for (int32_t i = 0, top = 0, turn = 0; i < lines->out; ++i, top += lines->stride) {
        for (kept = tw_max(kept, top); kept < top + lines->taps; ++kept)
            tw_plane_dsp_keep(ring, x, kept, lines, along, (int16_t)p->in_zero, wide);
        for (int32_t m = 0; m < p->multiplier; ++m) {
            const tw_plane_dsp_row row = {(const int8_t *)ring,
                                          (const int8_t *)(turns + (m * turned + turn) * pitch),
                                          y + ((i * lines->y_step + m) << wide),
                                          ends + 3 * m,
                                          2 * along->stride * lines->taps,
                                          along->y_step << wide,
                                          along->out,
                                          pitch / 2,
                                          wide ? -(p->end.low == 0) : p->end.zero};
            if (wide)
                tw_plane_dsp_row_s16(&row);
            else
                tw_plane_dsp_row_s8(&row);
        }
        turn = turn + 1 == turned ? 0 : turn + 1;
    }
}

/* All outputs, not yet clamped; wide: int16, not int8; w16: so are the weights. */
TW_INLINE void tw_plane_dsp_images(const tw_depthwise_conv2d_planes_dsp_s8_params *p, const void *const *in,
                                   void *const *out, int16_t *scratch, int wide, int w16) {
    const tw_window *g = &p->window;
    const int32_t phases = tw_plane_phases(g, !p->turned), across = tw_plane_phases(g, p->turned);
    const int8_t *x = (const int8_t *)in[0], *w = (const int8_t *)in[1];
    int8_t *y = (int8_t *)out[0];
    for (int32_t b = 0; b < g->batches; ++b) {
        for (int32_t i = 0, c = 0; i < g->in_c; ++i, c += p->multiplier)
            for (int32_t phase = 0; phase < phases * across; ++phase) {
                const tw_plane_axis lines = tw_plane_axis_of(g, !p->turned, phase / across);
                const tw_plane_axis along = tw_plane_axis_of(g, p->turned, phase % across);
                tw_plane_dsp_channel(x + ((i + lines.x_first + along.x_first) << wide),
                                     y + ((c + lines.y_first + along.y_first) << wide),
                                     w + (c * g->k_h * g->k_w << w16), (const int32_t *)in[2] + 3 * c, scratch, &lines,
                                     &along, wide, w16, p);
            }
        x += tw_window_image(g) << wide;
        y += (g->out_h * g->out_w * g->out_c) << wide;
    }
}

TW_INLINE void tw_plane_dsp(const tw_depthwise_conv2d_planes_dsp_s8_params *params, const void *const *in,
                            void *const *out, void *scratch, int w16) {
    const tw_depthwise_conv2d_planes_dsp_s8_params p = *params;
    tw_plane_dsp_images(&p, in, out, (int16_t *)scratch, 0, w16);
    tw_dsp_activation((int8_t *)out[0], tw_window_count(&p.window) * p.window.out_c, p.end.low, p.end.high);
}

TW_KERNEL(tw_depthwise_conv2d_planes_dsp_s8) { tw_plane_dsp(params, in, out, scratch, 0); }

/* The same with weights of int16, as those that were uint8 less their zero point. */
typedef tw_depthwise_conv2d_planes_dsp_s8_params tw_depthwise_conv2d_planes_w16_dsp_s8_params;

TW_KERNEL(tw_depthwise_conv2d_planes_w16_dsp_s8) { tw_plane_dsp(params, in, out, scratch, 1); }

TW_KERNEL(tw_depthwise_conv2d_planes_dsp_s16) {
    const tw_depthwise_conv2d_planes_dsp_s16_params p = *params;
    int16_t *y = (int16_t *)out[0];
    tw_plane_dsp_images(&p, in, out, (int16_t *)scratch, 1, 0);
    if ((p.end.low > INT16_MIN && p.end.low != 0) || p.end.high < INT16_MAX)
        for (int32_t i = tw_window_count(&p.window) * p.window.out_c; i > 0; --i, ++y)
            *y = (int16_t)tw_clamp(*y, p.end.low, p.end.high);
}

#endif
