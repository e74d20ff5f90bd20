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

/* Whether its ends are assembly, too, and eight steps are unrolled: 1.8 KB for a tenth of the instructions. */
#if defined(TW_TILES_LOOPS) && !defined(__OPTIMIZE_SIZE__)
#define TW_TILES_ENDS 1
#else
#define TW_TILES_ENDS 0
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

/* What the loop in assembly reads when its sums are there: where x[0] ends, and where the sums go; or, if to is NULL,
 * where the outputs go and how they are made. All members are as large as a pointer. */
typedef struct {
    const int8_t *last;
    int32_t *to;
    int8_t *y;
    const int32_t *mult, *rounding;
    intptr_t own, pitch, up, right, low, high;
} tw_tiles_job;

/* job->to[4 i + j] = start[j] + x[i] . w[j], four channels of four pixels; returns the next weights. In assembly: gcc
 * takes 55 instructions for what is 46 here, and keeps sums in memory where it unrolls. A pixel's value is loaded
 * while the one before is summed. */
TW_INLINE const int8_t *tw_tiles_sums(tw_tiles_job *job, const int8_t *const *x, const int8_t *w, int32_t n,
                                      const int32_t *start) {
    job->last = x[0] + n;
#if defined(TW_TILES_LOOPS)
    register const int8_t *x0 __asm("a0") = x[0], *x1 __asm("a1") = x[1], *x2 __asm("a2") = x[2],
                              *x3 __asm("a3") = x[3], *next __asm("a4") = w, *end __asm("a5") = x[0] + (n & ~7);
    register const int32_t *first __asm("t2") = start;
    tw_tiles_job *const at = job;
    /* clang-format off */
#if __riscv_xlen == 32
#define TW_GET(to, member) "lw " to ", 4*" member "(a5)\n"
#define TW_POINTER "lw"
#define TW_UPPER(s) "mulh " s ", " s ", a5\n"
#else
#define TW_GET(to, member) "ld " to ", 8*" member "(a5)\n"
#define TW_POINTER "ld"
#define TW_UPPER(s) "mul " s ", " s ", a5\n srai " s ", " s ", 32\n"
#endif
#define TW_ROW(then, s0, s1, s2, s3)                                                                                   \
    "mul ra, t2, a6\n add " s0 ", " s0 ", ra\n mul ra, t2, a7\n add " s1 ", " s1 ", ra\n"                              \
    "mul ra, t2, t0\n add " s2 ", " s2 ", ra\n mul ra, t2, t1\n" then "add " s3 ", " s3 ", ra\n"
#define TW_STEP(k, w0, w1, w2, w3)                                                                                     \
    "lb t2, " k "(a0)\n lb a6, " w0 "(a4)\n lb a7, " w1 "(a4)\n lb t0, " w2 "(a4)\n lb t1, " w3 "(a4)\n"               \
    TW_ROW("lb t2, " k "(a1)\n", "s0", "s1", "s2", "s3") TW_ROW("lb t2, " k "(a2)\n", "s4", "s5", "s6", "s7")          \
    TW_ROW("lb t2, " k "(a3)\n", "s8", "s9", "s10", "s11") TW_ROW("", "t3", "t4", "t5", "t6")
#define TW_NEXT(count, weights)                                                                                        \
    "addi a0, a0, " count "\n addi a1, a1, " count "\n addi a2, a2, " count "\n addi a3, a3, " count "\n"              \
    "addi a4, a4, " weights "\n"
#define TW_END(s, j)                                                                                                   \
    "sll " s ", " s ", a2\n" TW_UPPER(s) "add " s ", " s ", a6\n sra " s ", " s ", a3\n"                               \
    "bge " s ", ra, 6f\n mv " s ", ra\n6: bge t2, " s ", 6f\n mv " s ", t2\n6: sb " s ", " j "(a7)\n"
#define TW_ENDS(j, then, s0, s1, s2, s3)                                                                               \
    "lw a5, 0(a0)\n lw a6, 0(a1)\n add a0, a0, t1\n add a1, a1, t1\n"                                                  \
    TW_END(s0, j) then TW_END(s1, j) then TW_END(s2, j) then TW_END(s3, j)
#define TW_DOWN "add a7, a7, t0\n"
#define TW_UP "sub a7, a7, t0\n"
#if TW_TILES_ENDS
#define TW_EIGHT                                                                                                       \
    "beq a0, a5, 2f\n1:\n"                                                                                             \
    TW_STEP("0", "0", "1", "2", "3") TW_STEP("1", "4", "5", "6", "7")                                                  \
    TW_STEP("2", "8", "9", "10", "11") TW_STEP("3", "12", "13", "14", "15")                                            \
    TW_STEP("4", "16", "17", "18", "19") TW_STEP("5", "20", "21", "22", "23")                                          \
    TW_STEP("6", "24", "25", "26", "27") TW_STEP("7", "28", "29", "30", "31")                                          \
    TW_NEXT("8", "32") "bne a0, a5, 1b\n2:\n"
#define TW_OUTPUTS                                                                                                     \
    "bnez a6, 5f\n"                                                                                                    \
    TW_GET("a7", "2") TW_GET("a0", "3") TW_GET("a1", "4") TW_GET("t1", "5") TW_GET("t0", "6") TW_GET("a2", "7")        \
    TW_GET("a3", "8") TW_GET("ra", "9") TW_GET("t2", "10") "slli t1, t1, 2\n"                                          \
    TW_ENDS("0", TW_DOWN, "s0", "s4", "s8", "t3") TW_ENDS("1", TW_UP, "t4", "s9", "s5", "s1")                          \
    TW_ENDS("2", TW_DOWN, "s2", "s6", "s10", "t5") TW_ENDS("3", TW_UP, "t6", "s11", "s7", "s3") "j 7f\n5:\n"
#else
#define TW_EIGHT
#define TW_OUTPUTS
#endif
    __asm volatile(
        "lw s0, 0(t2)\n lw s1, 4(t2)\n lw s2, 8(t2)\n lw s3, 12(t2)\n"
        "mv s4, s0\n mv s5, s1\n mv s6, s2\n mv s7, s3\n mv s8, s0\n mv s9, s1\n mv s10, s2\n mv s11, s3\n"
        "mv t3, s0\n mv t4, s1\n mv t5, s2\n mv t6, s3\n"
        TW_EIGHT
        TW_POINTER " a5, %[at]\n" TW_GET("a5", "0") "beq a0, a5, 4f\n"
        "3:\n" TW_STEP("0", "0", "1", "2", "3") TW_NEXT("1", "4") "bne a0, a5, 3b\n"
        "4:\n" TW_POINTER " a5, %[at]\n" TW_GET("a6", "1")
        TW_OUTPUTS
        "sw s0, 0(a6)\n sw s1, 4(a6)\n sw s2, 8(a6)\n sw s3, 12(a6)\n"
        "sw s4, 16(a6)\n sw s5, 20(a6)\n sw s6, 24(a6)\n sw s7, 28(a6)\n"
        "sw s8, 32(a6)\n sw s9, 36(a6)\n sw s10, 40(a6)\n sw s11, 44(a6)\n"
        "sw t3, 48(a6)\n sw t4, 52(a6)\n sw t5, 56(a6)\n sw t6, 60(a6)\n7:\n"
        : "+r"(x0), "+r"(x1), "+r"(x2), "+r"(x3), "+r"(next), "+r"(end), "+r"(first)
        : [at] "m"(at)
        : "memory", "ra", "a6", "a7", "t0", "t1", "t3", "t4", "t5", "t6", "s0", "s1", "s2", "s3", "s4", "s5", "s6",
          "s7", "s8", "s9", "s10", "s11");
#undef TW_GET
#undef TW_POINTER
#undef TW_UPPER
#undef TW_ROW
#undef TW_STEP
#undef TW_NEXT
#undef TW_END
#undef TW_ENDS
#undef TW_DOWN
#undef TW_UP
#undef TW_EIGHT
#undef TW_OUTPUTS
    /* clang-format on */
    return next;
#else
    for (int i = 0; i < TW_TILES_PIXELS; ++i) tw_tiles_pixel(job->to + TW_TILES_CHANNELS * i, x[i], w, n, start);
    return w + TW_TILES_CHANNELS * n;
#endif
}

/* Up to four channels of count pixels, 4 or 1, from their sums: those of a channel go to y and pitch apart. A constant
 * says whether there are dips. */
TW_INLINE void tw_tiles_ends(int8_t *y, int32_t pitch, int32_t count, const int32_t *sum, int32_t channels, int32_t c,
                             const tw_tiles_channels *of, int32_t dips) {
    const tw_tiles_end end = {of->end.up, of->end.right, dips, of->end.low, of->end.high};
    const int32_t *mult = of->mult + (of->own ? c : 0), *rounding = of->rounding + (of->own ? c : 0);
    const int32_t *dip = dips ? of->dip + (of->own ? c : 0) : mult;
    TW_ROLLED
    for (const int32_t *last = sum + channels; sum < last;
         ++sum, ++y, mult += of->own, rounding += of->own, dip += of->own) {
        const tw_tiles_channel channel = {*mult, *rounding, dips ? *dip : 0};
        int8_t *to = y;
        *to = tw_tiles_output(sum[0], &channel, &end);
        if (count == 1) continue;
        to += pitch, *to = tw_tiles_output(sum[TW_TILES_CHANNELS], &channel, &end);
        to += pitch, *to = tw_tiles_output(sum[2 * TW_TILES_CHANNELS], &channel, &end);
        to += pitch, *to = tw_tiles_output(sum[3 * TW_TILES_CHANNELS], &channel, &end);
    }
}

/* All channels of count pixels, 4 or 1: y[i * pitch + c] = x[i] . w[c], rows of n. One function for all layers: knowing
 * their sizes would save little. */
static TW_NOINLINE void __attribute__((unused))
tw_tiles_outputs(int8_t *y, int32_t pitch, const int8_t *const *x, int32_t count, const int8_t *w, int32_t n,
                 int32_t out, const tw_tiles_channels *channels) {
    const tw_tiles_end *end = &channels->end;
    tw_tiles_job job = {x[0], NULL, NULL, NULL, NULL, channels->own, pitch, end->up, end->right, end->low, end->high};
    for (int32_t c = 0; c < out; c += TW_TILES_CHANNELS) {
        int32_t acc[TW_TILES_PIXELS * TW_TILES_CHANNELS];
        const int32_t some = tw_min(out - c, TW_TILES_CHANNELS);
        if (count == 1) {
            tw_tiles_pixel(acc, x[0], w, n, channels->bias + c);
            w += TW_TILES_CHANNELS * n;
        } else {
            job.to = TW_TILES_ENDS && some == TW_TILES_CHANNELS && !end->dips ? NULL : acc;
            job.y = y + c;
            job.mult = channels->mult + (channels->own ? c : 0);
            job.rounding = channels->rounding + (channels->own ? c : 0);
            w = tw_tiles_sums(&job, x, w, n, channels->bias + c);
            if (job.to == NULL) continue;
        }
        if (!TW_TILES_ENDS || end->dips)
            tw_tiles_ends(y + c, pitch, count, acc, some, c, channels, end->dips);
        else
            tw_tiles_ends(y + c, pitch, count, acc, some, c, channels, 0);
    }
}

#endif
