/* SPDX-License-Identifier: Apache-2.0 */
/* A complex FFT of length 2^a 3^b 5^c, in float or fixed point, in kissfft's order of operations and with its rounding.
 * Source: kissfft v130, which TFLM builds with FIXED_POINT 16 and 32. */
#ifndef TW_FFT_H
#define TW_FFT_H

#include "../core/tw.h"

#define TW_MAX_FFT_STAGES 20

/* How n values are transformed: stage s takes radix[s] transforms of rest[s] values together, stride[s] times; the
 * product of the three is n. The last stage is done first. odd: some radix is 3 or 5. */
typedef struct {
    int32_t n, inverse, odd, stages;
    int32_t radix[TW_MAX_FFT_STAGES], rest[TW_MAX_FFT_STAGES], stride[TW_MAX_FFT_STAGES];
} tw_fft;

typedef struct {
    int16_t r, i;
} tw_complex_s16;

typedef struct {
    int32_t r, i;
} tw_complex_s32;

typedef struct {
    float r, i;
} tw_complex_f32;

/* Sums wrap; products of two fractions of 15 or 31 bits are rounded half up, and so is a division by k, which is a
 * product with the greatest fraction / k. A float is not divided. */
TW_INLINE int16_t tw_fft_round_s16(int32_t x) { return (int16_t)((x + (1 << 14)) >> 15); }
TW_INLINE int32_t tw_fft_round_s32(int64_t x) { return (int32_t)((x + (1 << 30)) >> 31); }
TW_INLINE float tw_fft_round_f32(float x) { return x; }

/* Products before they are rounded. gcc 12 fuses those of floats with sums and differences that alternate (vfmaddsub),
 * in spite of -ffp-contract=off; so it must not see what this one is. */
TW_INLINE int32_t tw_fft_product_s16(int16_t a, int16_t b) { return (int32_t)a * b; }
TW_INLINE int64_t tw_fft_product_s32(int32_t a, int32_t b) { return (int64_t)a * b; }
TW_INLINE float tw_fft_product_f32(float a, float b) {
    float product = a * b;
#if defined(__clang__) || !defined(__GNUC__)
#elif defined(__FMA__)
    __asm__("" : "+x"(product));
#elif defined(__aarch64__)
    __asm__("" : "+w"(product));
#elif defined(__ARM_FP)
    __asm__("" : "+t"(product));
#endif
    return product;
}

TW_INLINE int16_t tw_fft_add_s16(int32_t a, int32_t b) { return (int16_t)(a + b); }
TW_INLINE int32_t tw_fft_add_s32(int32_t a, int32_t b) { return tw_add(a, b); }
TW_INLINE float tw_fft_add_f32(float a, float b) { return a + b; }

TW_INLINE int16_t tw_fft_sub_s16(int32_t a, int32_t b) { return (int16_t)(a - b); }
TW_INLINE int32_t tw_fft_sub_s32(int32_t a, int32_t b) { return (int32_t)((uint32_t)a - (uint32_t)b); }
TW_INLINE float tw_fft_sub_f32(float a, float b) { return a - b; }

TW_INLINE int16_t tw_fft_neg_s16(int32_t x) { return (int16_t)-x; }
TW_INLINE int32_t tw_fft_neg_s32(int32_t x) { return tw_fft_sub_s32(0, x); }
TW_INLINE float tw_fft_neg_f32(float x) { return -x; }

TW_INLINE int16_t tw_fft_half_s16(int32_t x) { return (int16_t)(x >> 1); }
TW_INLINE int32_t tw_fft_half_s32(int32_t x) { return x >> 1; }
TW_INLINE float tw_fft_half_f32(float x) { return x * 0.5f; }

/* Half of a + b, and of a - b. */
TW_INLINE int16_t tw_fft_mean_s16(int32_t a, int32_t b) { return (int16_t)((a + b) >> 1); }
TW_INLINE int32_t tw_fft_mean_s32(int32_t a, int32_t b) { return tw_add(a, b) >> 1; }
TW_INLINE float tw_fft_mean_f32(float a, float b) { return (a + b) * 0.5f; }
TW_INLINE int16_t tw_fft_apart_s16(int32_t a, int32_t b) { return (int16_t)((a - b) >> 1); }
TW_INLINE int32_t tw_fft_apart_s32(int32_t a, int32_t b) { return tw_fft_sub_s32(a, b) >> 1; }
TW_INLINE float tw_fft_apart_f32(float a, float b) { return (a - b) * 0.5f; }

TW_INLINE int16_t tw_fft_div_s16(int16_t x, int32_t k) { return tw_fft_round_s16(x * (INT16_MAX / k)); }
TW_INLINE int32_t tw_fft_div_s32(int32_t x, int32_t k) { return tw_fft_round_s32((int64_t)x * (INT32_MAX / k)); }
TW_INLINE float tw_fft_div_f32(float x, int32_t k) { return (void)k, x; }

/* Complex arithmetic. T: suffix of the type. */
#define TW_FFT_ARITHMETIC(T, scalar)                                                                                   \
    TW_INLINE tw_complex_##T tw_fft_cadd_##T(tw_complex_##T a, tw_complex_##T b) {                                     \
        const tw_complex_##T sum = {tw_fft_add_##T(a.r, b.r), tw_fft_add_##T(a.i, b.i)};                               \
        return sum;                                                                                                    \
    }                                                                                                                  \
    TW_INLINE tw_complex_##T tw_fft_csub_##T(tw_complex_##T a, tw_complex_##T b) {                                     \
        const tw_complex_##T difference = {tw_fft_sub_##T(a.r, b.r), tw_fft_sub_##T(a.i, b.i)};                        \
        return difference;                                                                                             \
    }                                                                                                                  \
    TW_INLINE tw_complex_##T tw_fft_cmul_##T(tw_complex_##T a, tw_complex_##T b) {                                     \
        const tw_complex_##T product = {                                                                               \
            tw_fft_round_##T(tw_fft_product_##T(a.r, b.r) - tw_fft_product_##T(a.i, b.i)),                             \
            tw_fft_round_##T(tw_fft_product_##T(a.r, b.i) + tw_fft_product_##T(a.i, b.r))};                            \
        return product;                                                                                                \
    }                                                                                                                  \
    TW_INLINE tw_complex_##T tw_fft_cdiv_##T(tw_complex_##T a, int32_t k) {                                            \
        const tw_complex_##T quotient = {tw_fft_div_##T(a.r, k), tw_fft_div_##T(a.i, k)};                              \
        return quotient;                                                                                               \
    }                                                                                                                  \
    /* a + (bi, -br) */                                                                                                \
    TW_INLINE tw_complex_##T tw_fft_turned_##T(tw_complex_##T a, tw_complex_##T b) {                                   \
        const tw_complex_##T sum = {tw_fft_add_##T(a.r, b.i), tw_fft_sub_##T(a.i, b.r)};                               \
        return sum;                                                                                                    \
    }                                                                                                                  \
    /* a + (-bi, br) */                                                                                                \
    TW_INLINE tw_complex_##T tw_fft_turned_back_##T(tw_complex_##T a, tw_complex_##T b) {                              \
        const tw_complex_##T sum = {tw_fft_sub_##T(a.r, b.i), tw_fft_add_##T(a.i, b.r)};                               \
        return sum;                                                                                                    \
    }                                                                                                                  \
    TW_INLINE scalar tw_fft_smul_##T(scalar a, scalar b) { return tw_fft_round_##T(tw_fft_product_##T(a, b)); }

TW_FFT_ARITHMETIC(s16, int16_t)
TW_FFT_ARITHMETIC(s32, int32_t)
TW_FFT_ARITHMETIC(f32, float)

/* Two transforms of m values in y become one. w: the twiddles; value k of transform q takes number q * k * step. */
#define TW_FFT_2(T)                                                                                                    \
    TW_INLINE void tw_fft_2_##T(tw_complex_##T *y, const tw_complex_##T *w, int32_t m, int32_t step) {                 \
        for (int32_t k = 0; k < m; ++k) {                                                                              \
            const tw_complex_##T a = tw_fft_cdiv_##T(y[k], 2);                                                         \
            const tw_complex_##T b = tw_fft_cmul_##T(tw_fft_cdiv_##T(y[k + m], 2), w[k * step]);                       \
            y[k + m] = tw_fft_csub_##T(a, b);                                                                          \
            y[k] = tw_fft_cadd_##T(a, b);                                                                              \
        }                                                                                                              \
    }

/* Three transforms. */
#define TW_FFT_3(T, scalar)                                                                                            \
    TW_INLINE void tw_fft_3_##T(tw_complex_##T *y, const tw_complex_##T *w, int32_t m, int32_t step) {                 \
        const scalar third = w[step * m].i;                                                                            \
        for (int32_t k = 0; k < m; ++k) {                                                                              \
            const tw_complex_##T a = tw_fft_cdiv_##T(y[k], 3);                                                         \
            const tw_complex_##T b = tw_fft_cmul_##T(tw_fft_cdiv_##T(y[k + m], 3), w[k * step]);                       \
            const tw_complex_##T c = tw_fft_cmul_##T(tw_fft_cdiv_##T(y[k + 2 * m], 3), w[2 * k * step]);               \
            const tw_complex_##T sum = tw_fft_cadd_##T(b, c), apart = tw_fft_csub_##T(b, c);                           \
            const tw_complex_##T half = {tw_fft_half_##T(sum.r), tw_fft_half_##T(sum.i)};                              \
            const tw_complex_##T off = {tw_fft_smul_##T(apart.r, third), tw_fft_smul_##T(apart.i, third)};             \
            const tw_complex_##T middle = tw_fft_csub_##T(a, half);                                                    \
            y[k] = tw_fft_cadd_##T(a, sum);                                                                            \
            y[k + 2 * m] = tw_fft_turned_##T(middle, off);                                                             \
            y[k + m] = tw_fft_turned_back_##T(middle, off);                                                            \
        }                                                                                                              \
    }

/* Four transforms. */
#define TW_FFT_4(T)                                                                                                    \
    TW_INLINE void tw_fft_4_##T(tw_complex_##T *y, const tw_complex_##T *w, int32_t m, int32_t step,                   \
                                int32_t inverse) {                                                                     \
        for (int32_t k = 0; k < m; ++k) {                                                                              \
            const tw_complex_##T a = tw_fft_cdiv_##T(y[k], 4);                                                         \
            const tw_complex_##T b = tw_fft_cmul_##T(tw_fft_cdiv_##T(y[k + m], 4), w[k * step]);                       \
            const tw_complex_##T c = tw_fft_cmul_##T(tw_fft_cdiv_##T(y[k + 2 * m], 4), w[2 * k * step]);               \
            const tw_complex_##T d = tw_fft_cmul_##T(tw_fft_cdiv_##T(y[k + 3 * m], 4), w[3 * k * step]);               \
            const tw_complex_##T even = tw_fft_cadd_##T(a, c), apart = tw_fft_csub_##T(a, c);                          \
            const tw_complex_##T odd = tw_fft_cadd_##T(b, d), turn = tw_fft_csub_##T(b, d);                            \
            y[k + 2 * m] = tw_fft_csub_##T(even, odd);                                                                 \
            y[k] = tw_fft_cadd_##T(even, odd);                                                                         \
            y[inverse ? k + 3 * m : k + m] = tw_fft_turned_##T(apart, turn);                                           \
            y[inverse ? k + m : k + 3 * m] = tw_fft_turned_back_##T(apart, turn);                                      \
        }                                                                                                              \
    }

/* a + b * wb + c * wc, of which each product is rounded. */
#define TW_FFT_SUM(T, scalar)                                                                                          \
    TW_INLINE scalar tw_fft_sum_##T(scalar a, scalar b, scalar wb, scalar c, scalar wc) {                              \
        return tw_fft_add_##T(tw_fft_add_##T(a, tw_fft_smul_##T(b, wb)), tw_fft_smul_##T(c, wc));                      \
    }

/* Five transforms. */
#define TW_FFT_5(T)                                                                                                    \
    TW_INLINE void tw_fft_5_##T(tw_complex_##T *y, const tw_complex_##T *w, int32_t m, int32_t step) {                 \
        const tw_complex_##T once = w[step * m], twice = w[2 * step * m];                                              \
        for (int32_t k = 0; k < m; ++k, ++y) {                                                                         \
            const tw_complex_##T a = tw_fft_cdiv_##T(y[0], 5);                                                         \
            const tw_complex_##T b = tw_fft_cmul_##T(tw_fft_cdiv_##T(y[m], 5), w[k * step]);                           \
            const tw_complex_##T c = tw_fft_cmul_##T(tw_fft_cdiv_##T(y[2 * m], 5), w[2 * k * step]);                   \
            const tw_complex_##T d = tw_fft_cmul_##T(tw_fft_cdiv_##T(y[3 * m], 5), w[3 * k * step]);                   \
            const tw_complex_##T e = tw_fft_cmul_##T(tw_fft_cdiv_##T(y[4 * m], 5), w[4 * k * step]);                   \
            const tw_complex_##T outer = tw_fft_cadd_##T(b, e), out = tw_fft_csub_##T(b, e);                           \
            const tw_complex_##T inner = tw_fft_cadd_##T(c, d), in = tw_fft_csub_##T(c, d);                            \
            const tw_complex_##T first = {tw_fft_sum_##T(a.r, outer.r, once.r, inner.r, twice.r),                      \
                                          tw_fft_sum_##T(a.i, outer.i, once.r, inner.i, twice.r)};                     \
            const tw_complex_##T first_off = {                                                                         \
                tw_fft_add_##T(tw_fft_smul_##T(out.r, once.i), tw_fft_smul_##T(in.r, twice.i)),                        \
                tw_fft_add_##T(tw_fft_smul_##T(out.i, once.i), tw_fft_smul_##T(in.i, twice.i))};                       \
            const tw_complex_##T second = {tw_fft_sum_##T(a.r, outer.r, twice.r, inner.r, once.r),                     \
                                           tw_fft_sum_##T(a.i, outer.i, twice.r, inner.i, once.r)};                    \
            const tw_complex_##T second_off = {                                                                        \
                tw_fft_sub_##T(tw_fft_smul_##T(out.r, twice.i), tw_fft_smul_##T(in.r, once.i)),                        \
                tw_fft_sub_##T(tw_fft_smul_##T(out.i, twice.i), tw_fft_smul_##T(in.i, once.i))};                       \
            y[0] = tw_fft_cadd_##T(a, tw_fft_cadd_##T(outer, inner));                                                  \
            y[m] = tw_fft_turned_back_##T(first, first_off);                                                           \
            y[4 * m] = tw_fft_turned_##T(first, first_off);                                                            \
            y[2 * m] = tw_fft_turned_back_##T(second, second_off);                                                     \
            y[3 * m] = tw_fft_turned_##T(second, second_off);                                                          \
        }                                                                                                              \
    }

/* The transform of y, which holds the values in the order of tw_fft_next. */
#define TW_FFT_STAGES(T)                                                                                               \
    TW_INLINE void tw_fft_##T(tw_complex_##T *y, const tw_complex_##T *w, const tw_fft *p) {                           \
        for (int32_t s = p->stages - 1; s >= 0; --s) {                                                                 \
            const int32_t radix = p->radix[s], m = p->rest[s], step = p->stride[s];                                    \
            for (int32_t b = 0; b < step; ++b) {                                                                       \
                tw_complex_##T *block = y + (ptrdiff_t)b * radix * m;                                                  \
                if (radix == 4)                                                                                        \
                    tw_fft_4_##T(block, w, m, step, p->inverse);                                                       \
                else if (radix == 2)                                                                                   \
                    tw_fft_2_##T(block, w, m, step);                                                                   \
                else if (p->odd && radix == 3)                                                                         \
                    tw_fft_3_##T(block, w, m, step);                                                                   \
                else if (p->odd)                                                                                       \
                    tw_fft_5_##T(block, w, m, step);                                                                   \
            }                                                                                                          \
        }                                                                                                              \
    }

#define TW_FFT(T, scalar)                                                                                              \
    TW_FFT_2(T)                                                                                                        \
    TW_FFT_3(T, scalar) TW_FFT_4(T) TW_FFT_SUM(T, scalar) TW_FFT_5(T) TW_FFT_STAGES(T)

TW_FFT(s16, int16_t)
TW_FFT(s32, int32_t)
TW_FFT(f32, float)

/* The number of the value after number at in the order that stages take; digits counts per stage, and begins with 0. */
TW_INLINE int32_t tw_fft_next(const tw_fft *p, int32_t *digits, int32_t at) {
    for (int32_t s = p->stages - 1; s >= 0; --s) {
        at += p->stride[s];
        if (++digits[s] < p->radix[s]) return at;
        at -= p->radix[s] * p->stride[s];
        digits[s] = 0;
    }
    return at;
}

#endif
