/* Sums of products of float32, four rows of weights at once. Every sum adds its products one by one in their order, and
 * rounds each: the bits are the reference's. */
#ifndef TW_SUMS_F32_H
#define TW_SUMS_F32_H

#include "rows.h"

#if defined(__GNUC__) && defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M' && defined(__ARM_FP) && (__ARM_FP & 4)
/* acc[j] += x . w[j], rows of n >= 1, size from one to the next. In fours: 5 loads of four for 16 products. */
static TW_NOINLINE void __attribute__((unused))
tw_rows_f32(float *acc, const float *x, const float *w, int32_t n, int32_t size) {
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
#else
TW_INLINE void tw_rows_f32(float *TW_RESTRICT acc, const float *x, const float *w, int32_t n, int32_t size) {
    float sums[4];
    memcpy(sums, acc, sizeof sums);
    for (int32_t i = 0; i < n; ++i)
        for (int j = 0; j < 4; ++j) sums[j] += x[i] * w[j * size + i];
    memcpy(acc, sums, sizeof sums);
}
#endif

#endif
