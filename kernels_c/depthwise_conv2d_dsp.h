/* DEPTHWISE_CONV_2D, NHWC, 3x3 windows, on the DSP extension: one channel at a time. */
#ifndef TW_DEPTHWISE_CONV2D_DSP_H
#define TW_DEPTHWISE_CONV2D_DSP_H

#include "dsp.h"

/* int8. The kernel walks along lines (rows or columns of the image, whichever are longer) and reads three of them at
 * once: lines are apart by x_line and y_line bytes, steps along them by x_step and y_step, images by x_size and y_size.
 * At least 3 lines of 3 steps; strides are 1 or 2 along a line, pads 0 or 1, no more than 1 behind.
 * in: x, weights int8 [channels][3 along][3 lines], ends int32 [channels][2]: bias with the input zero point folded in,
 * doubled, and mult; shift int8 [channels]: to the right, 1..22. in_zero is what padding holds. out: y. */
typedef struct {
    int32_t batches, channels, x_size, y_size;
    int32_t in_lines, out_lines, line_stride, line_pad, x_line, y_line;
    int32_t in_steps, out_steps, stride, pad, x_step, y_step;
    int32_t in_zero, out_zero, act_min, act_max;
} tw_depthwise_conv2d_dsp_s8_params;

/* What one channel does with three lines. pair, third: doubled weights of the first two lines and of the last, one a
 * step; start: of a sum. */
typedef struct {
    uint32_t pair[3], third[3];
    int32_t start, mult, rounding, shift;
} tw_depthwise_dsp_channel;

/* One step of three lines: the first two as halves, the last. */
typedef struct {
    uint32_t pair, third;
} tw_depthwise_dsp_column;

TW_INLINE tw_depthwise_dsp_column tw_depthwise_dsp_load(const int8_t *x, int32_t line) {
    const tw_depthwise_dsp_column c = {tw_pack((uint32_t)x[0], (uint32_t)x[line]), (uint32_t)x[2 * line]};
    return c;
}

/* acc and what a column gives to the window of which it is the k-th. */
TW_INLINE int32_t tw_depthwise_dsp_taps(tw_depthwise_dsp_column x, const tw_depthwise_dsp_channel *c, int k,
                                        int32_t acc) {
    return tw_low_low(x.third, c->third[k], tw_dual(x.pair, c->pair[k], acc));
}

TW_INLINE int8_t tw_depthwise_dsp_output(int32_t twice, const tw_depthwise_dsp_channel *c) {
    return (int8_t)tw_clamp8(tw_scaled(twice, c->mult, c->rounding, c->shift));
}

/* The weights w [3][3] of a channel whose first (edge < 0) or last (edge > 0) line lies outside of the image: they move
 * to the lines inside, and a start has what the padding gives. */
TW_INLINE void tw_depthwise_dsp_weights(tw_depthwise_dsp_channel *c, const int8_t *w, int32_t edge, int32_t twice,
                                        int32_t in_zero) {
    c->start = twice;
    for (int k = 0; k < 3; ++k, w += 3) {
        int32_t first = 2 * w[0], second = 2 * w[1], third = 2 * w[2];
        if (edge < 0) {
            c->start += in_zero * first;
            first = second, second = third, third = 0;
        }
        if (edge > 0) {
            c->start += in_zero * third;
            third = second, second = first, first = 0;
        }
        c->pair[k] = tw_pack((uint32_t)first, (uint32_t)second);
        c->third[k] = (uint32_t)third;
    }
}

/* One line of outputs, stride 1 along it: two sums under way. padding: a column of it. */
TW_INLINE void tw_depthwise_dsp_walk1(const int8_t *TW_RESTRICT x, int8_t *TW_RESTRICT y,
                                      const tw_depthwise_dsp_channel *channel, tw_depthwise_dsp_column padding,
                                      const tw_depthwise_conv2d_dsp_s8_params *p) {
    const tw_depthwise_dsp_channel c = *channel;
    const int32_t line = p->x_line, step = p->x_step;
    const int32_t inside = p->in_steps + p->pad - 2;
    tw_depthwise_dsp_column column = padding;
    if (!p->pad) column = tw_depthwise_dsp_load(x, line), x += step;
    int32_t a = tw_depthwise_dsp_taps(column, &c, 0, c.start);
    column = tw_depthwise_dsp_load(x, line), x += step;
    a = tw_depthwise_dsp_taps(column, &c, 1, a);
    int32_t b = tw_depthwise_dsp_taps(column, &c, 0, c.start);
    for (int32_t left = inside; left; --left, y += p->y_step) {
        column = tw_depthwise_dsp_load(x, line), x += step;
        *y = tw_depthwise_dsp_output(tw_depthwise_dsp_taps(column, &c, 2, a), &c);
        a = tw_depthwise_dsp_taps(column, &c, 1, b);
        b = tw_depthwise_dsp_taps(column, &c, 0, c.start);
    }
    if (inside < p->out_steps) *y = tw_depthwise_dsp_output(tw_depthwise_dsp_taps(padding, &c, 2, a), &c);
}

/* The same with stride 2: one sum under way. */
TW_INLINE void tw_depthwise_dsp_walk2(const int8_t *TW_RESTRICT x, int8_t *TW_RESTRICT y,
                                      const tw_depthwise_dsp_channel *channel, tw_depthwise_dsp_column padding,
                                      const tw_depthwise_conv2d_dsp_s8_params *p) {
    const tw_depthwise_dsp_channel c = *channel;
    const int32_t line = p->x_line, step = p->x_step;
    const int32_t inside = (p->in_steps + p->pad - 1) / 2;
    tw_depthwise_dsp_column column = padding;
    if (!p->pad) column = tw_depthwise_dsp_load(x, line), x += step;
    int32_t a = tw_depthwise_dsp_taps(column, &c, 0, c.start);
    for (int32_t left = inside; left; --left, y += p->y_step) {
        column = tw_depthwise_dsp_load(x, line), x += step;
        a = tw_depthwise_dsp_taps(column, &c, 1, a);
        column = tw_depthwise_dsp_load(x, line), x += step;
        *y = tw_depthwise_dsp_output(tw_depthwise_dsp_taps(column, &c, 2, a), &c);
        a = tw_depthwise_dsp_taps(column, &c, 0, c.start);
    }
    if (inside == p->out_steps) return;
    a = tw_depthwise_dsp_taps(tw_depthwise_dsp_load(x, line), &c, 1, a);
    *y = tw_depthwise_dsp_output(tw_depthwise_dsp_taps(padding, &c, 2, a), &c);
}

/* -1 or 1 where the first or the last of three lines lies outside of the image. */
TW_INLINE int32_t tw_depthwise_dsp_edge(int32_t top, const tw_depthwise_conv2d_dsp_s8_params *p) {
    return top < 0 ? -1 : top + 3 > p->in_lines;
}

/* All lines of one channel of an image. */
TW_INLINE void tw_depthwise_dsp_image(const int8_t *x, int8_t *y, const int8_t *w, const int32_t *ends, int32_t shift,
                                      const tw_depthwise_conv2d_dsp_s8_params *p) {
    const uint32_t zero = (uint32_t)p->in_zero;
    const tw_depthwise_dsp_column padding = {tw_pack(zero, zero), zero};
    tw_depthwise_dsp_channel c;
    int32_t line = 0, top = -p->line_pad;
    c.mult = ends[1], c.shift = shift, c.rounding = tw_rounding(p->out_zero, shift);
    while (line < p->out_lines) {
        const int32_t edge = tw_depthwise_dsp_edge(top, p);
        tw_depthwise_dsp_weights(&c, w, edge, ends[0], p->in_zero);
        do {
            const int8_t *from = x + (top - edge) * p->x_line;
            if (p->stride == 1)
                tw_depthwise_dsp_walk1(from, y, &c, padding, p);
            else
                tw_depthwise_dsp_walk2(from, y, &c, padding, p);
            top += p->line_stride;
            y += p->y_line;
        } while (++line < p->out_lines && tw_depthwise_dsp_edge(top, p) == edge);
    }
}

TW_KERNEL(tw_depthwise_conv2d_dsp_s8) {
    const tw_depthwise_conv2d_dsp_s8_params p = *params;
    const int8_t *w = (const int8_t *)in[1], *shift = (const int8_t *)in[3];
    const int32_t *ends = (const int32_t *)in[2];
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    (void)scratch;
    for (int32_t b = 0; b < p.batches; ++b, x += p.x_size, y += p.y_size)
        for (int32_t c = 0; c < p.channels; ++c)
            tw_depthwise_dsp_image(x + c, y + c, w + 9 * c, ends + 2 * c, shift[c], &p);
    if (p.act_min > -128 || p.act_max < 127)
        for (int32_t i = p.batches * p.y_size; i > 0; --i) y[-i] = (int8_t)tw_clamp(y[-i], p.act_min, p.act_max);
}

#endif
