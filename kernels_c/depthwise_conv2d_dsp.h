/* DEPTHWISE_CONV_2D, NHWC, 3x3 windows, on the DSP extension: one channel at a time. */
#ifndef TW_DEPTHWISE_CONV2D_DSP_H
#define TW_DEPTHWISE_CONV2D_DSP_H

#include "dsp.h"

/* int8. The kernel walks along lines (rows or columns of the image) and reads three of them at once: lines are apart by
 * x_line and y_line bytes, their elements by step in both, images by x_size and y_size. Strides are 1 or 2 along a line
 * and any across, pads 0 or 1, no more than 1 behind. Of the lines of outputs, lines[0] (0 or 1) begin before the image,
 * lines[1] lie inside and lines[2] (0 or 1) reach beyond it; of the outputs of a line, steps (1..254) end inside of it
 * and behind (0 or 1) beyond it.
 * in: x, weights int8 [channels][3 along][3 lines], ends int32 [channels][2]: bias with the input zero point folded in,
 * doubled, and mult; shift int8 [channels]: to the right, 1..22. in_zero is what padding holds. out: y. */
typedef struct {
    int32_t batches, channels, x_size, y_size;
    int32_t lines[3], line_stride, x_line, y_line;
    int32_t steps, behind, stride, pad, step;
    int32_t in_zero, out_zero, act_min, act_max;
} tw_depthwise_conv2d_dsp_s8_params;

/* What one channel does with three lines; all weights are doubled. pair: those of the first two lines, one a step;
 * thirds, last: those of the third line, where the low half of last holds the shift and, times 256, how many outputs
 * there are whose last column lies in the image. start: of a sum; head: start and the padding before; tail: what the
 * padding behind gives. */
typedef struct {
    uint32_t pair[3], thirds, last;
    int32_t line, step, start, mult, rounding, head, tail;
} tw_depthwise_dsp_channel;

/* One step of three lines: the first two as halves, the third. */
typedef struct {
    uint32_t pair, third;
} tw_depthwise_dsp_column;

TW_INLINE tw_depthwise_dsp_column tw_depthwise_dsp_load(const int8_t *x, const tw_depthwise_dsp_channel *c) {
    const tw_depthwise_dsp_column column = {tw_pack((uint32_t)x[0], (uint32_t)x[c->line]), (uint32_t)x[2 * c->line]};
    return column;
}

/* acc and what the column at x gives to the window of which it is the first, second or third. */
TW_INLINE int32_t tw_depthwise_dsp_first(tw_depthwise_dsp_column x, const tw_depthwise_dsp_channel *c, int32_t acc) {
    return tw_low_low(x.third, c->thirds, tw_dual(x.pair, c->pair[0], acc));
}

TW_INLINE int32_t tw_depthwise_dsp_second(tw_depthwise_dsp_column x, const tw_depthwise_dsp_channel *c, int32_t acc) {
    return tw_low_high(x.third, c->thirds, tw_dual(x.pair, c->pair[1], acc));
}

TW_INLINE int32_t tw_depthwise_dsp_third(tw_depthwise_dsp_column x, const tw_depthwise_dsp_channel *c, int32_t acc) {
    return tw_low_high(x.third, c->last, tw_dual(x.pair, c->pair[2], acc));
}

TW_INLINE int8_t tw_depthwise_dsp_output(int32_t twice, const tw_depthwise_dsp_channel *c) {
    return (int8_t)tw_clamp8(tw_scaled(twice, c->mult, c->rounding, (int32_t)(c->last & 0xFFU)));
}

/* Where a line stands: at x, with the next output at y, whose sum over the columns before x is acc. */
typedef struct {
    const int8_t *x;
    int8_t *y;
    int32_t acc;
} tw_depthwise_dsp_place;

/* The loops over the outputs of a line whose last column lies in the image. gcc keeps no more than half of their 18 values
 * in registers, so for it they are written out. */
#if defined(TW_DSP) && defined(__thumb2__) && defined(__OPTIMIZE__) && !defined(__clang__)

/* r4-r6: pair, r7: thirds, r8: last, r9: line, r10: step; r0: x, r2: the sum under way; a column to r11, r12; lr: the sum
 * to be finished, into r11. */
#define TW_DEPTHWISE_LOAD                                                                                              \
    "ldrsb r11, [r0]\n\tldrsb r12, [r0, r9]\n\tpkhbt r11, r11, r12, lsl #16\n\t"                                       \
    "ldrsb r12, [r0, r9, lsl #1]\n\tadd r0, r0, r10\n\t"
#define TW_DEPTHWISE_THIRD "smlad lr, r11, r6, r2\n\tsmlabt lr, r12, r8, lr\n\t"
#define TW_DEPTHWISE_FINISH                                                                                            \
    "ldrd r11, r12, %[mult]\n\tsmmlar r11, lr, r11, r12\n\tadd r11, r11, lr, asr #31\n\tasr r11, r11, r8\n\t"          \
    "ssat r11, #8, r11\n\t"
#define TW_DEPTHWISE_CLOBBERS "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory"

/* Stride 1. r3: the sum of the output after; r1: from x to y. Two outputs a turn; an odd number enters at the second. */
#define TW_DEPTHWISE_NEXT                                                                                              \
    "smlad r2, r11, r5, r3\n\tsmlabt r2, r12, r7, r2\n\tldr r3, %[start]\n\t"                                          \
    "smlad r3, r11, r4, r3\n\tsmlabb r3, r12, r7, r3\n\t"
#define TW_DEPTHWISE_STEP                                                                                              \
    TW_DEPTHWISE_LOAD TW_DEPTHWISE_THIRD TW_DEPTHWISE_NEXT TW_DEPTHWISE_FINISH "strb r11, [r0, r1]\n\t"

TW_INLINE tw_depthwise_dsp_place tw_depthwise_dsp_steps1(tw_depthwise_dsp_place at, const tw_depthwise_dsp_channel *c) {
    register const int8_t *x __asm("r0") = at.x;
    register int8_t *y __asm("r1") = at.y;
    register int32_t a __asm("r2") = (int32_t)(intptr_t)c, b __asm("r3") = at.acc;
    __asm volatile("ldm r2, {r4-r10}\n\t" TW_DEPTHWISE_LOAD TW_DEPTHWISE_NEXT "sub r1, r1, r0\n\tsub r1, r1, r10\n\t"
                   "tst r8, #256\n\tbeq 1f\n\tadd r8, r8, #256\n\tb 2f\n"
                   "1:\n\t" TW_DEPTHWISE_STEP "2:\n\t" TW_DEPTHWISE_STEP
                   "sub r8, r8, #512\n\ttst r8, #65280\n\tbne 1b\n\tadd r1, r1, r0\n\tadd r1, r1, r10"
                   : "+r"(x), "+r"(y), "+r"(a), "+r"(b)
                   : [start] "m"(c->start), [mult] "m"(c->mult)
                   : TW_DEPTHWISE_CLOBBERS);
    at.x = x, at.y = y, at.acc = a;
    return at;
}

/* Stride 2. r3: c->start. */
TW_INLINE tw_depthwise_dsp_place tw_depthwise_dsp_steps2(tw_depthwise_dsp_place at, const tw_depthwise_dsp_channel *c) {
    register const int8_t *x __asm("r0") = at.x;
    register int8_t *y __asm("r1") = at.y;
    register int32_t a __asm("r2") = at.acc, b __asm("r3") = (int32_t)(intptr_t)c;
    __asm volatile("ldm r3, {r4-r10}\n\tldr r3, %[start]\n"
                   "1:\n\t" TW_DEPTHWISE_LOAD
                   "smlad r2, r11, r5, r2\n\tsmlabt r2, r12, r7, r2\n\t" TW_DEPTHWISE_LOAD TW_DEPTHWISE_THIRD
                   "smlad r2, r11, r4, r3\n\tsmlabb r2, r12, r7, r2\n\t" TW_DEPTHWISE_FINISH
                   "strb r11, [r1]\n\tadd r1, r1, r10\n\tsub r8, r8, #256\n\ttst r8, #65280\n\tbne 1b"
                   : "+r"(x), "+r"(y), "+r"(a), "+r"(b)
                   : [start] "m"(c->start), [mult] "m"(c->mult)
                   : TW_DEPTHWISE_CLOBBERS);
    at.x = x, at.y = y, at.acc = a;
    return at;
}

#else

TW_INLINE tw_depthwise_dsp_place tw_depthwise_dsp_steps1(tw_depthwise_dsp_place at, const tw_depthwise_dsp_channel *c) {
    tw_depthwise_dsp_column column = tw_depthwise_dsp_load(at.x, c);
    int32_t next = tw_depthwise_dsp_first(column, c, c->start);
    at.acc = tw_depthwise_dsp_second(column, c, at.acc), at.x += c->step;
    for (uint32_t left = c->last >> 8 & 0xFFU; left; --left, at.x += c->step, at.y += c->step) {
        column = tw_depthwise_dsp_load(at.x, c);
        *at.y = tw_depthwise_dsp_output(tw_depthwise_dsp_third(column, c, at.acc), c);
        at.acc = tw_depthwise_dsp_second(column, c, next);
        next = tw_depthwise_dsp_first(column, c, c->start);
    }
    return at;
}

TW_INLINE tw_depthwise_dsp_place tw_depthwise_dsp_steps2(tw_depthwise_dsp_place at, const tw_depthwise_dsp_channel *c) {
    for (uint32_t left = c->last >> 8 & 0xFFU; left; --left, at.x += 2 * c->step, at.y += c->step) {
        const tw_depthwise_dsp_column column = tw_depthwise_dsp_load(at.x + c->step, c);
        at.acc = tw_depthwise_dsp_second(tw_depthwise_dsp_load(at.x, c), c, at.acc);
        *at.y = tw_depthwise_dsp_output(tw_depthwise_dsp_third(column, c, at.acc), c);
        at.acc = tw_depthwise_dsp_first(column, c, c->start);
    }
    return at;
}

#endif

/* What suits three lines of which the first (edge -1) or the last (edge 1) lies outside of the image: the weights move to
 * the lines inside, and the sums have what the padding gives. w: doubled weights between zeros [along][lines + 2];
 * twice: the bias; last: shift and number of outputs. */
TW_INLINE void tw_depthwise_dsp_weights(tw_depthwise_dsp_channel *c, const int16_t *w, int32_t edge, int32_t twice,
                                        uint32_t last, int32_t in_zero) {
    const uint32_t zero = (uint32_t)in_zero;
    const tw_depthwise_dsp_column padding = {tw_pack(zero, zero), zero};
    const int16_t *inside = w + 1 - edge, *outside = w + 2 + edge;
    for (int k = 0; k < 3; ++k) c->pair[k] = tw_word(inside + 5 * k);
    c->thirds = tw_pack((uint32_t)inside[2], (uint32_t)inside[7]);
    c->last = tw_pack(last, (uint32_t)inside[12]);
    c->start = twice;
    if (edge) c->start += in_zero * (outside[0] + outside[5] + outside[10]);
    c->head = tw_depthwise_dsp_first(padding, c, c->start);
    c->tail = tw_depthwise_dsp_third(padding, c, 0);
}

/* One line of outputs at y; x: the first of its three lines. */
TW_INLINE void tw_depthwise_dsp_line(const int8_t *x, int8_t *y, const tw_depthwise_dsp_channel *c,
                                     const tw_depthwise_conv2d_dsp_s8_params *p) {
    tw_depthwise_dsp_place at = {x, y, c->head};
    if (!p->pad) {
        at.acc = tw_depthwise_dsp_first(tw_depthwise_dsp_load(x, c), c, c->start);
        at.x += c->step;
    }
    at = p->stride == 1 ? tw_depthwise_dsp_steps1(at, c) : tw_depthwise_dsp_steps2(at, c);
    if (!p->behind) return;
    if (p->stride == 2) at.acc = tw_depthwise_dsp_second(tw_depthwise_dsp_load(at.x, c), c, at.acc);
    *at.y = tw_depthwise_dsp_output(at.acc + c->tail, c);
}

/* All lines of one channel of an image. w: int8 [3][3]; taps: room for them, zeros where padding is. */
TW_INLINE void tw_depthwise_dsp_image(const int8_t *x, int8_t *y, const int8_t *w, int16_t *taps, const int32_t *ends,
                                      int32_t shift, const tw_depthwise_conv2d_dsp_s8_params *p) {
    int32_t at = -p->lines[0] * p->x_line;
    tw_depthwise_dsp_channel c;
    for (int k = 0; k < 9; ++k) taps[k / 3 * 5 + k % 3 + 1] = (int16_t)(2 * w[k]);
    c.line = p->x_line, c.step = p->step;
    c.mult = ends[1], c.rounding = tw_rounding(p->out_zero, shift);
    for (int32_t edge = -1; edge <= 1; ++edge) {
        int32_t left = p->lines[edge + 1];
        if (left) tw_depthwise_dsp_weights(&c, taps, edge, ends[0], (uint32_t)(p->steps << 8 | shift), p->in_zero);
        for (; left; --left, at += p->line_stride * p->x_line, y += p->y_line)
            tw_depthwise_dsp_line(x + (at - edge * p->x_line), y, &c, p);
    }
}

TW_KERNEL(tw_depthwise_conv2d_dsp_s8) {
    const tw_depthwise_conv2d_dsp_s8_params p = *params;
    const int8_t *w = (const int8_t *)in[1], *shift = (const int8_t *)in[3];
    const int32_t *ends = (const int32_t *)in[2];
    const int8_t *x = (const int8_t *)in[0];
    int8_t *y = (int8_t *)out[0];
    int16_t taps[15] = {0};
    (void)scratch;
    for (int32_t b = 0; b < p.batches; ++b, x += p.x_size, y += p.y_size)
        for (int32_t c = 0; c < p.channels; ++c)
            tw_depthwise_dsp_image(x + c, y + c, w + 9 * c, taps, ends + 2 * c, shift[c], &p);
    if (p.act_min > -128 || p.act_max < 127)
        for (int32_t i = p.batches * p.y_size; i > 0; --i) y[-i] = (int8_t)tw_clamp(y[-i], p.act_min, p.act_max);
}

#endif
