/* SPDX-License-Identifier: Apache-2.0 */
/* Sixteen int32 lanes in four vectors of WebAssembly's SIMD128; part of lanes.h, which includes this file. */
#ifndef TW_LANES_WASM_H
#define TW_LANES_WASM_H

#include "simd128.h"

typedef struct {
    v128_t v[4];
} tw_acc;

/* Engines have 15 registers of a computer's 16: of four pixels, half of the lanes are summed at a time (pairs.h). */
#define TW_CONV_PIXELS 4
#define TW_CONV_BLOCKS 1

TW_INLINE tw_acc tw_acc_load(const int32_t *p) {
    const tw_acc acc = {{wasm_v128_load(p), wasm_v128_load(p + 4), wasm_v128_load(p + 8), wasm_v128_load(p + 12)}};
    return acc;
}

TW_INLINE tw_acc tw_acc_zero(void) {
    const v128_t zero = wasm_i32x4_const_splat(0);
    const tw_acc acc = {{zero, zero, zero, zero}};
    return acc;
}

TW_INLINE tw_acc tw_acc_plus(tw_acc a, tw_acc b) {
    const tw_acc acc = {{wasm_i32x4_add(a.v[0], b.v[0]), wasm_i32x4_add(a.v[1], b.v[1]), wasm_i32x4_add(a.v[2], b.v[2]),
                         wasm_i32x4_add(a.v[3], b.v[3])}};
    return acc;
}

TW_INLINE tw_acc tw_acc_minus(tw_acc a, tw_acc b) {
    const tw_acc acc = {{wasm_i32x4_sub(a.v[0], b.v[0]), wasm_i32x4_sub(a.v[1], b.v[1]), wasm_i32x4_sub(a.v[2], b.v[2]),
                         wasm_i32x4_sub(a.v[3], b.v[3])}};
    return acc;
}

TW_INLINE tw_acc tw_acc_left(tw_acc a, int n) {
    for (int j = 0; j < 4; ++j) a.v[j] = wasm_i32x4_shl(a.v[j], (uint32_t)n);
    return a;
}

/* a * by, which wraps, shifted to the right. */
TW_INLINE tw_acc tw_acc_times_right(tw_acc a, int32_t by, int n) {
    for (int j = 0; j < 4; ++j) a.v[j] = wasm_i32x4_shr(wasm_i32x4_mul(a.v[j], wasm_i32x4_splat(by)), (uint32_t)n);
    return a;
}

/* acc[lane] += four bytes of x . four of w[lane]. The instruction adds two products of halves: even and odd bytes apart. */
TW_INLINE v128_t tw_dot4_128(v128_t acc, v128_t x, const int8_t *w) {
    const v128_t taps = wasm_v128_load(w), w_even = wasm_i16x8_shr(wasm_i16x8_shl(taps, 8), 8);
    const v128_t even = wasm_v128_and(x, wasm_i16x8_const_splat(255)), odd = wasm_u16x8_shr(x, 8);
    acc = wasm_i32x4_add(acc, wasm_i32x4_dot_i16x8(even, w_even));
    return wasm_i32x4_add(acc, wasm_i32x4_dot_i16x8(odd, wasm_i16x8_shr(taps, 8)));
}

TW_INLINE tw_acc tw_acc_dot4_pair(tw_acc acc, const uint8_t *x, int32_t behind, const int8_t *w) {
    const v128_t four = tw_four128(x), upper = tw_four128(x + behind);
    const tw_acc sums = {{tw_dot4_128(acc.v[0], four, w), tw_dot4_128(acc.v[1], four, w + 16),
                          tw_dot4_128(acc.v[2], upper, w + 32), tw_dot4_128(acc.v[3], upper, w + 48)}};
    return sums;
}

TW_INLINE tw_acc tw_acc_dot4(tw_acc acc, const uint8_t *x, const int8_t *w) { return tw_acc_dot4_pair(acc, x, 0, w); }

/* The same of two int16 each. */
TW_INLINE v128_t tw_dot2_128(v128_t acc, v128_t x, const int8_t *w) {
    return wasm_i32x4_add(acc, wasm_i32x4_dot_i16x8(x, wasm_v128_load(w)));
}

TW_INLINE tw_acc tw_acc_dot2_pair(tw_acc acc, const uint8_t *x, int32_t behind, const int8_t *w) {
    const v128_t two = tw_four128(x), upper = tw_four128(x + behind);
    const tw_acc sums = {{tw_dot2_128(acc.v[0], two, w), tw_dot2_128(acc.v[1], two, w + 16),
                          tw_dot2_128(acc.v[2], upper, w + 32), tw_dot2_128(acc.v[3], upper, w + 48)}};
    return sums;
}

TW_INLINE tw_acc tw_acc_dot2(tw_acc acc, const uint8_t *x, const int8_t *w) { return tw_acc_dot2_pair(acc, x, 0, w); }

TW_INLINE tw_acc tw_acc_mul(tw_acc acc, const int8_t *x, const int32_t *w, int32_t count) {
    int8_t few[TW_LANES] = {0};
    if (count < TW_LANES) {
        for (int32_t lane = 0; lane < count; ++lane) few[lane] = x[lane];
        x = few;
    }
    const v128_t low = wasm_i16x8_load8x8(x), high = wasm_i16x8_load8x8(x + 8);
    const v128_t wide[4] = {wasm_i32x4_extend_low_i16x8(low), wasm_i32x4_extend_high_i16x8(low),
                            wasm_i32x4_extend_low_i16x8(high), wasm_i32x4_extend_high_i16x8(high)};
    const tw_acc sums = {{tw_dot2_128(acc.v[0], wide[0], (const int8_t *)w),
                          tw_dot2_128(acc.v[1], wide[1], (const int8_t *)(w + 4)),
                          tw_dot2_128(acc.v[2], wide[2], (const int8_t *)(w + 8)),
                          tw_dot2_128(acc.v[3], wide[3], (const int8_t *)(w + 12))}};
    return sums;
}

/* How the sums of 16 channels end; the slow way asks for mult and shift alone. Shifts differ from lane to lane, which no
 * instruction does. So a product, with what rounds it in low and high, is clamped where it has 31 - up more bits than
 * the output, then multiplied by 2^up and shifted by 24. */
typedef struct {
    tw_acc mult, low, high, least, most, up;
    int8_t shift[TW_LANES];
    tw_epilogue_s8 end;
} tw_ends;

/* 2^n in every lane, n from 0 to 30: as the exponent of a float. */
TW_INLINE v128_t tw_power128(v128_t n) {
    return wasm_i32x4_trunc_sat_f32x4(wasm_i32x4_shl(wasm_i32x4_add(n, wasm_i32x4_const_splat(127)), 23));
}

/* (1 + 2 * zero) * 2^(r + 30) + 2^30 of two lanes; power: 2^(r - 1) times 1 + 2 * zero. */
TW_INLINE v128_t tw_rounding128(v128_t power) {
    return wasm_i64x2_add(wasm_i64x2_shl(power, 31), wasm_i64x2_const_splat(1 << 30));
}

TW_INLINE tw_ends tw_ends_load(const tw_channels_s8 *channels, int32_t c) {
    const int8_t *shift = channels->shift + c;
    const v128_t unit = wasm_i32x4_splat(1 + 2 * channels->end.zero), one = wasm_i32x4_const_splat(1);
    tw_ends ends;
    ends.mult = tw_acc_load(channels->mult + c);
    ends.end = channels->end;
    if (!channels->fast) {
        memcpy(ends.shift, shift, sizeof ends.shift);
        return ends;
    }
    for (int j = 0; j < 4; ++j) {
        const v128_t word = wasm_v128_load32_zero(shift + 4 * j);
        const v128_t left = wasm_i32x4_extend_low_i16x8(wasm_i16x8_extend_low_i8x16(word));
        const v128_t right = wasm_i32x4_sub(wasm_i32x4_neg(left), one), power = tw_power128(right);
        ends.low.v[j] = tw_rounding128(wasm_i64x2_extmul_low_i32x4(power, unit));
        ends.high.v[j] = tw_rounding128(wasm_i64x2_extmul_high_i32x4(power, unit));
        ends.least.v[j] = wasm_i32x4_mul(power, wasm_i32x4_splat(channels->end.low));
        ends.most.v[j] = wasm_i32x4_sub(wasm_i32x4_mul(power, wasm_i32x4_splat(channels->end.high + 1)), one);
        ends.up.v[j] = tw_power128(wasm_i32x4_sub(wasm_i32x4_const_splat(24), right));
    }
    return ends;
}

/* The upper halves of four numbers of 64 bits. */
TW_INLINE v128_t tw_upper128(v128_t low, v128_t high) { return wasm_i32x4_shuffle(low, high, 1, 3, 5, 7); }

/* A product of two lanes as one rounding wants it: below zero it is less by 2^31, unless outputs end at zero. */
TW_INLINE v128_t tw_rounded128(v128_t product, v128_t added, int ending) {
    const v128_t below = wasm_i64x2_lt(product, wasm_i64x2_const_splat(0)), sum = wasm_i64x2_add(product, added);
    return ending == TW_ENDS_FAST ? wasm_i64x2_add(sum, wasm_i64x2_shl(below, 31)) : sum;
}

/* tw_requantize plus zero in one rounding, clamped, in every lane of a quarter: as in lanes_vnni.h. */
TW_INLINE v128_t tw_requantize_fast128(v128_t acc, const tw_ends *ends, int ending, int j) {
    const v128_t m = ends->mult.v[j];
    const v128_t low = tw_rounded128(tw_extmul_low128(acc, m), ends->low.v[j], ending);
    const v128_t high = tw_rounded128(tw_extmul_high128(acc, m), ends->high.v[j], ending);
    const v128_t most = wasm_i32x4_min(tw_upper128(low, high), ends->most.v[j]);
    return wasm_i32x4_shr(wasm_i32x4_mul(wasm_i32x4_max(most, ends->least.v[j]), ends->up.v[j]), 24);
}

TW_INLINE void tw_acc_end_slow(int8_t *y, tw_acc acc, const tw_ends *ends, int32_t count) {
    int32_t sums[TW_LANES], mult[TW_LANES];
    memcpy(sums, &acc, sizeof sums);
    memcpy(mult, &ends->mult, sizeof mult);
    for (int32_t lane = 0; lane < tw_min(count, TW_LANES); ++lane)
        y[lane] = tw_epilogue_s8_of(tw_requantize(sums[lane], mult[lane], ends->shift[lane]), &ends->end);
}

TW_INLINE void tw_acc_end(int8_t *y, tw_acc acc, const tw_ends *ends, int ending, int32_t count) {
    int8_t outputs[TW_LANES];
    if (ending == TW_ENDS_SLOW) {
        tw_acc_end_slow(y, acc, ends, count);
        return;
    }
    v128_t first = wasm_i16x8_narrow_i32x4(tw_requantize_fast128(acc.v[0], ends, ending, 0),
                                           tw_requantize_fast128(acc.v[1], ends, ending, 1)),
           second = first;
    if (count > TW_LANES / 2)
        second = wasm_i16x8_narrow_i32x4(tw_requantize_fast128(acc.v[2], ends, ending, 2),
                                         tw_requantize_fast128(acc.v[3], ends, ending, 3));
    const v128_t bytes = wasm_i8x16_narrow_i16x8(first, second);
    if (count >= TW_LANES) {
        wasm_v128_store(y, bytes);
        return;
    }
    wasm_v128_store(outputs, bytes);
    for (int32_t lane = 0; lane < count; ++lane) y[lane] = outputs[lane];
}

/* As in lanes_vnni.h. */
TW_INLINE v128_t tw_scaled128(v128_t acc, v128_t mult) {
    const v128_t half = wasm_i64x2_const_splat(1LL << 31);
    return tw_upper128(wasm_i64x2_add(tw_extmul_low128(acc, mult), half),
                       wasm_i64x2_add(tw_extmul_high128(acc, mult), half));
}

TW_INLINE void tw_acc_end_s16(int16_t *y, tw_acc acc, tw_acc mult, const tw_limits *limits, int32_t count) {
    const v128_t low = wasm_i16x8_splat((int16_t)limits->low), high = wasm_i16x8_splat((int16_t)limits->high);
    int16_t outputs[TW_LANES];
    for (int j = 0; j < 2; ++j) {
        const v128_t words = wasm_i16x8_narrow_i32x4(tw_scaled128(acc.v[2 * j], mult.v[2 * j]),
                                                     tw_scaled128(acc.v[2 * j + 1], mult.v[2 * j + 1]));
        wasm_v128_store((count >= TW_LANES ? y : outputs) + 8 * j, wasm_i16x8_min(wasm_i16x8_max(words, low), high));
    }
    for (int32_t lane = 0; count < TW_LANES && lane < count; ++lane) y[lane] = outputs[lane];
}

#endif
