/* SPDX-License-Identifier: Apache-2.0 */
/* 3x3 windows of one channel on the DSP extension: three lines of an image at once, of int8 or int16. */
#ifndef TW_DSP_LINES_H
#define TW_DSP_LINES_H

#include "dsp.h"

/* How sums end: TW_DEPTHWISE_S8 as tw_scaled says, TW_DEPTHWISE_S16 as int16, TW_DEPTHWISE_SHORT in two instructions, as
 * dsp_halves.h says: weights are multiplied by 2^k, k = 1 + TW_DEPTHWISE_SHIFT - r, in place of 2, and rounding is what
 * SMMLA adds. */
#define TW_DEPTHWISE_S8 0
#define TW_DEPTHWISE_S16 1
#define TW_DEPTHWISE_SHORT 2
#define TW_DEPTHWISE_SHIFT 10

/* One channel for lines of one kind, in the order in which the loops load. Weights are doubled. pair: those of the
 * first two lines, one word per step; thirds, last: those of the third line, where the low half of last holds 256 *
 * steps + shift. start: of a sum; head: start plus the padding before; tail: what the padding behind adds. With int16,
 * weights are not doubled, there is no shift, and rounding is a mask of the bits that negative outputs lose: all with
 * RELU, else none. x_next, y_next: bytes from the end of one line to the next. left: lines to do. */
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

/* acc plus what a column x adds to the window whose first, second or third column it is. */
TW_INLINE int32_t tw_depthwise_dsp_first(tw_depthwise_dsp_column x, const tw_depthwise_dsp_channel *c, int32_t acc) {
    return tw_low_low(x.third, c->thirds, tw_dual(x.pair, c->pair[0], acc));
}

TW_INLINE int32_t tw_depthwise_dsp_second(tw_depthwise_dsp_column x, const tw_depthwise_dsp_channel *c, int32_t acc) {
    return tw_low_high(x.third, c->thirds, tw_dual(x.pair, c->pair[1], acc));
}

TW_INLINE int32_t tw_depthwise_dsp_third(tw_depthwise_dsp_column x, const tw_depthwise_dsp_channel *c, int32_t acc) {
    return tw_low_high(x.third, c->last, tw_dual(x.pair, c->pair[2], acc));
}

TW_INLINE void tw_depthwise_dsp_output(int8_t *y, int32_t sum, const tw_depthwise_dsp_channel *c, int kind) {
    if (kind == TW_DEPTHWISE_SHORT) {
        *y = (int8_t)tw_clamp8(tw_add(tw_high32(sum, c->mult), c->rounding) >> TW_DEPTHWISE_SHIFT);
        return;
    }
    if (kind == TW_DEPTHWISE_S8) {
        *y = (int8_t)tw_clamp8(tw_scaled(sum, c->mult, c->rounding, (int32_t)(c->last & 0xFFU)));
        return;
    }
    const int32_t q = tw_clamp_s16(tw_top(sum, c->mult), INT16_MIN, INT16_MAX);
    *(int16_t *)(void *)y = (int16_t)(q & ~(q >> 31 & c->rounding));
}

/* The loops over c->left lines; x points to the first of three, y to the outputs. gcc keeps at
 * most half of their 18 values in registers, so with gcc they are assembly. */
#if defined(TW_DSP_LOOPS) && !defined(__clang__)

/* r4-r6: pair, r7: thirds, r8: last, r9: line, r10: step; r0: x, r2: the sum in progress; columns go to r11, r12; lr:
 * the sum to finish, into r11. */
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
#define TW_DEPTHWISE_FINISH_short "ldrd r11, r12, %[mult]\n\tsmmla r11, lr, r11, r12\n\tssat r11, #8, r11, asr #10\n\t"
#define TW_DEPTHWISE_TAIL "ldr lr, %[tail]\n\tadd lr, lr, r2\n\t"
#define TW_DEPTHWISE_MORE                                                                                              \
    "ldr r11, %[x_next]\n\tadd r0, r0, r11\n\tldr r11, %[y_next]\n\tadd r1, r1, r11\n\tldr r8, %[last]\n\t"            \
    "ldr r11, %[left]\n\tsubs r11, r11, #1\n\tstr r11, %[left]\n\tbne 3b"
#define TW_DEPTHWISE_OPERANDS                                                                                          \
    [start] "m"(c->start), [mult] "m"(c->mult), [head] "m"(c->head), [tail] "m"(c->tail), [pad] "m"(c->pad),           \
        [behind] "m"(c->behind), [x_next] "m"(c->x_next), [last] "m"(c->last)
#define TW_DEPTHWISE_CLOBBERS "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory"

/* Stride 1. r3: the sum of the output after; r1: bytes from the column after next to y. Two outputs per round; an odd
 * number begins at the second. */
#define TW_DEPTHWISE_NEXT                                                                                              \
    "smlad r2, r11, r5, r3\n\tsmlabt r2, r12, r7, r2\n\tldr r3, %[start]\n\t"                                          \
    "smlad r3, r11, r4, r3\n\tsmlabb r3, r12, r7, r3\n\t"
#define TW_DEPTHWISE_STEP(B, END)                                                                                      \
    TW_DEPTHWISE_LOAD(B) TW_DEPTHWISE_THIRD TW_DEPTHWISE_NEXT TW_DEPTHWISE_FINISH_##END "str" #B " r11, [r0, r1]\n\t"
#define TW_DEPTHWISE_LINES1(B, END)                                                                                    \
    __asm volatile("ldm r2, {r4-r10}\n"                                                                                \
                   "3:\n\tldr r3, %[head]\n\tldr r2, %[pad]\n\tcbnz r2, 4f\n\t" TW_DEPTHWISE_LOAD(                     \
                       B) "ldr r3, %[start]\n\tsmlad r3, r11, r4, r3\n\tsmlabb r3, r12, r7, r3\n"                      \
                          "4:\n\t" TW_DEPTHWISE_LOAD(B) TW_DEPTHWISE_NEXT                                              \
                   "tst r8, #256\n\tbeq 1f\n\tadd r8, r8, #256\n\tb 2f\n"                                              \
                   "1:\n\t" TW_DEPTHWISE_STEP(B, END) "2:\n\t" TW_DEPTHWISE_STEP(                                      \
                       B, END) "sub r8, r8, #512\n\ttst r8, #65280\n\tbne 1b\n\t"                                      \
                               "ldr r3, %[behind]\n\tcbz r3, 5f\n\t" TW_DEPTHWISE_TAIL TW_DEPTHWISE_FINISH_##END       \
                   "add r0, r0, r10\n\tstr" #B " r11, [r0, r1]\n"                                                      \
                   "5:\n\t" TW_DEPTHWISE_MORE                                                                          \
                   : "+r"(from), "+r"(across), "+r"(values), [left] "+m"(c->left)                                      \
                   : TW_DEPTHWISE_OPERANDS, [y_next] "m"(y_next)                                                       \
                   : "r3", TW_DEPTHWISE_CLOBBERS)

TW_INLINE void tw_depthwise_dsp_lines1(const int8_t *x, int8_t *y, tw_depthwise_dsp_channel *c, int kind) {
    const int32_t y_next = c->y_next - c->x_next - (2 - c->pad) * c->step;
    register const int8_t *from __asm("r0") = x;
    register intptr_t across __asm("r1") = (intptr_t)y - (intptr_t)x - (3 - c->pad) * c->step;
    register const tw_depthwise_dsp_channel *values __asm("r2") = c;
    __asm volatile("" : "+r"(values)); /* else gcc -Og wants one more register for the address */
    if (kind == TW_DEPTHWISE_SHORT)
        TW_DEPTHWISE_LINES1(b, short);
    else if (kind == TW_DEPTHWISE_S16)
        TW_DEPTHWISE_LINES1(h, h);
    else
        TW_DEPTHWISE_LINES1(b, b);
}

/* Stride 2. r1: y, r3: start. */
#define TW_DEPTHWISE_LINES2(B, END)                                                                                    \
    __asm volatile(                                                                                                    \
        "ldm r2, {r4-r10}\n\tldr r3, %[start]\n"                                                                       \
        "3:\n\tldr r2, %[head]\n\tldr lr, %[pad]\n\tcmp lr, #0\n\tbne 1f\n\t" TW_DEPTHWISE_LOAD(                       \
            B) "smlad r2, r11, r4, r3\n\tsmlabb r2, r12, r7, r2\n"                                                     \
               "1:\n\t" TW_DEPTHWISE_LOAD(B) "smlad r2, r11, r5, r2\n\tsmlabt r2, r12, r7, r2\n\t" TW_DEPTHWISE_LOAD(  \
                   B) TW_DEPTHWISE_THIRD                                                                               \
        "smlad r2, r11, r4, r3\n\tsmlabb r2, r12, r7, r2\n\t" TW_DEPTHWISE_FINISH_##END                                \
        "str" #B " r11, [r1]\n\tldr r12, %[y_step]\n\tadd r1, r1, r12\n\t"                                             \
        "sub r8, r8, #256\n\ttst r8, #65280\n\tbne 1b\n\t"                                                             \
        "ldr lr, %[behind]\n\tcmp lr, #0\n\tbeq 5f\n\t" TW_DEPTHWISE_LOAD(                                             \
            B) "smlad r2, r11, r5, r2\n\tsmlabt r2, r12, r7, r2\n\t" TW_DEPTHWISE_TAIL TW_DEPTHWISE_FINISH_##END       \
        "str" #B " r11, [r1]\n\tldr r12, %[y_step]\n\tadd r1, r1, r12\n"                                               \
        "5:\n\t" TW_DEPTHWISE_MORE                                                                                     \
        : "+r"(from), "+r"(to), "+r"(values), [left] "+m"(c->left)                                                     \
        : TW_DEPTHWISE_OPERANDS, [y_next] "m"(c->y_next), [y_step] "m"(c->y_step)                                      \
        : "r3", TW_DEPTHWISE_CLOBBERS)

TW_INLINE void tw_depthwise_dsp_lines2(const int8_t *x, int8_t *y, tw_depthwise_dsp_channel *c, int kind) {
    register const int8_t *from __asm("r0") = x;
    register int8_t *to __asm("r1") = y;
    register const tw_depthwise_dsp_channel *values __asm("r2") = c;
    __asm volatile("" : "+r"(values)); /* else gcc -Og wants one more register for the address */
    if (kind == TW_DEPTHWISE_SHORT)
        TW_DEPTHWISE_LINES2(b, short);
    else if (kind == TW_DEPTHWISE_S16)
        TW_DEPTHWISE_LINES2(h, h);
    else
        TW_DEPTHWISE_LINES2(b, b);
}

#else

TW_INLINE void tw_depthwise_dsp_lines1(const int8_t *x, int8_t *y, tw_depthwise_dsp_channel *c, int kind) {
    const int wide = kind == TW_DEPTHWISE_S16;
    for (; c->left; --c->left, x += c->x_next, y += c->y_next) {
        int32_t acc = c->head;
        if (!c->pad) acc = tw_depthwise_dsp_first(tw_depthwise_dsp_load(x, c, wide), c, c->start), x += c->step;
        tw_depthwise_dsp_column column = tw_depthwise_dsp_load(x, c, wide);
        int32_t next = tw_depthwise_dsp_first(column, c, c->start);
        acc = tw_depthwise_dsp_second(column, c, acc), x += c->step;
        for (uint32_t steps = c->last >> 8 & 0xFFU; steps; --steps, x += c->step, y += c->y_step) {
            column = tw_depthwise_dsp_load(x, c, wide);
            tw_depthwise_dsp_output(y, tw_depthwise_dsp_third(column, c, acc), c, kind);
            acc = tw_depthwise_dsp_second(column, c, next);
            next = tw_depthwise_dsp_first(column, c, c->start);
        }
        if (c->behind) tw_depthwise_dsp_output(y, tw_add(acc, c->tail), c, kind), x += c->step, y += c->y_step;
    }
}

TW_INLINE void tw_depthwise_dsp_lines2(const int8_t *x, int8_t *y, tw_depthwise_dsp_channel *c, int kind) {
    const int wide = kind == TW_DEPTHWISE_S16;
    for (; c->left; --c->left, x += c->x_next, y += c->y_next) {
        int32_t acc = c->head;
        if (!c->pad) acc = tw_depthwise_dsp_first(tw_depthwise_dsp_load(x, c, wide), c, c->start), x += c->step;
        for (uint32_t steps = c->last >> 8 & 0xFFU; steps; --steps, x += 2 * c->step, y += c->y_step) {
            const tw_depthwise_dsp_column column = tw_depthwise_dsp_load(x + c->step, c, wide);
            acc = tw_depthwise_dsp_second(tw_depthwise_dsp_load(x, c, wide), c, acc);
            tw_depthwise_dsp_output(y, tw_depthwise_dsp_third(column, c, acc), c, kind);
            acc = tw_depthwise_dsp_first(column, c, c->start);
        }
        if (!c->behind) continue;
        acc = tw_depthwise_dsp_second(tw_depthwise_dsp_load(x, c, wide), c, acc);
        tw_depthwise_dsp_output(y, tw_add(acc, c->tail), c, kind), x += c->step, y += c->y_step;
    }
}

#endif

#endif
