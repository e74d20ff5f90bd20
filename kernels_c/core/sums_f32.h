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
/* acc[j] += x . w[j], rows of n >= 1, size from one to the next. In fours: 5 loads of four for 16 products. */
static TW_NOINLINE void __attribute__((unused))
tw_rows_exact_f32(float *acc, const float *x, const float *w, int32_t n, int32_t size) {
    const float *w1 = w + size, *w2 = w1 + size, *w3 = w2 + size;
#define TW_STEP(x, a, b, c, d)                                                                                         \
    "vmul.f32 " a ", " x ", " a "\n vmul.f32 " b ", " x ", " b "\n"                                                    \
    "vmul.f32 " c ", " x ", " c "\n vmul.f32 " d ", " x ", " d "\n"                                                    \
    "vadd.f32 s0, s0, " a "\n vadd.f32 s1, s1, " b "\n vadd.f32 s2, s2, " c "\n vadd.f32 s3, s3, " d "\n"
    __asm volatile("vldmia %[acc], {s0-s3}\n subs %[n], #4\n blt 2f\n"
                   "1: vldmia %[x]!, {s4-s7}\n vldmia %[w0]!, {s8-s11}\n vldmia %[w1]!, {s12-s15}\n"
                   "vldmia %[w2]!, {s16-s19}\n vldmia %[w3]!, {s20-s23}\n" TW_STEP("s4", "s8", "s12", "s16", "s20")
                       TW_STEP("s5", "s9", "s13", "s17", "s21") TW_STEP("s6", "s10", "s14", "s18", "s22")
                           TW_STEP("s7", "s11", "s15", "s19",
                                   "s23") "subs %[n], #4\n bge 1b\n"
                                          "2: adds %[n], #4\n beq 4f\n"
                                          "3: vldmia %[x]!, {s4}\n vldmia %[w0]!, {s8}\n vldmia %[w1]!, {s12}\n"
                                          "vldmia %[w2]!, {s16}\n vldmia %[w3]!, {s20}\n" TW_STEP(
                                              "s4", "s8", "s12", "s16", "s20") "subs %[n], #1\n bne 3b\n"
                                                                               "4: vstmia %[acc], {s0-s3}"
                   : [x] "+r"(x), [w0] "+r"(w), [w1] "+r"(w1), [w2] "+r"(w2), [w3] "+r"(w3), [n] "+r"(n)
                   : [acc] "r"(acc)
                   : "cc", "memory", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12",
                     "s13", "s14", "s15", "s16", "s17", "s18", "s19", "s20", "s21", "s22", "s23");
#undef TW_STEP
}

/* The same by fused steps, runs times (runs >= 1); from the end of one run to the next, x and w go on by so many
 * floats. In eights: 9 loads for 32 products. */
static TW_NOINLINE void __attribute__((unused))
tw_runs_fused_f32(float *acc, const float *x, const float *w, int32_t n, int32_t size, int32_t runs, int32_t x_on,
                  int32_t w_on) {
    const float *w1 = w + size, *w2 = w1 + size, *w3 = w2 + size;
    int32_t left;
    /* clang-format off */
#define TW_LOAD "vldmia %[w0]!, {s12-s15}\n vldmia %[w1]!, {s16-s19}\n"                                                \
    "vldmia %[w2]!, {s20-s23}\n vldmia %[w3]!, {s24-s27}\n"
#define TW_STEP(x, a, b, c, d) "vfma.f32 s0, " x ", " a "\n vfma.f32 s1, " x ", " b "\n"                               \
    "vfma.f32 s2, " x ", " c "\n vfma.f32 s3, " x ", " d "\n"
#define TW_FOUR(a, b, c, d) TW_STEP(a, "s12", "s16", "s20", "s24") TW_STEP(b, "s13", "s17", "s21", "s25")              \
    TW_STEP(c, "s14", "s18", "s22", "s26") TW_STEP(d, "s15", "s19", "s23", "s27")
    __asm volatile("vldmia %[acc], {s0-s3}\n"
                   "0: subs %[left], %[n], #8\n blt 2f\n"
                   "1: vldmia %[x]!, {s4-s11}\n"
                   TW_LOAD TW_FOUR("s4", "s5", "s6", "s7") TW_LOAD TW_FOUR("s8", "s9", "s10", "s11")
                   "subs %[left], #8\n bge 1b\n"
                   "2: adds %[left], #4\n blt 3f\n"
                   "vldmia %[x]!, {s4-s7}\n" TW_LOAD TW_FOUR("s4", "s5", "s6", "s7") "subs %[left], #4\n"
                   "3: adds %[left], #4\n beq 5f\n"
                   "4: vldmia %[x]!, {s4}\n vldmia %[w0]!, {s12}\n vldmia %[w1]!, {s16}\n"
                   "vldmia %[w2]!, {s20}\n vldmia %[w3]!, {s24}\n" TW_STEP("s4", "s12", "s16", "s20", "s24")
                   "subs %[left], #1\n bne 4b\n"
                   "5: add %[x], %[x], %[x_on], lsl #2\n add %[w0], %[w0], %[w_on], lsl #2\n"
                   "add %[w1], %[w1], %[w_on], lsl #2\n add %[w2], %[w2], %[w_on], lsl #2\n"
                   "add %[w3], %[w3], %[w_on], lsl #2\n subs %[runs], #1\n bne 0b\n"
                   "vstmia %[acc], {s0-s3}"
                   : [x] "+r"(x), [w0] "+r"(w), [w1] "+r"(w1), [w2] "+r"(w2), [w3] "+r"(w3), [runs] "+r"(runs),
                     [left] "=&r"(left)
                   : [acc] "r"(acc), [n] "r"(n), [x_on] "r"(x_on), [w_on] "r"(w_on)
                   : "cc", "memory", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12",
                     "s13", "s14", "s15", "s16", "s17", "s18", "s19", "s20", "s21", "s22", "s23", "s24", "s25", "s26",
                     "s27");
#undef TW_LOAD
#undef TW_STEP
#undef TW_FOUR
    /* clang-format on */
}

TW_INLINE void tw_rows_f32(float *acc, const float *x, const float *w, int32_t n, int32_t size, int fused) {
    if (fused)
        tw_runs_fused_f32(acc, x, w, n, size, 1, 0, 0);
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
/* y[j] = clamp(bias[j] + the sum of x[j] * w[j] over all taps), eight channels. */
static TW_NOINLINE void __attribute__((unused))
tw_eight_exact_f32(float *y, const float *x, const float *w, const float *bias, const tw_taps *t) {
    int32_t i, rows = t->rows;
#define TW_MUL(a, b) "vmul.f32 " a ", " a ", " b "\n"
#define TW_ADD(a, b) "vadd.f32 " a ", " a ", " b "\n"
    memset(y, 0, TW_EIGHT * sizeof *y);
    __asm volatile(
        "vldmia %[y], {s0-s7}\n"
        "1: mov %[i], %[columns]\n"
        "2: vldmia %[x], {s8-s15}\n vldmia %[w], {s16-s23}\n" TW_MUL("s8", "s16") TW_MUL("s9", "s17") TW_MUL(
            "s10", "s18") TW_MUL("s11", "s19") TW_MUL("s12", "s20") TW_MUL("s13", "s21") TW_MUL("s14", "s22")
            TW_MUL("s15", "s23") TW_ADD("s0", "s8") TW_ADD("s1", "s9") TW_ADD("s2", "s10") TW_ADD("s3", "s11")
                TW_ADD("s4", "s12") TW_ADD("s5", "s13") TW_ADD("s6", "s14") TW_ADD(
                    "s7",
                    "s15") "add %[x], %[x], %[xc], lsl #2\n add %[w], %[w], %[wc], lsl #2\n subs %[i], #1\n bne 2b\n"
                           "add %[x], %[x], %[xr], lsl #2\n add %[w], %[w], %[wr], lsl #2\n subs %[rows], #1\n bne 1b\n"
                           "vstmia %[y], {s0-s7}"
        : [x] "+r"(x), [w] "+r"(w), [rows] "+r"(rows), [i] "=&r"(i)
        : [y] "r"(y), [columns] "r"(t->columns), [xc] "r"(t->x_column), [wc] "r"(t->w_column), [xr] "r"(t->x_row),
          [wr] "r"(t->w_row)
        : "cc", "memory", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s13", "s14",
          "s15", "s16", "s17", "s18", "s19", "s20", "s21", "s22", "s23");
#undef TW_MUL
#undef TW_ADD
    for (i = 0; i < TW_EIGHT; ++i) y[i] = tw_clampf(y[i] + bias[i], t->limits.low, t->limits.high);
}

static TW_NOINLINE void __attribute__((unused))
tw_eight_fused_f32(float *y, const float *x, const float *w, const float *bias, const tw_taps *t) {
    int32_t i, rows = t->rows;
    memset(y, 0, TW_EIGHT * sizeof *y);
    /* clang-format off */
    __asm volatile(
        "vldmia %[y], {s0-s7}\n"
        "1: mov %[i], %[columns]\n"
        "2: vldmia %[x], {s8-s15}\n vldmia %[w], {s16-s23}\n"
        "vfma.f32 s0, s8, s16\n vfma.f32 s1, s9, s17\n vfma.f32 s2, s10, s18\n vfma.f32 s3, s11, s19\n"
        "vfma.f32 s4, s12, s20\n vfma.f32 s5, s13, s21\n vfma.f32 s6, s14, s22\n vfma.f32 s7, s15, s23\n"
        "add %[x], %[x], %[xc], lsl #2\n add %[w], %[w], %[wc], lsl #2\n subs %[i], #1\n bne 2b\n"
        "add %[x], %[x], %[xr], lsl #2\n add %[w], %[w], %[wr], lsl #2\n subs %[rows], #1\n bne 1b\n"
        "vstmia %[y], {s0-s7}"
        : [x] "+r"(x), [w] "+r"(w), [rows] "+r"(rows), [i] "=&r"(i)
        : [y] "r"(y), [columns] "r"(t->columns), [xc] "r"(t->x_column), [wc] "r"(t->w_column), [xr] "r"(t->x_row),
          [wr] "r"(t->w_row)
        : "cc", "memory", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s13", "s14",
          "s15", "s16", "s17", "s18", "s19", "s20", "s21", "s22", "s23");
    /* clang-format on */
    for (i = 0; i < TW_EIGHT; ++i) y[i] = tw_clampf(y[i] + bias[i], t->limits.low, t->limits.high);
}

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
