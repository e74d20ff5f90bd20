/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of products of int8 on cores with 32 registers, such as RISC-V: a tile of four pixels times four channels keeps
 * 16 sums in registers, and loads eight bytes for 16 multiply-accumulates.
 *
 * Packed weights: int8 [out / 4][k][4], so that one pointer runs through them; the last block has rows of zeros where
 * out is no multiple of 4. The input zero point is folded into the biases. */
#ifndef TW_TILE_S8_H
#define TW_TILE_S8_H

#include "../../core/tw.h"

/* Pixels and channels of a tile. */
#define TW_TILES_PIXELS 4
#define TW_TILES_CHANNELS 4

/* RISC-V but RV32E, which has 16 registers. The loop takes every register but sp, gp and tp. */
#if defined(__riscv_mul) && !defined(__riscv_32e) && defined(__GNUC__) && !defined(__clang__) &&                       \
    defined(__OPTIMIZE__) && !defined(TW_NO_ASM)
#define TW_TILES_LOOPS 1
#endif

/* How sums become outputs: the upper half of a product, (sum << up) * mult / 2^32, plus rounding, >> right, which must
 * be 0..31, clamped to low..high. Rounding holds half a step and the zero point; negative products get dip less, if
 * dips. runtime/ops/isa/tiles.py finds numbers for which that is what two roundings give. */
typedef struct {
    int32_t up, right, dips, low, high;
} tw_tiles_end;

/* What channels have of their own: bias of each; mult, rounding and dip of each, or one for all if own is 0. */
typedef struct {
    const int32_t *bias, *mult, *rounding, *dip;
    int32_t own;
    tw_tiles_end end;
} tw_tiles_channels;

/* The channels of a kernel that has them as inputs 2 to 5; mults: how many multipliers there are. */
TW_INLINE tw_tiles_channels tw_tiles_channels_of(const void *const *in, int32_t mults, const tw_tiles_end *end) {
    const tw_tiles_channels channels = {(const int32_t *)in[2],
                                        (const int32_t *)in[3],
                                        (const int32_t *)in[4],
                                        (const int32_t *)in[5],
                                        mults > 1,
                                        {end->up, end->right, end->dips, end->low, end->high}};
    return channels;
}

/* The upper 32 bits of a product. */
TW_INLINE int32_t tw_tiles_high(int32_t a, int32_t b) { return (int32_t)(((int64_t)a * b) >> 32); }

/* What one channel has of its own. */
typedef struct {
    int32_t mult, rounding, dip;
} tw_tiles_channel;

TW_INLINE tw_tiles_channel tw_tiles_channel_of(int32_t c, const tw_tiles_channels *channels) {
    const int32_t at = channels->own ? c : 0;
    const tw_tiles_channel channel = {channels->mult[at], channels->rounding[at],
                                      channels->end.dips ? channels->dip[at] : 0};
    return channel;
}

/* The output of a sum of a channel. */
TW_INLINE int8_t tw_tiles_output(int32_t sum, const tw_tiles_channel *channel, const tw_tiles_end *end) {
    int32_t high = tw_tiles_high(tw_shift_left(sum, end->up), channel->mult);
    if (end->dips) high -= (high >> 31) & channel->dip;
    return (int8_t)tw_clamp((high + channel->rounding) >> end->right, end->low, end->high);
}

/* acc[j] = start[j] + x . w[j], four channels of one pixel; w [n][4]. */
static TW_NOINLINE void __attribute__((unused))
tw_tiles_pixel(int32_t *TW_RESTRICT acc, const int8_t *x, const int8_t *w, int32_t n, const int32_t *start) {
    int32_t s0 = start[0], s1 = start[1], s2 = start[2], s3 = start[3];
#pragma GCC unroll 4
    for (const int8_t *const end = x + n; x != end; ++x, w += TW_TILES_CHANNELS) {
        s0 = tw_add(s0, *x * w[0]);
        s1 = tw_add(s1, *x * w[1]);
        s2 = tw_add(s2, *x * w[2]);
        s3 = tw_add(s3, *x * w[3]);
    }
    acc[0] = s0, acc[1] = s1, acc[2] = s2, acc[3] = s3;
}

/* acc[4 i + j] = start[j] + x[i] . w[j], four channels of four pixels. In assembly: gcc takes 55 instructions for what
 * is 46 here, and keeps sums in memory where it unrolls. A pixel's value is loaded while the one before is summed. */
TW_INLINE void tw_tiles_sums(int32_t *TW_RESTRICT acc, const int8_t *const *x, const int8_t *w, int32_t n, const int32_t *start) {
#if defined(TW_TILES_LOOPS)
    register const int8_t *x0 __asm("a0") = x[0], *x1 __asm("a1") = x[1], *x2 __asm("a2") = x[2],
                           *x3 __asm("a3") = x[3], *next __asm("a4") = w, *end __asm("a5") = x[0] + (n & ~3);
    register const int32_t *first __asm("t2") = start;
    const int8_t *last = x[0] + n;
    int32_t *to = acc;
#define TW_ROW(value, then, s0, s1, s2, s3)                                                                            \
    "mul ra, t2, a6\n add " s0 ", " s0 ", ra\n mul ra, t2, a7\n add " s1 ", " s1 ", ra\n"                              \
    "mul ra, t2, t0\n add " s2 ", " s2 ", ra\n mul ra, t2, t1\n" then "add " s3 ", " s3 ", ra\n"
#define TW_STEP(k, w0, w1, w2, w3)                                                                                     \
    "lb t2, " k "(a0)\n lb a6, " w0 "(a4)\n lb a7, " w1 "(a4)\n lb t0, " w2 "(a4)\n lb t1, " w3 "(a4)\n"               \
    TW_ROW("a0", "lb t2, " k "(a1)\n", "s0", "s1", "s2", "s3")                                                         \
    TW_ROW("a1", "lb t2, " k "(a2)\n", "s4", "s5", "s6", "s7")                                                         \
    TW_ROW("a2", "lb t2, " k "(a3)\n", "s8", "s9", "s10", "s11")                                                       \
    TW_ROW("a3", "", "t3", "t4", "t5", "t6")
#define TW_NEXT(count, weights)                                                                                        \
    "addi a0, a0, " count "\n addi a1, a1, " count "\n addi a2, a2, " count "\n addi a3, a3, " count "\n"              \
    "addi a4, a4, " weights "\n"
    __asm volatile("lw s0, 0(t2)\n lw s1, 4(t2)\n lw s2, 8(t2)\n lw s3, 12(t2)\n"
                   "mv s4, s0\n mv s5, s1\n mv s6, s2\n mv s7, s3\n mv s8, s0\n mv s9, s1\n mv s10, s2\n mv s11, s3\n"
                   "mv t3, s0\n mv t4, s1\n mv t5, s2\n mv t6, s3\n beq a0, a5, 2f\n"
                   "1:\n" TW_STEP("0", "0", "1", "2", "3") TW_STEP("1", "4", "5", "6", "7")
                   TW_STEP("2", "8", "9", "10", "11") TW_STEP("3", "12", "13", "14", "15") TW_NEXT("4", "16")
                   "bne a0, a5, 1b\n"
                   "2:\n lw a5, %[last]\n beq a0, a5, 4f\n"
                   "3:\n" TW_STEP("0", "0", "1", "2", "3") TW_NEXT("1", "4") "bne a0, a5, 3b\n"
                   "4:\n lw a5, %[to]\n"
                   "sw s0, 0(a5)\n sw s1, 4(a5)\n sw s2, 8(a5)\n sw s3, 12(a5)\n"
                   "sw s4, 16(a5)\n sw s5, 20(a5)\n sw s6, 24(a5)\n sw s7, 28(a5)\n"
                   "sw s8, 32(a5)\n sw s9, 36(a5)\n sw s10, 40(a5)\n sw s11, 44(a5)\n"
                   "sw t3, 48(a5)\n sw t4, 52(a5)\n sw t5, 56(a5)\n sw t6, 60(a5)\n"
                   : "+r"(x0), "+r"(x1), "+r"(x2), "+r"(x3), "+r"(next), "+r"(end), "+r"(first)
                   : [last] "m"(last), [to] "m"(to)
                   : "memory", "ra", "a6", "a7", "t0", "t1", "t3", "t4", "t5", "t6", "s0", "s1", "s2", "s3", "s4", "s5",
                     "s6", "s7", "s8", "s9", "s10", "s11");
#undef TW_ROW
#undef TW_STEP
#undef TW_NEXT
#else
    for (int i = 0; i < TW_TILES_PIXELS; ++i) tw_tiles_pixel(acc + TW_TILES_CHANNELS * i, x[i], w, n, start);
#endif
}

/* One channel of count pixels, 4 or 1: from its sums, CHANNELS apart, to y and those pitch apart. */
TW_INLINE void tw_tiles_ends(int8_t *y, int32_t pitch, int32_t count, const int32_t *sum, const tw_tiles_channel *channel,
                             const tw_tiles_end *end) {
    y[0] = tw_tiles_output(sum[0], channel, end);
    if (count == 1) return;
    y[pitch] = tw_tiles_output(sum[TW_TILES_CHANNELS], channel, end);
    y[2 * pitch] = tw_tiles_output(sum[2 * TW_TILES_CHANNELS], channel, end);
    y[3 * pitch] = tw_tiles_output(sum[3 * TW_TILES_CHANNELS], channel, end);
}

/* All channels of count pixels, 4 or 1: y[i * pitch + c] = x[i] . w[c], rows of n. One function for all layers: knowing
 * their sizes would save little. */
static TW_NOINLINE void __attribute__((unused))
tw_tiles_outputs(int8_t *y, int32_t pitch, const int8_t *const *x, int32_t count, const int8_t *w, int32_t n, int32_t out,
                 const tw_tiles_channels *channels) {
    const tw_tiles_channels all = *channels;
    for (int32_t c = 0; c < out; w += TW_TILES_CHANNELS * n) {
        int32_t acc[TW_TILES_PIXELS * TW_TILES_CHANNELS];
        if (count == 1)
            tw_tiles_pixel(acc, x[0], w, n, all.bias + c);
        else
            tw_tiles_sums(acc, x, w, n, all.bias + c);
        const int32_t end = tw_min(out, c + TW_TILES_CHANNELS);
        TW_ROLLED
        for (const int32_t *sum = acc; c < end; ++c, ++sum) {
            const tw_tiles_channel channel = tw_tiles_channel_of(c, &all);
            if (all.end.dips) {
                tw_tiles_ends(y + c, pitch, count, sum, &channel, &all.end);
            } else {
                const tw_tiles_end plain = {all.end.up, all.end.right, 0, all.end.low, all.end.high};
                tw_tiles_ends(y + c, pitch, count, sum, &channel, &plain);
            }
        }
    }
}

#endif
