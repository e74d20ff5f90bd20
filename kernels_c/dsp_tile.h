/* Int8 matrix products on the DSP extension: what CONV_2D and FULLY_CONNECTED share.
 *
 * One SMLAD for two channels: a half holds both channels' weights as 256 * b + a. Its products sum up to 256 * B + A;
 * SXTB16 takes the same halves to a, whose products sum up to A; so B is (256 * B + A - A) / 256, exact in 32 bits as
 * long as |B| < 2^23. That is four instructions for four multiply-accumulates, loads of the weights included, where
 * unpacking each channel by itself takes five.
 *
 * Packed weights: words [out / 2][k4 / 2], k4: k rounded up to 4, of every four k the pair (0, 2), then (1, 3): the
 * order in which SXTB16 unpacks x. Zeros in the padding, so x may hold anything there. */
#ifndef TW_DSP_TILE_H
#define TW_DSP_TILE_H

#include "dsp.h"

/* Pixels of a panel: words [k4 / 2][3], two int16 each, in the order of the packed weights. */
#define TW_DSP_PIXELS 3

/* How sums become outputs. ends: int32 [out / 2][4], of every two channels both biases, doubled, and both multipliers.
 * shift: right shifts, 1..22, int8 [out rounded up to 2]. chunk: words after which the sums of b are taken over, even. */
typedef struct {
    const uint32_t *weights;
    const int32_t *ends;
    const int8_t *shift;
    int32_t words, chunk, out, zero, low, high;
} tw_dsp_matrix;

/* The next three words of x; returns what follows them. */
TW_INLINE const uint32_t *tw_dsp_load3(const uint32_t *x, uint32_t *a, uint32_t *b, uint32_t *c) {
#if defined(TW_DSP)
    register uint32_t r0 __asm("r4"), r1 __asm("r5"), r2 __asm("r6");
    __asm("ldmia %0!, {%1, %2, %3}" : "+r"(x), "=r"(r0), "=r"(r1), "=r"(r2) : "m"(*(const uint32_t(*)[3])x));
    *a = r0, *b = r1, *c = r2;
    return x;
#else
    *a = x[0], *b = x[1], *c = x[2];
    return x + 3;
#endif
}

/* both[r]: 256 * B + A over pixel r, first[r]: A; words of weights, an even number. */
TW_INLINE void tw_dsp_sums3(const uint32_t *x, const uint32_t *w, int32_t words, int32_t *both, int32_t *first) {
    const uint32_t *const end = w + words;
    int32_t t0 = 0, t1 = 0, t2 = 0, u0 = 0, u1 = 0, u2 = 0;
    do {
#pragma GCC unroll 2
        for (int i = 0; i < 2; ++i) {
            uint32_t a, b, c, pair = *w++;
            x = tw_dsp_load3(x, &a, &b, &c);
            t0 = tw_dual(pair, a, t0);
            t1 = tw_dual(pair, b, t1);
            t2 = tw_dual(pair, c, t2);
            pair = tw_even(pair);
            u0 = tw_dual(pair, a, u0);
            u1 = tw_dual(pair, b, u1);
            u2 = tw_dual(pair, c, u2);
        }
    } while (w != end);
    both[0] = t0, both[1] = t1, both[2] = t2;
    first[0] = u0, first[1] = u1, first[2] = u2;
}

/* Twice the sum of channel b. */
TW_INLINE int32_t tw_dsp_second(int32_t both, int32_t first) {
    return (int32_t)((uint32_t)both - (uint32_t)first) >> 7;
}

TW_INLINE int8_t tw_dsp_output(int32_t twice, int32_t mult, int32_t rounding, int32_t shift, const tw_dsp_matrix *m) {
    const int32_t q = tw_clamp8(tw_scaled(twice, mult, rounding, shift));
    return (int8_t)(m->low > -128 || m->high < 127 ? tw_clamp(q, m->low, m->high) : q);
}

/* Channels c and c + 1 (the latter if there is one) of rows (1..3) outputs; y at the first one's channel 0. */
TW_INLINE void tw_dsp_pair3(const uint32_t *x, int8_t *y, int32_t c, int32_t rows, const tw_dsp_matrix *m) {
    const int32_t *ends = m->ends + 2 * c;
    int32_t a[TW_DSP_PIXELS], b[TW_DSP_PIXELS];
    for (int r = 0; r < TW_DSP_PIXELS; ++r) a[r] = ends[0], b[r] = ends[1];
    const uint32_t *w = m->weights + c / 2 * m->words;
    for (int32_t left = m->words; left > 0; left -= m->chunk) {
        const int32_t words = tw_min(left, m->chunk);
        int32_t both[TW_DSP_PIXELS], first[TW_DSP_PIXELS];
        tw_dsp_sums3(x, w, words, both, first);
        for (int r = 0; r < TW_DSP_PIXELS; ++r) {
            a[r] = tw_add(a[r], tw_shift_left(first[r], 1));
            b[r] = tw_add(b[r], tw_dsp_second(both[r], first[r]));
        }
        w += words;
        x += TW_DSP_PIXELS * words;
    }
    const int32_t shift_a = m->shift[c], shift_b = m->shift[c + 1], mult_a = ends[2], mult_b = ends[3];
    const int32_t round_a = tw_rounding(m->zero, shift_a), round_b = tw_rounding(m->zero, shift_b);
    const int32_t odd = c + 1 == m->out;
#pragma GCC unroll 3
    for (int r = 0; r < TW_DSP_PIXELS; ++r, y += m->out) {
        if (r >= rows) break;
        y[c] = tw_dsp_output(a[r], mult_a, round_a, shift_a, m);
        if (!odd) y[c + 1] = tw_dsp_output(b[r], mult_b, round_b, shift_b, m);
    }
}

/* y [rows, out], rows 1..3, from a panel. */
TW_INLINE void tw_dsp_panel(const uint32_t *panel, int8_t *y, int32_t rows, const tw_dsp_matrix *m) {
    for (int32_t c = 0; c < m->out; c += 2) tw_dsp_pair3(panel, y, c, rows, m);
}

/* count int8, a multiple of 4, into one pixel of a panel; returns where the next ones go. */
TW_INLINE uint32_t *tw_dsp_widen(uint32_t *TW_RESTRICT to, const int8_t *TW_RESTRICT from, int32_t count) {
#pragma GCC unroll 4
    for (const int8_t *const end = from + count; from != end; from += 4, to += 2 * TW_DSP_PIXELS) {
        const uint32_t four = tw_word(from);
        to[0] = tw_even(four);
        to[TW_DSP_PIXELS] = tw_odd(four);
    }
    return to;
}

/* 2 * pairs channels of one output from c on, x [2 * words] int8; pairs is a constant at every call. */
TW_INLINE void tw_dsp_pairs1(const int8_t *x, int8_t *y, int32_t c, int pairs, const tw_dsp_matrix *m) {
    const int32_t *ends = m->ends + 2 * c;
    const uint32_t *w = m->weights + c / 2 * m->words;
    int32_t a[2], b[2];
    for (int j = 0; j < pairs; ++j) a[j] = ends[4 * j], b[j] = ends[4 * j + 1];
    for (int32_t left = m->words; left > 0; left -= m->chunk) {
        const uint32_t *const end = w + tw_min(left, m->chunk);
        int32_t both[2] = {0, 0}, first[2] = {0, 0};
        do {
            const uint32_t four = tw_word(x), even = tw_even(four), odd = tw_odd(four);
            for (int j = 0; j < pairs; ++j) {
                const uint32_t v = w[j * m->words], u = w[j * m->words + 1];
                both[j] = tw_dual(u, odd, tw_dual(v, even, both[j]));
                first[j] = tw_dual(tw_even(u), odd, tw_dual(tw_even(v), even, first[j]));
            }
            x += 4;
            w += 2;
        } while (w != end);
        for (int j = 0; j < pairs; ++j) {
            a[j] = tw_add(a[j], tw_shift_left(first[j], 1));
            b[j] = tw_add(b[j], tw_dsp_second(both[j], first[j]));
        }
    }
    for (int j = 0; j < pairs; ++j, c += 2) {
        const int32_t shift_a = m->shift[c], shift_b = m->shift[c + 1];
        y[c] = tw_dsp_output(a[j], ends[4 * j + 2], tw_rounding(m->zero, shift_a), shift_a, m);
        if (c + 1 < m->out) y[c + 1] = tw_dsp_output(b[j], ends[4 * j + 3], tw_rounding(m->zero, shift_b), shift_b, m);
    }
}

/* y [out] from one row of x [2 * words]. */
TW_INLINE void tw_dsp_row(const int8_t *x, int8_t *y, const tw_dsp_matrix *m) {
    int32_t c = 0;
    for (; c + 3 <= m->out; c += 4) tw_dsp_pairs1(x, y, c, 2, m);
    if (c < m->out) tw_dsp_pairs1(x, y, c, 1, m);
}

#endif
