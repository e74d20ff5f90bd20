/* SPDX-License-Identifier: Apache-2.0 */
/* Sixteen int32 lanes in four vectors of RISC-V's V, of 128 bits or more each; part of lanes.h, which includes this file.
 * Vectors are clang's own types, not those of intrinsics: these have no size, so that no struct or array could hold them,
 * or code for one length of vectors alone. There is no dot product: four channels' products are four VWMACC with a byte
 * of x in a register, on weights that VLSEG4 takes apart and VSEXT widens. */
#ifndef TW_LANES_RVV_H
#define TW_LANES_RVV_H

typedef int8_t tw_i8x16 __attribute__((vector_size(16), aligned(16)));
typedef int8_t tw_i8x64 __attribute__((vector_size(64), aligned(16)));
typedef int16_t tw_i16x16 __attribute__((vector_size(32), aligned(16)));
typedef int16_t tw_i16x32 __attribute__((vector_size(64), aligned(16)));
typedef int32_t tw_i32x16 __attribute__((vector_size(64), aligned(16)));
typedef uint32_t tw_u32x16 __attribute__((vector_size(64), aligned(16)));
typedef int64_t tw_i64x16 __attribute__((vector_size(128), aligned(16)));

typedef struct {
    tw_i32x16 v;
} tw_acc;

/* The tile of a convolution: sixteen registers of sums; half of them are left for weights. */
#define TW_CONV_PIXELS 4
#define TW_CONV_BLOCKS 1

TW_INLINE tw_acc tw_acc_load(const int32_t *p) {
    tw_acc acc;
    memcpy(&acc.v, p, sizeof acc.v);
    return acc;
}

TW_INLINE tw_acc tw_acc_zero(void) {
    const tw_acc acc = {{0}};
    return acc;
}

TW_INLINE tw_acc tw_acc_plus(tw_acc a, tw_acc b) {
    a.v = (tw_i32x16)((tw_u32x16)a.v + (tw_u32x16)b.v);
    return a;
}

TW_INLINE tw_acc tw_acc_minus(tw_acc a, tw_acc b) {
    a.v = (tw_i32x16)((tw_u32x16)a.v - (tw_u32x16)b.v);
    return a;
}

TW_INLINE tw_acc tw_acc_left(tw_acc a, int n) {
    a.v = (tw_i32x16)((tw_u32x16)a.v << (uint32_t)n);
    return a;
}

/* a * by, which wraps, shifted to the right. */
TW_INLINE tw_acc tw_acc_times_right(tw_acc a, int32_t by, int n) {
    a.v = (tw_i32x16)((tw_u32x16)a.v * (uint32_t)by) >> n;
    return a;
}

/* Every lane the same; the lower eight and the upper eight. */
TW_INLINE tw_i16x16 tw_all16(int32_t x) {
    const tw_i16x16 zero = {0};
    return zero + (int16_t)x;
}

TW_INLINE tw_i16x16 tw_of_halves16(int32_t x, int32_t upper) {
    return __builtin_shufflevector(tw_all16(x), tw_all16(upper), 0, 1, 2, 3, 4, 5, 6, 7, 24, 25, 26, 27, 28, 29, 30,
                                   31);
}

/* acc + x * w, which wraps. */
TW_INLINE tw_i32x16 tw_add_product(tw_i32x16 acc, tw_i16x16 x, tw_i16x16 w) {
    const tw_i32x16 product = __builtin_convertvector(x, tw_i32x16) * __builtin_convertvector(w, tw_i32x16);
    return (tw_i32x16)((tw_u32x16)acc + (tw_u32x16)product);
}

/* Every fourth of 64 bytes, every second of 32 halves, from i on. */
#define TW_FOURTHS(w, i)                                                                                               \
    __builtin_convertvector(__builtin_shufflevector(w, w, (i), (i) + 4, (i) + 8, (i) + 12, (i) + 16, (i) + 20,         \
                                                    (i) + 24, (i) + 28, (i) + 32, (i) + 36, (i) + 40, (i) + 44,        \
                                                    (i) + 48, (i) + 52, (i) + 56, (i) + 60),                           \
                            tw_i16x16)
#define TW_SECONDS(w, i)                                                                                               \
    __builtin_shufflevector(w, w, (i), (i) + 2, (i) + 4, (i) + 6, (i) + 8, (i) + 10, (i) + 12, (i) + 14, (i) + 16,     \
                            (i) + 18, (i) + 20, (i) + 22, (i) + 24, (i) + 26, (i) + 28, (i) + 30)

TW_INLINE tw_acc tw_acc_dot4(tw_acc acc, const uint8_t *x, const int8_t *w) {
    tw_i8x64 taps;
    memcpy(&taps, w, sizeof taps);
    acc.v = tw_add_product(acc.v, tw_all16(x[0]), TW_FOURTHS(taps, 0));
    acc.v = tw_add_product(acc.v, tw_all16(x[1]), TW_FOURTHS(taps, 1));
    acc.v = tw_add_product(acc.v, tw_all16(x[2]), TW_FOURTHS(taps, 2));
    acc.v = tw_add_product(acc.v, tw_all16(x[3]), TW_FOURTHS(taps, 3));
    return acc;
}

TW_INLINE tw_acc tw_acc_dot4_pair(tw_acc acc, const uint8_t *x, int32_t behind, const int8_t *w) {
    const uint8_t *upper = x + behind;
    tw_i8x64 taps;
    memcpy(&taps, w, sizeof taps);
    acc.v = tw_add_product(acc.v, tw_of_halves16(x[0], upper[0]), TW_FOURTHS(taps, 0));
    acc.v = tw_add_product(acc.v, tw_of_halves16(x[1], upper[1]), TW_FOURTHS(taps, 1));
    acc.v = tw_add_product(acc.v, tw_of_halves16(x[2], upper[2]), TW_FOURTHS(taps, 2));
    acc.v = tw_add_product(acc.v, tw_of_halves16(x[3], upper[3]), TW_FOURTHS(taps, 3));
    return acc;
}

/* The same of two int16 each. */
TW_INLINE tw_acc tw_acc_dot2_pair(tw_acc acc, const uint8_t *x, int32_t behind, const int8_t *w) {
    int16_t two[2], upper[2];
    tw_i16x32 taps;
    memcpy(two, x, sizeof two);
    memcpy(upper, x + behind, sizeof upper);
    memcpy(&taps, w, sizeof taps);
    acc.v = tw_add_product(acc.v, tw_of_halves16(two[0], upper[0]), TW_SECONDS(taps, 0));
    acc.v = tw_add_product(acc.v, tw_of_halves16(two[1], upper[1]), TW_SECONDS(taps, 1));
    return acc;
}

TW_INLINE tw_acc tw_acc_dot2(tw_acc acc, const uint8_t *x, const int8_t *w) { return tw_acc_dot2_pair(acc, x, 0, w); }

TW_INLINE tw_acc tw_acc_mul(tw_acc acc, const int8_t *x, const int32_t *w, int32_t count) {
    tw_i8x16 bytes = {0};
    if (count >= TW_LANES)
        memcpy(&bytes, x, sizeof bytes);
    else if (count == TW_LANES / 2)
        memcpy(&bytes, x, sizeof bytes / 2);
    else
        for (int32_t lane = 0; lane < count; ++lane) bytes[lane] = x[lane];
    const tw_i16x16 taps = __builtin_convertvector(tw_acc_load(w).v, tw_i16x16);
    acc.v = tw_add_product(acc.v, __builtin_convertvector(bytes, tw_i16x16), taps);
    return acc;
}

/* How the sums of 16 channels end: shifts to the left and to the right, and half of what the latter leaves out. */
typedef struct {
    tw_acc mult, left, right, half;
    tw_epilogue_s8 end;
} tw_ends;

TW_INLINE tw_ends tw_ends_load(const tw_channels_s8 *channels, int32_t c) {
    const tw_i32x16 zero = {0}, one = zero + 1;
    tw_i8x16 bytes;
    memcpy(&bytes, channels->shift + c, sizeof bytes);
    const tw_i32x16 shift = __builtin_convertvector(bytes, tw_i32x16);
    tw_ends ends;
    ends.mult = tw_acc_load(channels->mult + c);
    ends.end = channels->end;
    ends.left.v = __builtin_elementwise_max(shift, zero);
    ends.right.v = __builtin_elementwise_max(zero - shift, zero);
    ends.half.v = (one << ends.right.v) >> 1;
    return ends;
}

/* tw_mul_high in every lane: multipliers are 0 or more, so nothing saturates. */
TW_INLINE tw_i32x16 tw_upper_of16(tw_i32x16 acc, tw_i32x16 mult) {
    const tw_i64x16 product = __builtin_convertvector(acc, tw_i64x16) * __builtin_convertvector(mult, tw_i64x16);
    return __builtin_convertvector((product + (1 << 30)) >> 31, tw_i32x16);
}

/* tw_requantize in every lane. What is fast is shifted to the right by 1 or more and far from int32's ends. */
TW_INLINE tw_i32x16 tw_requantize16(tw_i32x16 acc, const tw_ends *ends, int ending) {
    if (ending != TW_ENDS_SLOW) {
        const tw_i32x16 high = tw_upper_of16(acc, ends->mult.v);
        return (high + (high >> 31) + ends->half.v) >> ends->right.v;
    }
    const tw_i32x16 left = (tw_i32x16)((tw_u32x16)acc << (tw_u32x16)ends->left.v);
    const tw_i32x16 zero = {0}, mask = ~((zero - 1) << ends->right.v);
    const tw_i32x16 high = tw_upper_of16(left, ends->mult.v);
    return (high >> ends->right.v) - ((high & mask) > (mask >> 1) - (high >> 31));
}

TW_INLINE void tw_acc_end(int8_t *y, tw_acc acc, const tw_ends *ends, int ending, int32_t count) {
    const tw_i32x16 zero = {0}, scaled = tw_requantize16(acc.v, ends, ending) + ends->end.zero;
    const tw_i32x16 least = __builtin_elementwise_max(scaled, zero + ends->end.low);
    const tw_i8x16 bytes = __builtin_convertvector(__builtin_elementwise_min(least, zero + ends->end.high), tw_i8x16);
    if (count >= TW_LANES)
        memcpy(y, &bytes, sizeof bytes);
    else if (count == TW_LANES / 2)
        memcpy(y, &bytes, sizeof bytes / 2);
    else
        for (int32_t lane = 0; lane < count; ++lane) y[lane] = bytes[lane];
}

TW_INLINE void tw_acc_end_s16(int16_t *y, tw_acc acc, tw_acc mult, const tw_limits *limits, int32_t count) {
    const tw_i64x16 product = __builtin_convertvector(acc.v, tw_i64x16) * __builtin_convertvector(mult.v, tw_i64x16);
    const tw_i32x16 zero = {0}, scaled = __builtin_convertvector((product + (1LL << 31)) >> 32, tw_i32x16);
    const tw_i32x16 least = __builtin_elementwise_max(scaled, zero + limits->low);
    const tw_i16x16 words = __builtin_convertvector(__builtin_elementwise_min(least, zero + limits->high), tw_i16x16);
    if (count >= TW_LANES) {
        memcpy(y, &words, sizeof words);
        return;
    }
    for (int32_t lane = 0; lane < count; ++lane) y[lane] = words[lane];
}

#endif
