/* SPDX-License-Identifier: Apache-2.0 */
/* Int8 matrix products on the DSP extension: what CONV_2D and FULLY_CONNECTED share.
 *
 * One SMLAD serves two channels: a half holds the weights of both as 256 * b + a. The products with these halves sum up
 * to 256 * B + A. SXTB16 extracts a from the same halves; the products with a sum up to A. So B is
 * (256 * B + A - A) / 256, exact in 32 bits as long as |B| < 2^23. That takes four instructions for four
 * multiply-accumulates, loads of weights included; unpacking each channel by itself takes five.
 *
 * Packed weights: words [out / 2][k4 / 2], k4: k rounded up to 4. Per four k come the pair (0, 2), then (1, 3): the
 * order in which SXTB16 unpacks x. Padding has weights of zero, so x may hold anything there.
 *
 * A half cannot hold b = -128 beside a negative a. Where weights are stored as bytes, a half is a, then b, and SXTB16
 * extracts both: five instructions for four multiply-accumulates. */
#ifndef TW_DSP_TILE_H
#define TW_DSP_TILE_H

#include "dsp.h"
#include "../../core/epilogue.h"

/* Pixels of a panel: words [k4 / 2][3], two int16 each, in the order of the packed weights. */
#define TW_DSP_PIXELS 3

/* Words per two channels: both biases, doubled; both multipliers; both right shifts, 1..22, in the low bytes of one
 * word. */
#define TW_DSP_ENDS 5

/* A packed matrix, and how its sums become outputs. ends: int32 [out / 2][TW_DSP_ENDS]. words: k4 / 2. pitch: from the
 * outputs of one pixel to those of the next. */
typedef struct {
    const uint32_t *weights;
    const int32_t *ends;
    int32_t words, out, pitch, zero;
} tw_dsp_matrix;

/* Gives a value a register of its own in the assembly that follows. Compilers put equal values into one register (x may
 * follow the weights), but the loops change only one of them. */
#define TW_DSP_APART(value) __asm("" : "+r"(value))

/* both[r]: 256 * B + A over pixel r, first[r]: A; words: number of words of weights, even. Returns what follows them.
 * In assembly: compilers run out of registers and take 24 instructions per two words, these take 19. */
TW_INLINE const uint32_t *tw_dsp_sums3(const uint32_t *x, const uint32_t *w, int32_t words, int32_t *both,
                                       int32_t *first) {
    const uint32_t *end = w + words;
    int32_t t0 = 0, t1 = 0, t2 = 0, u0 = 0, u1 = 0, u2 = 0;
#if defined(TW_DSP_LOOPS)
#define TW_DSP_WORD                                                                                                    \
    "ldr %[v], [%[w]], #4\n ldmia %[x]!, {r4, r5, r6}\n"                                                               \
    "smlad %[t0], %[v], r4, %[t0]\n smlad %[t1], %[v], r5, %[t1]\n smlad %[t2], %[v], r6, %[t2]\n"                     \
    "sxtb16 %[v], %[v]\n"                                                                                              \
    "smlad %[u0], %[v], r4, %[u0]\n smlad %[u1], %[v], r5, %[u1]\n smlad %[u2], %[v], r6, %[u2]\n"
    int32_t v = words & 2; /* then the loop of four words begins at its half */
    TW_DSP_APART(end);
    __asm volatile("cmp %[v], #0\n bne 2f\n"
                   "1:\n" TW_DSP_WORD TW_DSP_WORD "2:\n" TW_DSP_WORD TW_DSP_WORD "cmp %[w], %[end]\n bne 1b\n"
                   : [t0] "+r"(t0), [t1] "+r"(t1), [t2] "+r"(t2), [u0] "+r"(u0), [u1] "+r"(u1), [u2] "+r"(u2),
                     [x] "+r"(x), [w] "+r"(w), [v] "+r"(v)
                   : [end] "r"(end)
                   : "r4", "r5", "r6", "cc", "memory");
#undef TW_DSP_WORD
#else
    for (; w != end; ++w, x += TW_DSP_PIXELS) {
        const uint32_t even = tw_even(*w);
        t0 = tw_dual(*w, x[0], t0), t1 = tw_dual(*w, x[1], t1), t2 = tw_dual(*w, x[2], t2);
        u0 = tw_dual(even, x[0], u0), u1 = tw_dual(even, x[1], u1), u2 = tw_dual(even, x[2], u2);
    }
#endif
    both[0] = t0, both[1] = t1, both[2] = t2;
    first[0] = u0, first[1] = u1, first[2] = u2;
    return w;
}

/* Twice the sum of channel b. */
TW_INLINE int32_t tw_dsp_second(int32_t both, int32_t first) {
    return (int32_t)((uint32_t)both - (uint32_t)first) >> 7;
}

/* What the outputs of a channel have in common. */
typedef struct {
    int32_t mult, rounding, shift;
} tw_dsp_channel;

/* Channel j, 0 or 1, of a pair. */
TW_INLINE tw_dsp_channel tw_dsp_end(const int32_t *ends, int j, const tw_dsp_matrix *m) {
    const int32_t shift = ((const int8_t *)(ends + 4))[j];
    const tw_dsp_channel channel = {ends[2 + j], tw_rounding(m->zero, shift), shift};
    return channel;
}

TW_INLINE int8_t tw_dsp_output(int32_t twice, const tw_dsp_channel *c) {
    return (int8_t)tw_clamp8(tw_scaled(twice, c->mult, c->rounding, c->shift));
}

/* The same, clamped to the activation's range if that is not all of int8: rare, so it is a loop of its own. */
TW_INLINE void tw_dsp_activation(int8_t *y, int32_t count, int32_t low, int32_t high) {
    if (low == -128 && high == 127) return;
    for (int32_t i = 0; i < count; ++i) y[i] = (int8_t)tw_clamp(y[i], low, high);
}

/* Two channels of rows (1..3) outputs, the first channel's at y. second is 1, or 0 if there is only one channel: the
 * first is written last and overwrites it. Returns the next pair's weights. */
TW_INLINE const uint32_t *tw_dsp_pair3(const uint32_t *x, const uint32_t *w, const int32_t *ends, int8_t *y,
                                       int32_t second, int32_t rows, const tw_dsp_matrix *m) {
    int32_t both[TW_DSP_PIXELS], first[TW_DSP_PIXELS];
    w = tw_dsp_sums3(x, w, m->words, both, first);
    const tw_dsp_channel end_a = tw_dsp_end(ends, 0, m), end_b = tw_dsp_end(ends, 1, m);
#pragma GCC unroll 3
    for (int r = 0; r < TW_DSP_PIXELS; ++r, y += m->pitch) {
        if (r >= rows) break;
        y[second] = tw_dsp_output(tw_add(ends[1], tw_dsp_second(both[r], first[r])), &end_b);
        y[0] = tw_dsp_output(tw_add(ends[0], tw_shift_left(first[r], 1)), &end_a);
    }
    return w;
}

/* y [rows, out], rows 1..3, from a panel. */
TW_INLINE void tw_dsp_panel(const uint32_t *panel, int8_t *y, int32_t rows, const tw_dsp_matrix *m) {
    const uint32_t *w = m->weights;
    const int32_t *ends = m->ends;
    for (int32_t left = m->out; left > 0; left -= 2, ends += TW_DSP_ENDS, y += 2)
        w = tw_dsp_pair3(panel, w, ends, y, m->out % 2 == 0 || left > 1, rows, m);
}

/* Moves a matrix on to the next one of as many channels behind it. */
TW_INLINE void tw_dsp_next(tw_dsp_matrix *m) {
    m->weights += (m->out + 1) / 2 * m->words;
    m->ends += (m->out + 1) / 2 * TW_DSP_ENDS;
}

/* Copies count int8, a multiple of 4, into one pixel of a panel; returns where the next ones go. */
static TW_NOINLINE uint32_t *tw_dsp_widen(uint32_t *TW_RESTRICT to, const int8_t *TW_RESTRICT from, int32_t count) {
#pragma GCC unroll 2
    for (const int8_t *const end = from + count; from != end; from += 4, to += 2 * TW_DSP_PIXELS) {
        const uint32_t four = tw_word(from);
        to[0] = tw_even(four);
        to[TW_DSP_PIXELS] = tw_odd(four);
    }
    return to;
}

/* Copies count int8 of each of three pixels that lie count apart, a multiple of 4, into a panel. */
static TW_NOINLINE void tw_dsp_widen3(uint32_t *TW_RESTRICT to, const int8_t *TW_RESTRICT from, int32_t count) {
    const int8_t *const end = from + count;
#if defined(TW_DSP_LOOPS)
    __asm volatile("1:\n ldr r9, [%[from], %[count], lsl #1]\n ldr r8, [%[from], %[count]]\n ldr r6, [%[from]], #4\n"
                   "sxtb16 r3, r6\n sxtb16 r4, r8\n sxtb16 r5, r9\n"
                   "sxtb16 r6, r6, ror #8\n sxtb16 r8, r8, ror #8\n sxtb16 r9, r9, ror #8\n"
                   "stmia %[to]!, {r3, r4, r5, r6, r8, r9}\n cmp %[from], %[end]\n bne 1b\n"
                   : [to] "+r"(to), [from] "+r"(from)
                   : [count] "r"(count), [end] "r"(end)
                   : "r3", "r4", "r5", "r6", "r8", "r9", "cc", "memory");
#else
    for (; from != end; from += 4, to += 2 * TW_DSP_PIXELS)
        for (int r = 0; r < TW_DSP_PIXELS; ++r) {
            const uint32_t four = tw_word(from + r * count);
            to[r] = tw_even(four);
            to[TW_DSP_PIXELS + r] = tw_odd(four);
        }
#endif
}

/* The sums of one pair of channels, whose weights are stored as bytes, over one row: 256 * B + A; first: A. The two words of
 * another pair lie between its own. A function that takes few registers, and so little stack. */
static TW_NOINLINE int32_t tw_dsp_sums1_bytes(const int8_t *x, const uint32_t *w, const uint32_t *end, int32_t *first) {
    int32_t a = 0, b = 0;
    for (; w < end; w += 4, x += 4) {
        const uint32_t even = tw_even(tw_word(x)), odd = tw_odd(tw_word(x));
        a = tw_dual(tw_even(w[1]), odd, tw_dual(tw_even(w[0]), even, a));
        b = tw_dual(tw_odd(w[1]), odd, tw_dual(tw_odd(w[0]), even, b));
    }
    *first = a;
    return tw_add(tw_shift_left(b, 8), a);
}

/* The sums of two pairs over one row: of each pair 256 * B + A and A. words: number of words of a pair, even; the
 * pairs' words alternate two by two. bytes: whether weights are stored so. Returns the weights that follow. */
TW_INLINE const uint32_t *tw_dsp_sums1(const int8_t *x, const uint32_t *w, int32_t words, int32_t bytes, int32_t *both,
                                       int32_t *first) {
    const uint32_t *end = w + 2 * words;
    if (bytes) {
        both[0] = tw_dsp_sums1_bytes(x, w, end, first);
        both[1] = tw_dsp_sums1_bytes(x, w + 2, end, first + 1);
        return end;
    }
    int32_t t0 = 0, t1 = 0, u0 = 0, u1 = 0;
#if defined(TW_DSP_LOOPS)
#define TW_DSP_FOUR                                                                                                    \
    "ldr %[e], [%[x]], #4\n ldmia %[w]!, {r4, r5, r6, r8}\n sxtb16 %[o], %[e], ror #8\n sxtb16 %[e], %[e]\n"           \
    "smlad %[t0], r4, %[e], %[t0]\n smlad %[t0], r5, %[o], %[t0]\n"                                                    \
    "smlad %[t1], r6, %[e], %[t1]\n smlad %[t1], r8, %[o], %[t1]\n"                                                    \
    "sxtb16 r4, r4\n sxtb16 r5, r5\n sxtb16 r6, r6\n sxtb16 r8, r8\n"                                                  \
    "smlad %[u0], r4, %[e], %[u0]\n smlad %[u0], r5, %[o], %[u0]\n"                                                    \
    "smlad %[u1], r6, %[e], %[u1]\n smlad %[u1], r8, %[o], %[u1]\n"
    uint32_t even = (uint32_t)words & 2U, odd; /* then the loop of four words begins at its half */
    TW_DSP_APART(end);
    __asm volatile("cmp %[e], #0\n bne 2f\n 1:\n" TW_DSP_FOUR "2:\n" TW_DSP_FOUR "cmp %[w], %[end]\n bne 1b\n"
                   : [t0] "+r"(t0), [t1] "+r"(t1), [u0] "+r"(u0), [u1] "+r"(u1), [x] "+r"(x), [w] "+r"(w),
                     [e] "+r"(even), [o] "=&r"(odd)
                   : [end] "r"(end)
                   : "r4", "r5", "r6", "r8", "cc", "memory");
#undef TW_DSP_FOUR
#else
    for (; w != end; w += 4, x += 4) {
        const uint32_t even = tw_even(tw_word(x)), odd = tw_odd(tw_word(x));
        t0 = tw_dual(w[1], odd, tw_dual(w[0], even, t0)), t1 = tw_dual(w[3], odd, tw_dual(w[2], even, t1));
        u0 = tw_dual(tw_even(w[1]), odd, tw_dual(tw_even(w[0]), even, u0));
        u1 = tw_dual(tw_even(w[3]), odd, tw_dual(tw_even(w[2]), even, u1));
    }
#endif
    both[0] = t0, both[1] = t1;
    first[0] = u0, first[1] = u1;
    return w;
}

/* The doubled sums of two pairs of channels, one after the other, over a row of n values, rounded up to 4; starts: what
 * they begin with. Returns the weights that follow. */
TW_INLINE const uint32_t *tw_dsp_four(const int8_t *x, const uint32_t *w, int32_t n, int32_t bytes,
                                      const int32_t *starts, int32_t *twice) {
    int32_t both[2], first[2];
    w = tw_dsp_sums1(x, w, (n + 3) / 4 * 2, bytes, both, first);
    for (int j = 0; j < 2; ++j) {
        twice[2 * j] = tw_add(starts[2 * j], tw_shift_left(first[j], 1));
        twice[2 * j + 1] = tw_add(starts[2 * j + 1], tw_dsp_second(both[j], first[j]));
    }
    return w;
}

#endif
