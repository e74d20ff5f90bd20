/* SPDX-License-Identifier: Apache-2.0 */
/* DEPTHWISE_CONV_2D, NHWC, 3x3 windows, on the DSP extension: one channel at a time. */
#ifndef TW_DEPTHWISE_CONV2D_DSP_H
#define TW_DEPTHWISE_CONV2D_DSP_H

#include "../core/epilogue.h"
#include "../isa/dsp/dsp.h"

/* int8. The kernel walks along lines (rows or columns of the image) and reads three of them at once: lines are apart
 * by x_line and y_line bytes, their elements by x_step and y_step (the same unless stride is 2), images by x_size and
 * y_size. Strides are 1 or 2 along a line and any across, pads 0 or 1, no more than 1 behind. Of the lines of outputs,
 * lines[0] (0 or 1) begin before the image, lines[1] lie inside and lines[2] (0 or 1) reach beyond it; of the outputs
 * of a line, steps (1..254) end inside of it and behind (0 or 1) beyond it.
 * in: x, weights int8 [in_c * multiplier][3 along][3 lines], ends int32 [in_c * multiplier][2]: bias with the input
 * zero point folded in, doubled, and mult; shift int8 [in_c * multiplier]: to the right, 1..22. in_zero is what padding
 * holds. out: y. */
typedef struct {
    int32_t batches, in_c, multiplier, x_size, y_size;
    int32_t lines[3], line_stride, x_line, y_line;
    int32_t steps, behind, stride, pad, x_step, y_step;
    int32_t in_zero;
    tw_epilogue_s8 end;
} tw_depthwise_conv2d_dsp_s8_params;

/* What one channel does with lines of one kind, in the order of the loops' loads. All weights are doubled. pair:
 * those of the first two lines, one a step; thirds, last: those of the third line, where the low half of last holds
 * the shift and, times 256, steps. start: of a sum; head: start and the padding before; tail: what the padding behind
 * gives. With int16 weights are as they are, the shift is none, and rounding is what a negative output loses: all, with
 * RELU. x_next, y_next: from behind one line to the next. left: lines to do. */
typedef struct {
    uint32_t pair[3], thirds, last;
    int32_t line, step, start, mult, rounding, head, tail;
    int32_t pad, behind, x_next, y_next, y_step, left;
} tw_depthwise_dsp_channel;

/* One step of three lines: the first two as halves, the third. */
typedef struct {
    uint32_t pair, third;
} tw_depthwise_dsp_column;

TW_INLINE tw_depthwise_dsp_column tw_depthwise_dsp_load(const int8_t *x, const tw_depthwise_dsp_channel *c, int wide) {
    const int8_t *y = x + c->line, *z = y + c->line;
    if (wide) {
        const int16_t a = *(const int16_t *)(const void *)x, b = *(const int16_t *)(const void *)y;
        const tw_depthwise_dsp_column column = {tw_pack((uint32_t)a, (uint32_t)b),
                                                (uint32_t) * (const int16_t *)(const void *)z};
        return column;
    }
    const tw_depthwise_dsp_column column = {tw_pack((uint32_t)*x, (uint32_t)*y), (uint32_t)*z};
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

TW_INLINE void tw_depthwise_dsp_output(int8_t *y, int32_t sum, const tw_depthwise_dsp_channel *c, int wide) {
    if (!wide) {
        *y = (int8_t)tw_clamp8(tw_scaled(sum, c->mult, c->rounding, (int32_t)(c->last & 0xFFU)));
        return;
    }
    const int32_t q = tw_clamp_s16(tw_top(sum, c->mult), INT16_MIN, INT16_MAX);
    *(int16_t *)(void *)y = (int16_t)(q & ~(q >> 31 & c->rounding));
}

/* The loops over c->left lines: x at the first of three, y at the outputs; wide: of int16, not int8. gcc keeps no more
 * than half of their 18 values in registers, so for it they are written out. */
#if defined(TW_DSP_LOOPS) && !defined(__clang__)

/* r4-r6: pair, r7: thirds, r8: last, r9: line, r10: step; r0: x, r2: the sum under way; a column to r11, r12; lr: the
 * sum to be finished, into r11. */
#define TW_DEPTHWISE_LOAD(B)                                                                                           \
    "ldrs" #B " r11, [r0]\n\tldrs" #B " r12, [r0, r9]\n\tpkhbt r11, r11, r12, lsl #16\n\t"                             \
    "ldrs" #B " r12, [r0, r9, lsl #1]\n\tadd r0, r0, r10\n\t"
#define TW_DEPTHWISE_THIRD "smlad lr, r11, r6, r2\n\tsmlabt lr, r12, r8, lr\n\t"
#define TW_DEPTHWISE_FINISH_b                                                                                          \
    "ldrd r11, r12, %[mult]\n\tsmmlar r11, lr, r11, r12\n\tadd r11, r11, lr, asr #31\n\tasr r11, r11, r8\n\t"          \
    "ssat r11, #8, r11\n\t"
#define TW_DEPTHWISE_FINISH_h                                                                                          \
    "ldrd r11, r12, %[mult]\n\tsmmulr r11, lr, r11\n\tssat r11, #16, r11\n\tand r12, r12, r11, asr #31\n\t"            \
    "bic r11, r11, r12\n\t"
#define TW_DEPTHWISE_TAIL "ldr lr, %[tail]\n\tadd lr, lr, r2\n\t"
#define TW_DEPTHWISE_MORE                                                                                              \
    "ldr r11, %[x_next]\n\tadd r0, r0, r11\n\tldr r11, %[y_next]\n\tadd r1, r1, r11\n\tldr r8, %[last]\n\t"            \
    "ldr r11, %[left]\n\tsubs r11, r11, #1\n\tstr r11, %[left]\n\tbne 3b"
#define TW_DEPTHWISE_OPERANDS                                                                                          \
    [start] "m"(c->start), [mult] "m"(c->mult), [head] "m"(c->head), [tail] "m"(c->tail), [pad] "m"(c->pad),           \
        [behind] "m"(c->behind), [x_next] "m"(c->x_next), [last] "m"(c->last)
#define TW_DEPTHWISE_CLOBBERS "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory"

/* Stride 1. r3: the sum of the output after; r1: from the column after next to y. Two outputs a turn; an odd number
 * enters at the second. */
#define TW_DEPTHWISE_NEXT                                                                                              \
    "smlad r2, r11, r5, r3\n\tsmlabt r2, r12, r7, r2\n\tldr r3, %[start]\n\t"                                          \
    "smlad r3, r11, r4, r3\n\tsmlabb r3, r12, r7, r3\n\t"
#define TW_DEPTHWISE_STEP(B)                                                                                           \
    TW_DEPTHWISE_LOAD(B) TW_DEPTHWISE_THIRD TW_DEPTHWISE_NEXT TW_DEPTHWISE_FINISH_##B "str" #B " r11, [r0, r1]\n\t"
#define TW_DEPTHWISE_LINES1(B)                                                                                         \
    __asm volatile("ldm r2, {r4-r10}\n"                                                                                \
                   "3:\n\tldr r3, %[head]\n\tldr r2, %[pad]\n\tcbnz r2, 4f\n\t" TW_DEPTHWISE_LOAD(                     \
                       B) "ldr r3, %[start]\n\tsmlad r3, r11, r4, r3\n\tsmlabb r3, r12, r7, r3\n"                      \
                          "4:\n\t" TW_DEPTHWISE_LOAD(B) TW_DEPTHWISE_NEXT                                              \
                   "tst r8, #256\n\tbeq 1f\n\tadd r8, r8, #256\n\tb 2f\n"                                              \
                   "1:\n\t" TW_DEPTHWISE_STEP(B) "2:\n\t" TW_DEPTHWISE_STEP(                                           \
                       B) "sub r8, r8, #512\n\ttst r8, #65280\n\tbne 1b\n\t"                                           \
                          "ldr r3, %[behind]\n\tcbz r3, 5f\n\t" TW_DEPTHWISE_TAIL TW_DEPTHWISE_FINISH_##B              \
                   "add r0, r0, r10\n\tstr" #B " r11, [r0, r1]\n"                                                      \
                   "5:\n\t" TW_DEPTHWISE_MORE                                                                          \
                   : "+r"(from), "+r"(across), "+r"(values), [left] "+m"(c->left)                                      \
                   : TW_DEPTHWISE_OPERANDS, [y_next] "m"(y_next)                                                       \
                   : "r3", TW_DEPTHWISE_CLOBBERS)

TW_INLINE void tw_depthwise_dsp_lines1(const int8_t *x, int8_t *y, tw_depthwise_dsp_channel *c, int wide) {
    const int32_t y_next = c->y_next - c->x_next - (2 - c->pad) * c->step;
    register const int8_t *from __asm("r0") = x;
    register intptr_t across __asm("r1") = (intptr_t)y - (intptr_t)x - (3 - c->pad) * c->step;
    register const tw_depthwise_dsp_channel *values __asm("r2") = c;
    if (wide)
        TW_DEPTHWISE_LINES1(h);
    else
        TW_DEPTHWISE_LINES1(b);
}

/* Stride 2. r1: y, r3: start. */
#define TW_DEPTHWISE_LINES2(B)                                                                                         \
    __asm volatile(                                                                                                    \
        "ldm r2, {r4-r10}\n\tldr r3, %[start]\n"                                                                       \
        "3:\n\tldr r2, %[head]\n\tldr lr, %[pad]\n\tcmp lr, #0\n\tbne 1f\n\t" TW_DEPTHWISE_LOAD(                       \
            B) "smlad r2, r11, r4, r3\n\tsmlabb r2, r12, r7, r2\n"                                                     \
               "1:\n\t" TW_DEPTHWISE_LOAD(B) "smlad r2, r11, r5, r2\n\tsmlabt r2, r12, r7, r2\n\t" TW_DEPTHWISE_LOAD(  \
                   B) TW_DEPTHWISE_THIRD "smlad r2, r11, r4, r3\n\tsmlabb r2, r12, r7, r2\n\t" TW_DEPTHWISE_FINISH_##B \
        "str" #B " r11, [r1]\n\tldr r12, %[y_step]\n\tadd r1, r1, r12\n\t"                                             \
        "sub r8, r8, #256\n\ttst r8, #65280\n\tbne 1b\n\t"                                                             \
        "ldr lr, %[behind]\n\tcmp lr, #0\n\tbeq 5f\n\t" TW_DEPTHWISE_LOAD(                                             \
            B) "smlad r2, r11, r5, r2\n\tsmlabt r2, r12, r7, r2\n\t" TW_DEPTHWISE_TAIL TW_DEPTHWISE_FINISH_##B         \
        "str" #B " r11, [r1]\n\tldr r12, %[y_step]\n\tadd r1, r1, r12\n"                                               \
        "5:\n\t" TW_DEPTHWISE_MORE                                                                                     \
        : "+r"(from), "+r"(to), "+r"(values), [left] "+m"(c->left)                                                     \
        : TW_DEPTHWISE_OPERANDS, [y_next] "m"(c->y_next), [y_step] "m"(c->y_step)                                      \
        : "r3", TW_DEPTHWISE_CLOBBERS)

TW_INLINE void tw_depthwise_dsp_lines2(const int8_t *x, int8_t *y, tw_depthwise_dsp_channel *c, int wide) {
    register const int8_t *from __asm("r0") = x;
    register int8_t *to __asm("r1") = y;
    register const tw_depthwise_dsp_channel *values __asm("r2") = c;
    if (wide)
        TW_DEPTHWISE_LINES2(h);
    else
        TW_DEPTHWISE_LINES2(b);
}

#else

TW_INLINE void tw_depthwise_dsp_lines1(const int8_t *x, int8_t *y, tw_depthwise_dsp_channel *c, int wide) {
    for (; c->left; --c->left, x += c->x_next, y += c->y_next) {
        int32_t acc = c->head;
        if (!c->pad) acc = tw_depthwise_dsp_first(tw_depthwise_dsp_load(x, c, wide), c, c->start), x += c->step;
        tw_depthwise_dsp_column column = tw_depthwise_dsp_load(x, c, wide);
        int32_t next = tw_depthwise_dsp_first(column, c, c->start);
        acc = tw_depthwise_dsp_second(column, c, acc), x += c->step;
        for (uint32_t steps = c->last >> 8 & 0xFFU; steps; --steps, x += c->step, y += c->y_step) {
            column = tw_depthwise_dsp_load(x, c, wide);
            tw_depthwise_dsp_output(y, tw_depthwise_dsp_third(column, c, acc), c, wide);
            acc = tw_depthwise_dsp_second(column, c, next);
            next = tw_depthwise_dsp_first(column, c, c->start);
        }
        if (c->behind) tw_depthwise_dsp_output(y, acc + c->tail, c, wide), x += c->step, y += c->y_step;
    }
}

TW_INLINE void tw_depthwise_dsp_lines2(const int8_t *x, int8_t *y, tw_depthwise_dsp_channel *c, int wide) {
    for (; c->left; --c->left, x += c->x_next, y += c->y_next) {
        int32_t acc = c->head;
        if (!c->pad) acc = tw_depthwise_dsp_first(tw_depthwise_dsp_load(x, c, wide), c, c->start), x += c->step;
        for (uint32_t steps = c->last >> 8 & 0xFFU; steps; --steps, x += 2 * c->step, y += c->y_step) {
            const tw_depthwise_dsp_column column = tw_depthwise_dsp_load(x + c->step, c, wide);
            acc = tw_depthwise_dsp_second(tw_depthwise_dsp_load(x, c, wide), c, acc);
            tw_depthwise_dsp_output(y, tw_depthwise_dsp_third(column, c, acc), c, wide);
            acc = tw_depthwise_dsp_first(column, c, c->start);
        }
        if (!c->behind) continue;
        acc = tw_depthwise_dsp_second(tw_depthwise_dsp_load(x, c, wide), c, acc);
        tw_depthwise_dsp_output(y, acc + c->tail, c, wide), x += c->step, y += c->y_step;
    }
}

#endif

/* What suits three lines of which the first (edge -1) or the last (edge 1) lies outside of the image: the weights
 * move to the lines inside, and the sums have what the padding gives. w: doubled weights between zeros [along][lines
 * + 2]; twice: the bias; last: shift and number of outputs. */
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

/* All lines of one channel of an image. w: int8 [3][3]; taps: room for them, zeros where padding is. */
TW_INLINE void tw_depthwise_dsp_image(const int8_t *x, int8_t *y, const int8_t *w, int16_t *taps, const int32_t *ends,
                                      int32_t shift, tw_depthwise_dsp_channel *c, int wide,
                                      const tw_depthwise_conv2d_dsp_s8_params *p) {
    int32_t at = -p->lines[0] * p->x_line;
    for (int k = 0; k < 9; ++k) taps[k / 3 * 5 + k % 3 + 1] = (int16_t)(wide ? w[k] : 2 * w[k]);
    c->mult = ends[1], c->rounding = wide ? -(p->end.low == 0) : tw_rounding(p->end.zero, shift);
    for (int32_t edge = -1; edge <= 1; ++edge) {
        const int32_t lines = p->lines[edge + 1];
        if (lines == 0) continue;
        tw_depthwise_dsp_weights(c, taps, edge, ends[0], (uint32_t)(p->steps << 8 | shift), p->in_zero);
        c->left = lines;
        if (p->stride == 1)
            tw_depthwise_dsp_lines1(x + (at - edge * p->x_line), y, c, wide);
        else
            tw_depthwise_dsp_lines2(x + (at - edge * p->x_line), y, c, wide);
        at += lines * p->line_stride * p->x_line;
        y += lines * p->y_line;
    }
}

/* What all channels have in common: their steps, and the way from behind a line to the next one. */
TW_INLINE void tw_depthwise_dsp_begin(tw_depthwise_dsp_channel *c, const tw_depthwise_conv2d_dsp_s8_params *p) {
    const int32_t columns = p->stride * p->steps + p->behind + 3 - p->pad - p->stride;
    c->line = p->x_line, c->step = p->x_step;
    c->pad = p->pad, c->behind = p->behind, c->y_step = p->y_step;
    c->x_next = p->line_stride * p->x_line - columns * p->x_step;
    c->y_next = p->y_line - (p->steps + p->behind) * p->y_step;
}

/* All outputs before they are clamped; wide: int16, not int8. */
TW_INLINE void tw_depthwise_dsp_images(const tw_depthwise_conv2d_dsp_s8_params *p, const void *const *in,
                                       void *const *out, int wide) {
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
                tw_depthwise_dsp_image(x + (wide ? 2 * i : i), y + (wide ? 2 * c : c), w + 9 * c, taps, ends + 2 * c,
                                       wide ? 0 : shift[c], &channel, wide, p);
}

TW_KERNEL(tw_depthwise_conv2d_dsp_s8) {
    const tw_depthwise_conv2d_dsp_s8_params p = *params;
    int8_t *y = (int8_t *)out[0];
    (void)scratch;
    tw_depthwise_dsp_images(&p, in, out, 0);
    if (p.end.low > -128 || p.end.high < 127)
        for (int32_t i = p.batches * p.y_size; i > 0; --i, ++y) *y = (int8_t)tw_clamp(*y, p.end.low, p.end.high);
}

#endif
