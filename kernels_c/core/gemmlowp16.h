/* SPDX-License-Identifier: Apache-2.0 */
/* gemmlowp's logistic and tanh in fixed point of 16 bits, as LiteRT's integer LSTMs use them. Qm: m integer bits, 15 - m
 * fractional bits. Source: gemmlowp fixedpoint.h, whose constants of 32 bits are rounded to 16 here as it does. */
#ifndef TW_GEMMLOWP16_H
#define TW_GEMMLOWP16_H

#include "tw.h"

/* a * b / 2^15 rounded half up. */
TW_INLINE int32_t tw_mul_high16(int32_t a, int32_t b) { return (a * b + (1 << 14)) >> 15; }

/* x * 2^bits, saturated. */
TW_INLINE int32_t tw_raised16(int32_t x, int32_t bits) { return tw_clamp(x * (1 << bits), INT16_MIN, INT16_MAX); }

/* exp(a) in Q0 for a in Q0, -1/4 <= a < 0: a Taylor series around -1/8. */
TW_INLINE int32_t tw_exp_of_last_quarter16(int32_t a) {
    const int32_t x = a + (1 << 12), x2 = tw_mul_high16(x, x);
    const int32_t x3 = tw_mul_high16(x2, x), x4 = tw_mul_high16(x2, x2);
    const int32_t tail = tw_round_shift(tw_mul_high16(tw_round_shift(x4, 2) + x3, 10923) + x2, 1);
    return tw_min(28918 + tw_mul_high16(28918, x + tail), INT16_MAX);
}

/* exp(a) in Q0 for a <= 0 in Qbits, bits 1..7; 0 below -32. */
TW_INLINE int32_t tw_exp_of_negative16(int32_t a, int32_t bits) {
    static TW_SECTION_TABLES const int16_t factors[7] = {25520, 19875, 12055, 4435, 600, 11, 0}; /* exp(-2^i), i from -2 on */
    const int32_t fraction = 15 - bits, quarter = 1 << (fraction - 2);
    const int32_t last = (a & (quarter - 1)) - quarter;
    int32_t result = tw_exp_of_last_quarter16(tw_raised16(last, bits));
    if (a == 0) return INT16_MAX;
    if (bits > 5 && a < -(32 << fraction)) return 0;
    for (int32_t i = 0; i < tw_min(bits + 2, 7); ++i)
        if ((last - a) & (1 << (fraction - 2 + i))) result = tw_mul_high16(result, factors[i]);
    return result;
}

/* 2 / (1 + a) in Q2 for a in Q0, 0 <= a <= 1: three Newton steps. */
TW_INLINE int32_t tw_inverse16(int32_t a) {
    const int32_t half = (a + INT16_MAX + 1) >> 1;
    int32_t x = 23130 + tw_mul_high16(half, -15420); /* 48/17 - 32/17 half */
    TW_ROLLED
    for (int i = 0; i < 3; ++i) x += tw_raised16(tw_mul_high16(x, (1 << 13) - tw_mul_high16(half, x)), 2);
    return x;
}

/* 1 / (1 + exp(-a)) in Q0 for a in Qbits. */
TW_INLINE int32_t tw_logistic16(int32_t a, int32_t bits) {
    const int32_t positive = tw_raised16(tw_inverse16(tw_exp_of_negative16(a < 0 ? a : -a, bits)), 1);
    return a == 0 ? 1 << 14 : a > 0 ? positive : INT16_MAX - positive;
}

/* tanh(a) in Q0 for a in Qbits, bits 0..6. */
TW_INLINE int32_t tw_tanh16_of(int32_t a, int32_t bits) {
    const int32_t inverse = tw_inverse16(tw_exp_of_negative16(a < 0 ? a : -a, bits + 1));
    const int32_t positive = tw_raised16(inverse - (1 << 13), 2);
    return a == 0 ? 0 : a > 0 ? positive : -positive;
}

#endif
