/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of products of float32, four rows of weights at once. Every sum adds its products one by one, in order, and
 * rounds each time: it has the reference's bits. Everywhere fused is a constant (madd.h). */
#ifndef TW_SUMS_F32_H
#define TW_SUMS_F32_H

#include "epilogue.h"
#include "madd.h"
#include "rows.h"

/* The M profile's FPU; the tiles need every register. */
#if defined(__GNUC__) && defined(__OPTIMIZE__) && defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M' &&          \
    defined(__ARM_FP) && (__ARM_FP & 4)
#define TW_VFP 1
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
#define TW_HELIUM_F32 1
#include <arm_mve.h>
#endif
#endif

#if defined(TW_HELIUM_F32)
/* Four floats. Not vld1q_f32 and vst1q_f32: gcc 12 believes that they touch one float only, and moves stores of the
 * others past them. */
TW_INLINE float32x4_t tw_load4_f32(const float *p) {
    float32x4_t four;
    memcpy(&four, p, sizeof four);
    return four;
}

TW_INLINE void tw_store4_f32(float *p, float32x4_t four) { memcpy(p, &four, sizeof four); }

TW_INLINE float32x4_t tw_madd4_f32(float32x4_t a, float32x4_t b, float32x4_t c, int fused) {
    return fused ? vfmaq_f32(c, a, b) : vaddq_f32(c, vmulq_f32(a, b));
}

/* acc[j] += x . w[j], rows of n >= 1, size from one to the next. Helium treats denormals as zero: each product with one
 * may change a sum by 2^-126 times the other factor. */
TW_INLINE void tw_rows_f32(float *acc, const float *x, const float *w, int32_t n, int32_t size, int fused) {
    const uint32x4_t apart = vmulq_n_u32(vidupq_n_u32(0, 1), (uint32_t)size);
    float32x4_t sums = tw_load4_f32(acc);
    for (int32_t i = 0; i < n; ++i) {
        const float32x4_t column = vldrwq_gather_shifted_offset_f32(w + i, apart);
        sums = fused ? vfmaq_n_f32(sums, column, x[i]) : vaddq_f32(sums, vmulq_n_f32(column, x[i]));
    }
    tw_store4_f32(acc, sums);
}
#elif defined(TW_VFP)
/* Four products x * w and four sums, in exact kernels by way of w's registers. */
#define TW_EXACT(x, s0, s1, s2, s3, a, b, c, d)                                                                        \
    "vmul.f32 " a ", " x ", " a "\n vmul.f32 " b ", " x ", " b "\n"                                                    \
    "vmul.f32 " c ", " x ", " c "\n vmul.f32 " d ", " x ", " d "\n"                                                    \
    "vadd.f32 " s0 ", " s0 ", " a "\n vadd.f32 " s1 ", " s1 ", " b "\n"                                                \
    "vadd.f32 " s2 ", " s2 ", " c "\n vadd.f32 " s3 ", " s3 ", " d "\n"
#define TW_FUSED(x, s0, s1, s2, s3, a, b, c, d)                                                                        \
    "vfma.f32 " s0 ", " x ", " a "\n vfma.f32 " s1 ", " x ", " b "\n"                                                  \
    "vfma.f32 " s2 ", " x ", " c "\n vfma.f32 " s3 ", " x ", " d "\n"

/* acc[j] += x . w[j], rows of n >= 1, size from one to the next. In fours: 5 loads of four for 16 products. */
#define TW_ROWS_F32(name, STEP)                                                                                        \
    static TW_NOINLINE void __attribute__((unused))                                                                    \
    name(float *acc, const float *x, const float *w, int32_t n, int32_t size) {                                        \
        const float *w1 = w + size, *w2 = w1 + size, *w3 = w2 + size;                                                  \
        __asm volatile("vldmia %[acc], {s0-s3}\n subs %[n], #4\n blt 2f\n"                                             \
                       "1: vldmia %[x]!, {s4-s7}\n vldmia %[w0]!, {s8-s11}\n vldmia %[w1]!, {s12-s15}\n"               \
                       "vldmia %[w2]!, {s16-s19}\n vldmia %[w3]!, {s20-s23}\n" STEP("s4", "s0", "s1", "s2", "s3",      \
                                                                                    "s8", "s12", "s16", "s20")         \
                           STEP("s5", "s0", "s1", "s2", "s3", "s9", "s13", "s17", "s21")                               \
                               STEP("s6", "s0", "s1", "s2", "s3", "s10", "s14", "s18", "s22")                          \
                                   STEP("s7", "s0", "s1", "s2", "s3", "s11", "s15", "s19",                             \
                                        "s23") "subs %[n], #4\n bge 1b\n"                                              \
                                               "2: adds %[n], #4\n beq 4f\n"                                           \
                                               "3: vldmia %[x]!, {s4}\n vldmia %[w0]!, {s8}\n vldmia %[w1]!, {s12}\n"  \
                                               "vldmia %[w2]!, {s16}\n vldmia %[w3]!, {s20}\n" STEP(                   \
                                                   "s4", "s0", "s1", "s2", "s3", "s8", "s12", "s16",                   \
                                                   "s20") "subs %[n], #1\n bne 3b\n"                                   \
                                                          "4: vstmia %[acc], {s0-s3}"                                  \
                       : [x] "+r"(x), [w0] "+r"(w), [w1] "+r"(w1), [w2] "+r"(w2), [w3] "+r"(w3), [n] "+r"(n)           \
                       : [acc] "r"(acc)                                                                                \
                       : "cc", "memory", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11",     \
                         "s12", "s13", "s14", "s15", "s16", "s17", "s18", "s19", "s20", "s21", "s22", "s23");          \
    }
TW_ROWS_F32(tw_rows_exact_f32, TW_EXACT)
TW_ROWS_F32(tw_rows_fused_f32, TW_FUSED)
#undef TW_ROWS_F32

TW_INLINE void tw_rows_f32(float *acc, const float *x, const float *w, int32_t n, int32_t size, int fused) {
    if (fused)
        tw_rows_fused_f32(acc, x, w, n, size);
    else
        tw_rows_exact_f32(acc, x, w, n, size);
}
#else
TW_INLINE void tw_rows_f32(float *TW_RESTRICT acc, const float *x, const float *w, int32_t n, int32_t size, int fused) {
    float sums[4];
    memcpy(sums, acc, sizeof sums);
    for (int32_t i = 0; i < n; ++i)
        for (int j = 0; j < 4; ++j) sums[j] = tw_madd(x[i], w[j * size + i], sums[j], fused);
    memcpy(acc, sums, sizeof sums);
}
#endif

/* A depthwise window: rows and columns of its taps inside the image, floats from tap to tap in a row and from a row's
 * end to the next row, and the clamp. rows, columns >= 1. */
typedef struct {
    int32_t rows, columns, x_column, x_row, w_column, w_row;
    tw_limits_f32 limits;
} tw_taps;

/* Channels of a depthwise window that are summed at once. */
#define TW_EIGHT 8

#if defined(TW_HELIUM_F32)
TW_INLINE float32x4_t tw_clamp4_f32(float32x4_t x, float low, float high) {
    const float32x4_t raised = vpselq_f32(vdupq_n_f32(low), x, vcmpltq_n_f32(x, low));
    return vpselq_f32(vdupq_n_f32(high), raised, vcmpgtq_n_f32(raised, high));
}

/* y[j] = clamp(bias[j] + the sum of x[j] * w[j] over all taps), eight channels. */
TW_INLINE void tw_eight_f32(float *y, const float *x, const float *w, const float *bias, const tw_taps *t, int fused) {
    float32x4_t sums = vdupq_n_f32(0.0F), more = sums;
    for (int32_t row = t->rows; row > 0; --row, x += t->x_row, w += t->w_row)
        for (int32_t i = t->columns; i > 0; --i, x += t->x_column, w += t->w_column) {
            sums = tw_madd4_f32(tw_load4_f32(x), tw_load4_f32(w), sums, fused);
            more = tw_madd4_f32(tw_load4_f32(x + 4), tw_load4_f32(w + 4), more, fused);
        }
    tw_store4_f32(y, tw_clamp4_f32(vaddq_f32(sums, tw_load4_f32(bias)), t->limits.low, t->limits.high));
    tw_store4_f32(y + 4, tw_clamp4_f32(vaddq_f32(more, tw_load4_f32(bias + 4)), t->limits.low, t->limits.high));
}
#elif defined(TW_VFP)
#undef TW_EXACT
#undef TW_FUSED
#define TW_EXACT(a, b, c, d, e, f, g, h, i, j, k, l)                                                                   \
    "vmul.f32 " e ", " e ", " i "\n vmul.f32 " f ", " f ", " j "\n"                                                    \
    "vmul.f32 " g ", " g ", " k "\n vmul.f32 " h ", " h ", " l "\n"                                                    \
    "vadd.f32 " a ", " a ", " e "\n vadd.f32 " b ", " b ", " f "\n"                                                    \
    "vadd.f32 " c ", " c ", " g "\n vadd.f32 " d ", " d ", " h "\n"
#define TW_FUSED(a, b, c, d, e, f, g, h, i, j, k, l)                                                                   \
    "vfma.f32 " a ", " e ", " i "\n vfma.f32 " b ", " f ", " j "\n"                                                    \
    "vfma.f32 " c ", " g ", " k "\n vfma.f32 " d ", " h ", " l "\n"

/* y[j] = clamp(bias[j] + the sum of x[j] * w[j] over all taps), eight channels. */
#define TW_EIGHT_F32(name, STEP)                                                                                       \
    static TW_NOINLINE void __attribute__((unused))                                                                    \
    name(float *y, const float *x, const float *w, const float *bias, const tw_taps *t) {                              \
        int32_t i, rows = t->rows;                                                                                     \
        memset(y, 0, TW_EIGHT * sizeof *y);                                                                            \
        __asm volatile(                                                                                                \
            "vldmia %[y], {s0-s7}\n"                                                                                   \
            "1: mov %[i], %[columns]\n"                                                                                \
            "2: vldmia %[x], {s8-s15}\n vldmia %[w], {s16-s23}\n" STEP("s0", "s1", "s2", "s3", "s8", "s9", "s10",      \
                                                                       "s11", "s16", "s17", "s18", "s19")              \
                STEP("s4", "s5", "s6", "s7", "s12", "s13", "s14", "s15", "s20", "s21", "s22",                          \
                     "s23") "add %[x], %[x], %[xc], lsl #2\n add %[w], %[w], %[wc], lsl #2\n subs %[i], #1\n bne 2b\n" \
                            "add %[x], %[x], %[xr], lsl #2\n add %[w], %[w], %[wr], lsl #2\n subs %[rows], #1\n bne "  \
                            "1b\n"                                                                                     \
                            "vstmia %[y], {s0-s7}"                                                                     \
            : [x] "+r"(x), [w] "+r"(w), [rows] "+r"(rows), [i] "=&r"(i)                                                \
            : [y] "r"(y), [columns] "r"(t->columns), [xc] "r"(t->x_column), [wc] "r"(t->w_column), [xr] "r"(t->x_row), \
              [wr] "r"(t->w_row)                                                                                       \
            : "cc", "memory", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s13",  \
              "s14", "s15", "s16", "s17", "s18", "s19", "s20", "s21", "s22", "s23");                                   \
        for (i = 0; i < TW_EIGHT; ++i) y[i] = tw_clampf(y[i] + bias[i], t->limits.low, t->limits.high);                \
    }
TW_EIGHT_F32(tw_eight_exact_f32, TW_EXACT)
TW_EIGHT_F32(tw_eight_fused_f32, TW_FUSED)
#undef TW_EIGHT_F32
#undef TW_EXACT
#undef TW_FUSED

TW_INLINE void tw_eight_f32(float *y, const float *x, const float *w, const float *bias, const tw_taps *t, int fused) {
    if (fused)
        tw_eight_fused_f32(y, x, w, bias, t);
    else
        tw_eight_exact_f32(y, x, w, bias, t);
}
#else
typedef float tw_f32x8 __attribute__((vector_size(32)));
typedef float tw_f32x8_any __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t tw_i32x8 __attribute__((vector_size(32)));

/* tw_clampf in every lane, as tw_clamp_f32x16 does. */
TW_INLINE void tw_clamp_f32x8(tw_f32x8 *x, float low, float high) {
    const tw_f32x8 zero = {0}, lows = zero + low, highs = zero + high;
    const tw_i32x8 below = *x < lows;
    const tw_i32x8 raised = (below & (tw_i32x8)lows) | (~below & (tw_i32x8)*x);
    const tw_i32x8 above = highs < (tw_f32x8)raised;
    *x = (tw_f32x8)((above & (tw_i32x8)highs) | (~above & raised));
}

TW_INLINE void tw_eight_f32(float *y, const float *x, const float *w, const float *bias, const tw_taps *t, int fused) {
    tw_f32x8 sums = {0};
    for (int32_t row = t->rows; row > 0; --row, x += t->x_row, w += t->w_row)
        for (int32_t i = t->columns; i > 0; --i, x += t->x_column, w += t->w_column)
            if (fused)
                for (int c = 0; c < TW_EIGHT; ++c) sums[c] = tw_fma(x[c], w[c], sums[c]);
            else
                sums += *(const tw_f32x8_any *)(const void *)x * *(const tw_f32x8_any *)(const void *)w;
    sums += *(const tw_f32x8_any *)(const void *)bias;
    tw_clamp_f32x8(&sums, t->limits.low, t->limits.high);
    memcpy(y, &sums, sizeof sums);
}
#endif

#endif
