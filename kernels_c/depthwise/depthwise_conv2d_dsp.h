/* SPDX-License-Identifier: Apache-2.0 */
/* DEPTHWISE_CONV_2D, NHWC, 3x3 windows, on the DSP extension: one channel at a time. */
#ifndef TW_DEPTHWISE_CONV2D_DSP_H
#define TW_DEPTHWISE_CONV2D_DSP_H

#include "../core/epilogue.h"
#include "../isa/dsp/dsp_lines.h"

/* int8. The kernel walks along lines (rows or columns of the image) and reads three at once. Lines lie x_line and
 * y_line bytes apart, their elements x_step and y_step (equal unless stride is 2), images x_size and y_size. The stride
 * is 1 or 2 along a line and any across; padding is 0 or 1 in front and at most 1 behind. Of the lines of outputs,
 * lines[0] (0 or 1) have windows that begin before the image, lines[1] lie inside, lines[2] (0 or 1) reach beyond it.
 * Of the outputs of a line, steps (1..254) have windows that end inside it, behind (0 or 1) beyond it.
 * in: x, weights int8 [in_c * multiplier][3 along][3 lines], ends int32 [in_c * multiplier][2]: bias with the input
 * zero point folded in, doubled, and mult; shift int8 [in_c * multiplier]: to the right, 1..22. Padding holds in_zero.
 * out: y. */
typedef struct {
    int32_t batches, in_c, multiplier, x_size, y_size;
    int32_t lines[3], line_stride, x_line, y_line;
    int32_t steps, behind, stride, pad, x_step, y_step;
    int32_t in_zero;
    tw_epilogue_s8 end;
} tw_depthwise_conv2d_dsp_s8_params;

/* The channel for three lines of which the first (edge -1) or the last (edge 1) lies outside the image: weights move to
 * the lines inside, and sums start with what the padding contributes. w: weights between zeros [along][lines + 2];
 * start: of sums inside the image; last: shift and number of outputs. */
TW_INLINE void tw_depthwise_dsp_weights(tw_depthwise_dsp_channel *c, const int16_t *w, int32_t edge, int32_t start,
                                        uint32_t last, int32_t in_zero) {
    const uint32_t zero = (uint32_t)in_zero;
    const tw_depthwise_dsp_column padding = {tw_pack(zero, zero), zero};
    const int16_t *inside = w + 1 - edge, *outside = w + 2 + edge;
    for (int k = 0; k < 3; ++k) c->pair[k] = tw_word(inside + 5 * k);
    c->thirds = tw_pack((uint32_t)inside[2], (uint32_t)inside[7]);
    c->last = tw_pack(last, (uint32_t)inside[12]);
    c->start = start;
    if (edge) c->start += in_zero * (outside[0] + outside[5] + outside[10]);
    c->head = tw_depthwise_dsp_first(padding, c, c->start);
    c->tail = tw_depthwise_dsp_third(padding, c, 0);
}

/* All lines of one channel of an image. w: [3][3], int16 if w16, else int8; taps: room for the weights, with zeros
 * around. */
TW_INLINE void tw_depthwise_dsp_image(const int8_t *x, int8_t *y, const int8_t *w, int16_t *taps, const int32_t *ends,
                                      int32_t shift, tw_depthwise_dsp_channel *c, int kind, int w16,
                                      const tw_depthwise_conv2d_dsp_s8_params *p) {
    const int32_t k = kind == TW_DEPTHWISE_SHORT ? 1 + TW_DEPTHWISE_SHIFT - shift : kind == TW_DEPTHWISE_S8;
    const int32_t start = kind == TW_DEPTHWISE_SHORT ? tw_shift_left(ends[0], k - 1) : ends[0];
    int32_t at = -p->lines[0] * p->x_line;
    for (int i = 0; i < 9; ++i) {
        const int32_t tap = w16 ? ((const int16_t *)(const void *)w)[i] : w[i];
        taps[i / 3 * 5 + i % 3 + 1] = (int16_t)tw_shift_left(tap, k);
    }
    c->mult = ends[1], c->rounding = tw_rounding(p->end.zero, shift);
    if (kind == TW_DEPTHWISE_S16) c->rounding = -(p->end.low == 0);
    if (kind == TW_DEPTHWISE_SHORT) c->rounding = tw_rounding(p->end.zero, TW_DEPTHWISE_SHIFT) + (1 << k >> 2);
    for (int32_t edge = -1; edge <= 1; ++edge) {
        const int32_t lines = p->lines[edge + 1];
        if (lines == 0) continue;
        tw_depthwise_dsp_weights(c, taps, edge, start, (uint32_t)(p->steps << 8 | shift), p->in_zero);
        c->left = lines;
        if (p->stride == 1)
            tw_depthwise_dsp_lines1(x + (at - edge * p->x_line), y, c, kind);
        else
            tw_depthwise_dsp_lines2(x + (at - edge * p->x_line), y, c, kind);
        at += lines * p->line_stride * p->x_line;
        y += lines * p->y_line;
    }
}

/* What all channels share: their steps, and the bytes from the end of a line to the next one. */
TW_INLINE void tw_depthwise_dsp_begin(tw_depthwise_dsp_channel *c, const tw_depthwise_conv2d_dsp_s8_params *p) {
    const int32_t columns = p->stride * p->steps + p->behind + 3 - p->pad - p->stride;
    c->line = p->x_line, c->step = p->x_step;
    c->pad = p->pad, c->behind = p->behind, c->y_step = p->y_step;
    c->x_next = p->line_stride * p->x_line - columns * p->x_step;
    c->y_next = p->y_line - (p->steps + p->behind) * p->y_step;
}

/* All outputs, not yet clamped; w16: weights are int16, not int8. */
TW_INLINE void tw_depthwise_dsp_images(const tw_depthwise_conv2d_dsp_s8_params *p, const void *const *in,
                                       void *const *out, int kind, int w16) {
    const int wide = kind == TW_DEPTHWISE_S16;
    const int8_t *w = (const int8_t *)in[1], *shift = (const int8_t *)in[3];
    const int32_t *ends = (const int32_t *)in[2];
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    int16_t taps[15] = {0};
    tw_depthwise_dsp_channel channel;
    tw_depthwise_dsp_begin(&channel, p);
    for (int32_t b = 0; b < p->batches; ++b, x += p->x_size, y += p->y_size)
        for (int32_t i = 0, c = 0; i < p->in_c; ++i)
            for (const int32_t end = c + p->multiplier; c < end; ++c)
                tw_depthwise_dsp_image(x + (wide ? 2 * i : i), y + (wide ? 2 * c : c), w + (9 * c << w16), taps,
                                       ends + 2 * c, wide ? 0 : shift[c], &channel, kind, w16, p);
}

TW_INLINE void tw_depthwise_dsp(const tw_depthwise_conv2d_dsp_s8_params *params, const void *const *in,
                                void *const *out, int kind, int w16) {
    const tw_depthwise_conv2d_dsp_s8_params p = *params;
    int8_t *y = (int8_t *)out[0];
    tw_depthwise_dsp_images(&p, in, out, kind, w16);
    if (p.end.low > -128 || p.end.high < 127)
        for (int32_t i = p.batches * p.y_size; i > 0; --i, ++y) *y = (int8_t)tw_clamp(*y, p.end.low, p.end.high);
}

TW_KERNEL(tw_depthwise_conv2d_dsp_s8) { tw_depthwise_dsp(params, in, out, TW_DEPTHWISE_S8, 0); }

/* The same with the short end, where it is exact for all channels. */
typedef tw_depthwise_conv2d_dsp_s8_params tw_depthwise_conv2d_short_dsp_s8_params;

TW_KERNEL(tw_depthwise_conv2d_short_dsp_s8) { tw_depthwise_dsp(params, in, out, TW_DEPTHWISE_SHORT, 0); }

/* The usual end, and weights of int16, as those that were uint8 less their zero point. */
typedef tw_depthwise_conv2d_dsp_s8_params tw_depthwise_conv2d_w16_dsp_s8_params;

TW_KERNEL(tw_depthwise_conv2d_w16_dsp_s8) { tw_depthwise_dsp(params, in, out, TW_DEPTHWISE_S8, 1); }

#endif
