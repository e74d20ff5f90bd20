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
tw_tiles_pixel(int32_t *acc, const int8_t *x, const int8_t *w, int32_t n, const int32_t *start) {
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

/* Taps of a window as they lie in memory: rows of so many bytes, with gaps between them. */
typedef struct {
    int32_t rows, bytes, gap;
} tw_tiles_taps;

/* The same over all taps of a window; returns the next weights. */
TW_INLINE const int8_t *tw_tiles_window(int32_t *acc, const int8_t *x, const int8_t *w, const tw_tiles_taps *taps,
                                        const int32_t *start) {
    TW_ROLLED
    for (int32_t row = 0; row < taps->rows; ++row, x += taps->bytes + taps->gap, w += TW_TILES_CHANNELS * taps->bytes)
        tw_tiles_pixel(acc, x, w, taps->bytes, row == 0 ? start : acc);
    return w;
}

/* What the loop in assembly reads: the first taps of four pixels, where the last taps of the first end, bytes of a row
 * of taps that go one at a time and eight at a time, and the gap; where the sums of four channels go; or, if to is NULL,
 * where the outputs go, how they are made, and for how many blocks of channels. All members are as large as a pointer. */
typedef struct {
    const int8_t *x[TW_TILES_PIXELS], *last;
    intptr_t rest, eights, gap;
    const int32_t *start;
    int32_t *to;
    int8_t *y;
    const int32_t *mult, *rounding;
    intptr_t own, pitch, up, right, low, high, blocks;
} tw_tiles_job;

/* Blocks of four channels of four pixels: outputs of all blocks, or job->to[4 i + j] = start[j] + x[i] . w[j] of one;
 * returns the next weights. In assembly: gcc takes 55 instructions for what is 46 here, and keeps sums in memory where
 * it unrolls. A pixel's value is loaded while the one before is summed. */
TW_INLINE const int8_t *tw_tiles_blocks(tw_tiles_job *job, const int8_t *w, const tw_tiles_taps *taps) {
#if defined(TW_TILES_LOOPS)
    register const int8_t *next __asm("a4") = w;
    tw_tiles_job *const at = job;
    (void)taps;
    /* clang-format off */
#if __riscv_xlen == 32
#define TW_TILES_GET(to, member) "lw " to ", 4*" member "(a5)\n"
#define TW_TILES_PUT(from, member) "sw " from ", 4*" member "(a5)\n"
#define TW_TILES_JOB "lw a5, %[at]\n"
#define TW_TILES_UPPER(s) "mulh " s ", " s ", a5\n"
#else
#define TW_TILES_GET(to, member) "ld " to ", 8*" member "(a5)\n"
#define TW_TILES_PUT(from, member) "sd " from ", 8*" member "(a5)\n"
#define TW_TILES_JOB "ld a5, %[at]\n"
#define TW_TILES_UPPER(s) "mul " s ", " s ", a5\n srai " s ", " s ", 32\n"
#endif
#define TW_TILES_ROW(then, s0, s1, s2, s3)                                                                             \
    "mul ra, t2, a6\n add " s0 ", " s0 ", ra\n mul ra, t2, a7\n add " s1 ", " s1 ", ra\n"                              \
    "mul ra, t2, t0\n add " s2 ", " s2 ", ra\n mul ra, t2, t1\n" then "add " s3 ", " s3 ", ra\n"
#define TW_TILES_STEP(k, w0, w1, w2, w3)                                                                               \
    "lb t2, " k "(a0)\n lb a6, " w0 "(a4)\n lb a7, " w1 "(a4)\n lb t0, " w2 "(a4)\n lb t1, " w3 "(a4)\n"               \
    TW_TILES_ROW("lb t2, " k "(a1)\n", "s0", "s1", "s2", "s3")                                                         \
    TW_TILES_ROW("lb t2, " k "(a2)\n", "s4", "s5", "s6", "s7")                                                         \
    TW_TILES_ROW("lb t2, " k "(a3)\n", "s8", "s9", "s10", "s11") TW_TILES_ROW("", "t3", "t4", "t5", "t6")
#define TW_TILES_NEXT(count, weights)                                                                                  \
    "addi a0, a0, " count "\n addi a1, a1, " count "\n addi a2, a2, " count "\n addi a3, a3, " count "\n"              \
    "addi a4, a4, " weights "\n"
#define TW_TILES_END(s, j)                                                                                             \
    "sll " s ", " s ", a2\n" TW_TILES_UPPER(s) "add " s ", " s ", a6\n sra " s ", " s ", a3\n"                         \
    "bge " s ", ra, 6f\n mv " s ", ra\n6: bge t2, " s ", 6f\n mv " s ", t2\n6: sb " s ", " j "(a7)\n"
#define TW_TILES_FOUR(j, then, s0, s1, s2, s3)                                                                         \
    "lw a5, 0(a0)\n lw a6, 0(a1)\n add a0, a0, t1\n add a1, a1, t1\n"                                                  \
    TW_TILES_END(s0, j) then TW_TILES_END(s1, j) then TW_TILES_END(s2, j) then TW_TILES_END(s3, j)
#define TW_TILES_DOWN "add a7, a7, t0\n"
#define TW_TILES_UP "sub a7, a7, t0\n"
#if TW_TILES_ENDS
#define TW_TILES_EIGHT                                                                                                 \
    TW_TILES_GET("ra", "6") "add a5, a0, ra\n beq a0, a5, 2f\n1:\n"                                                                                             \
    TW_TILES_STEP("0", "0", "1", "2", "3") TW_TILES_STEP("1", "4", "5", "6", "7")                                      \
    TW_TILES_STEP("2", "8", "9", "10", "11") TW_TILES_STEP("3", "12", "13", "14", "15")                                \
    TW_TILES_STEP("4", "16", "17", "18", "19") TW_TILES_STEP("5", "20", "21", "22", "23")                              \
    TW_TILES_STEP("6", "24", "25", "26", "27") TW_TILES_STEP("7", "28", "29", "30", "31")                              \
    TW_TILES_NEXT("8", "32") "bne a0, a5, 1b\n2:\n"
#define TW_TILES_OUTPUTS                                                                                               \
    "bnez a6, 5f\n"                                                                                                    \
    TW_TILES_GET("a7", "10") TW_TILES_GET("a0", "11") TW_TILES_GET("a1", "12") TW_TILES_GET("t1", "13")                \
    TW_TILES_GET("t0", "14") TW_TILES_GET("a2", "15") TW_TILES_GET("a3", "16") TW_TILES_GET("ra", "17")                \
    TW_TILES_GET("t2", "18")                                                                                           \
    TW_TILES_FOUR("0", TW_TILES_DOWN, "s0", "s4", "s8", "t3")                                                          \
    TW_TILES_FOUR("1", TW_TILES_UP, "t4", "s9", "s5", "s1")                                                            \
    TW_TILES_FOUR("2", TW_TILES_DOWN, "s2", "s6", "s10", "t5")                                                         \
    TW_TILES_FOUR("3", TW_TILES_UP, "t6", "s11", "s7", "s3")                                                           \
    TW_TILES_JOB "addi a7, a7, 4\n" TW_TILES_PUT("a7", "10") TW_TILES_PUT("a0", "11") TW_TILES_PUT("a1", "12")         \
    TW_TILES_GET("t2", "8") TW_TILES_GET("t0", "19") "addi t2, t2, 16\n addi t0, t0, -1\n"                             \
    TW_TILES_PUT("t2", "8") TW_TILES_PUT("t0", "19") "bnez t0, 0b\n j 7f\n5:\n"
#define TW_TILES_REST TW_TILES_JOB TW_TILES_GET("ra", "5") "add a5, a0, ra\n"
#else
#define TW_TILES_EIGHT
#define TW_TILES_OUTPUTS
#define TW_TILES_REST TW_TILES_GET("ra", "5") "add a5, a0, ra\n"
#endif
    __asm volatile(
        TW_TILES_JOB
        "0:\n" TW_TILES_GET("t2", "8") TW_TILES_GET("a0", "0") TW_TILES_GET("a1", "1") TW_TILES_GET("a2", "2")
        TW_TILES_GET("a3", "3") "lw s0, 0(t2)\n lw s1, 4(t2)\n lw s2, 8(t2)\n lw s3, 12(t2)\n"
        "mv s4, s0\n mv s5, s1\n mv s6, s2\n mv s7, s3\n mv s8, s0\n mv s9, s1\n mv s10, s2\n mv s11, s3\n"
        "mv t3, s0\n mv t4, s1\n mv t5, s2\n mv t6, s3\n j 8f\n"
        "9:\n" TW_TILES_GET("ra", "7") "add a0, a0, ra\n add a1, a1, ra\n add a2, a2, ra\n add a3, a3, ra\n"
        "8:\n" TW_TILES_EIGHT
        TW_TILES_REST "beq a0, a5, 4f\n"
        "3:\n" TW_TILES_STEP("0", "0", "1", "2", "3") TW_TILES_NEXT("1", "4") "bne a0, a5, 3b\n"
        "4:\n" TW_TILES_JOB TW_TILES_GET("ra", "4") "bne a0, ra, 9b\n" TW_TILES_GET("a6", "9")
        TW_TILES_OUTPUTS
        "sw s0, 0(a6)\n sw s1, 4(a6)\n sw s2, 8(a6)\n sw s3, 12(a6)\n"
        "sw s4, 16(a6)\n sw s5, 20(a6)\n sw s6, 24(a6)\n sw s7, 28(a6)\n"
        "sw s8, 32(a6)\n sw s9, 36(a6)\n sw s10, 40(a6)\n sw s11, 44(a6)\n"
        "sw t3, 48(a6)\n sw t4, 52(a6)\n sw t5, 56(a6)\n sw t6, 60(a6)\n7:\n"
        : "+r"(next)
        : [at] "m"(at)
        : "memory", "ra", "a0", "a1", "a2", "a3", "a5", "a6", "a7", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s0", "s1",
          "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11");
#undef TW_TILES_GET
#undef TW_TILES_PUT
#undef TW_TILES_JOB
#undef TW_TILES_REST
#undef TW_TILES_UPPER
#undef TW_TILES_ROW
#undef TW_TILES_STEP
#undef TW_TILES_NEXT
#undef TW_TILES_END
#undef TW_TILES_FOUR
#undef TW_TILES_DOWN
#undef TW_TILES_UP
#undef TW_TILES_EIGHT
#undef TW_TILES_OUTPUTS
    /* clang-format on */
    return next;
#else
    const int8_t *next = w;
    for (int i = 0; i < TW_TILES_PIXELS; ++i)
        next = tw_tiles_window(job->to + TW_TILES_CHANNELS * i, job->x[i], w, taps, job->start);
    return next;
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

/* All channels of count pixels, 4 or 1: y[i * pitch + c] = x[i] . w[c]. One function for all layers: knowing their
 * sizes would save little. */
static TW_NOINLINE void __attribute__((unused))
tw_tiles_outputs(int8_t *y, int32_t pitch, const int8_t *const *x, int32_t count, const int8_t *w,
                 const tw_tiles_taps *taps, int32_t out, const tw_tiles_channels *channels) {
    const tw_tiles_end *end = &channels->end;
    const int32_t some = count > 1 ? count - 1 : 0, size = (int32_t)sizeof(int32_t);
    const int32_t eights = TW_TILES_ENDS ? taps->bytes & ~7 : 0;
    int32_t acc[TW_TILES_PIXELS * TW_TILES_CHANNELS], c = 0;
    tw_tiles_job job = {{x[0], x[some / 3], x[some / 3 * 2], x[some]},
                        x[0] + taps->rows * (taps->bytes + taps->gap) - taps->gap,
                        taps->bytes - eights,
                        eights,
                        taps->gap,
                        channels->bias,
                        NULL,
                        y,
                        channels->mult,
                        channels->rounding,
                        channels->own * size,
                        pitch,
                        end->up,
                        end->right,
                        end->low,
                        end->high,
                        out / TW_TILES_CHANNELS};
    for (int32_t left; c < out; c += left) {
        const int32_t all = TW_TILES_ENDS && count > 1 && !end->dips && out - c >= TW_TILES_CHANNELS;
        left = all ? out & -TW_TILES_CHANNELS : tw_min(out - c, TW_TILES_CHANNELS);
        if (count == 1) {
            w = tw_tiles_window(acc, x[0], w, taps, channels->bias + c);
        } else {
            job.to = all ? NULL : acc;
            job.start = channels->bias + c;
            w = tw_tiles_blocks(&job, w, taps);
            if (all) continue;
        }
        if (!TW_TILES_ENDS || end->dips)
            tw_tiles_ends(y + c, pitch, count, acc, left, c, channels, end->dips);
        else
            tw_tiles_ends(y + c, pitch, count, acc, left, c, channels, 0);
    }
}

#endif
