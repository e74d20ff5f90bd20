/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of products of int8 for cores without vectors: a tile of rows of weights by pixels shares what it loads; it is
 * as large as the registers allow. Sums wrap as two's complement does. n: length of a row, at least 1; size: distance
 * between rows of weights. */
#ifndef TW_SUMS_H
#define TW_SUMS_H

#include "../isa/dsp/dsp.h"
#include "epilogue.h"
#include "rows.h"

/* Armv6-M and Armv8-M Baseline, and the rest of the M profile. The tiles need every register. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__) && !defined(TW_NO_ASM) &&                        \
    defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
#define TW_THUMB __ARM_ARCH_ISA_THUMB
#else
#define TW_THUMB 0
#endif

/* Rows and pixels of a convolution's tile. */
#if TW_THUMB == 1
#define TW_TILE_CHANNELS 4
#define TW_TILE_PIXELS 1
#else
#define TW_TILE_CHANNELS 2
#define TW_TILE_PIXELS 2
#endif
#define TW_TILE 4

/* Inlined, unless a product of 64 bits takes many instructions: then there is one copy, and a branch around a call of it
 * pays. */
#if defined(TW_HALVES)
#define TW_SHORT static TW_NOINLINE __attribute__((unused))
#define TW_SHORT_IS_DEAR 1
#else
#define TW_SHORT TW_INLINE
#define TW_SHORT_IS_DEAR 0
#endif

#if TW_THUMB == 1
/* acc[j] += x . w[j], four rows. Signed bytes can only be loaded at an offset in a register and into the eight low
 * registers, and only these multiply; so one index, which counts up to 0, serves all rows. The sums lie in high
 * registers. Compilers for size do not use those, so r8 and r9 are saved by hand. */
static TW_NOINLINE void __attribute__((unused))
tw_rows_s8(int32_t *acc, const int8_t *x, const int8_t *w, int32_t n, int32_t size) {
    int32_t s0 = (int32_t)(intptr_t)(w + n), s1 = s0 + size, s2 = s1 + size, s3 = s2 + size, i = -n, a, b, r8, r9;
#define TW_STEP                                                                                                        \
    "ldrsb %[a], [%[x], %[i]]\n"                                                                                       \
    "ldrsb %[b], [%[s0], %[i]]\n muls %[b], %[a]\n add r8, %[b]\n"                                                     \
    "ldrsb %[b], [%[s1], %[i]]\n muls %[b], %[a]\n add r9, %[b]\n"                                                     \
    "ldrsb %[b], [%[s2], %[i]]\n muls %[b], %[a]\n add ip, %[b]\n"                                                     \
    "ldrsb %[b], [%[s3], %[i]]\n muls %[a], %[b]\n add lr, %[a]\n"                                                     \
    "adds %[i], #1\n"
    __asm volatile(".syntax unified\n mov %[a], r8\n str %[a], %[r8]\n mov %[a], r9\n str %[a], %[r9]\n"
                   "movs %[a], #0\n mov r8, %[a]\n mov r9, %[a]\n mov ip, %[a]\n mov lr, %[a]\n"
                   "lsrs %[a], %[i], #1\n bcs 2f\n1:\n" TW_STEP "2:\n" TW_STEP "bne 1b\n"
                   "mov %[s0], r8\n mov %[s1], r9\n mov %[s2], ip\n mov %[s3], lr\n"
                   "ldr %[a], %[r8]\n mov r8, %[a]\n ldr %[a], %[r9]\n mov r9, %[a]"
                   : [s0] "+&l"(s0), [s1] "+&l"(s1), [s2] "+&l"(s2), [s3] "+&l"(s3), [i] "+l"(i), [a] "=&l"(a),
                     [b] "=&l"(b), [r8] "=m"(r8), [r9] "=m"(r9)
                   : [x] "l"(x + n)
                   : "cc", "memory", "ip", "lr");
#undef TW_STEP
    acc[0] += s0, acc[1] += s1, acc[2] += s2, acc[3] += s3;
}
#elif TW_THUMB == 2 && !defined(TW_DSP)
/* In fours, then the rest; n counts down. For the Cortex-M3; cores with SMLAD seldom use these kernels. */
#define TW_LOOP(step)                                                                                                  \
    ".syntax unified\n subs %[n], #4\n blt 2f\n"                                                                       \
    "1:\n" step step step step "subs %[n], #4\n bge 1b\n"                                                              \
    "2:\n adds %[n], #4\n beq 4f\n"                                                                                    \
    "3:\n" step "subs %[n], #1\n bne 3b\n4:\n"

/* The same where the compiler knows n, and that no rest is left, or one. */
#define TW_LOOP_WHOLE(step) ".syntax unified\n1:\n" step step step step "subs %[n], #4\n bne 1b\n"
#define TW_LOOP_ONE(step) ".syntax unified\n subs %[n], #1\n" TW_LOOP_WHOLE(step) step
#define TW_HAS_REST(n, rest) (__builtin_constant_p((n) > 3 && (n) % 4 == (rest)) && (n) > 3 && (n) % 4 == (rest))

/* The statement sums with the loop that suits n. */
#define TW_CHOOSE_LOOP(n, sums)                                                                                        \
    if (TW_HAS_REST(n, 0))                                                                                             \
        sums(TW_LOOP_WHOLE);                                                                                           \
    else if (TW_HAS_REST(n, 1))                                                                                        \
        sums(TW_LOOP_ONE);                                                                                             \
    else                                                                                                               \
        sums(TW_LOOP)

/* acc[j] += x . w[j], four rows. */
TW_INLINE void tw_rows_s8(int32_t *acc, const int8_t *x, const int8_t *w, int32_t n, int32_t size) {
    const int8_t *w1 = w + size, *w2 = w1 + size, *w3 = w2 + size;
    int32_t s0 = acc[0], s1 = acc[1], s2 = acc[2], s3 = acc[3], a, b, c;
#define TW_SUMS(loop)                                                                                                  \
    __asm volatile(                                                                                                    \
        loop("ldrsb %[a], [%[x]], #1\n ldrsb %[b], [%[w0]], #1\n ldrsb %[c], [%[w1]], #1\n"                            \
             "mla %[s0], %[a], %[b], %[s0]\n mla %[s1], %[a], %[c], %[s1]\n"                                           \
             "ldrsb %[b], [%[w2]], #1\n ldrsb %[c], [%[w3]], #1\n"                                                     \
             "mla %[s2], %[a], %[b], %[s2]\n mla %[s3], %[a], %[c], %[s3]\n")                                          \
        : [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3), [x] "+r"(x), [w0] "+r"(w), [w1] "+r"(w1),        \
          [w2] "+r"(w2), [w3] "+r"(w3), [n] "+r"(n), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c)                          \
        :                                                                                                              \
        : "cc", "memory")
    TW_CHOOSE_LOOP(n, TW_SUMS);
#undef TW_SUMS
    acc[0] = s0, acc[1] = s1, acc[2] = s2, acc[3] = s3;
}

/* acc[2 j + i] += x[i] . w[j], two rows and two pixels. */
TW_INLINE void tw_square_s8(int32_t *acc, const int8_t *x0, const int8_t *x1, const int8_t *w, int32_t n,
                            int32_t size) {
    const int8_t *w1 = w + size;
    int32_t s0 = acc[0], s1 = acc[1], s2 = acc[2], s3 = acc[3], a, b, c, d;
#define TW_SUMS(loop)                                                                                                  \
    __asm volatile(loop("ldrsb %[a], [%[x0]], #1\n ldrsb %[b], [%[x1]], #1\n"                                          \
                        "ldrsb %[c], [%[w0]], #1\n ldrsb %[d], [%[w1]], #1\n"                                          \
                        "mla %[s0], %[a], %[c], %[s0]\n mla %[s1], %[b], %[c], %[s1]\n"                                \
                        "mla %[s2], %[a], %[d], %[s2]\n mla %[s3], %[b], %[d], %[s3]\n")                               \
                   : [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3), [x0] "+r"(x0), [x1] "+r"(x1),         \
                     [w0] "+r"(w), [w1] "+r"(w1), [n] "+r"(n), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d)  \
                   :                                                                                                   \
                   : "cc", "memory")
    TW_CHOOSE_LOOP(n, TW_SUMS);
#undef TW_SUMS
    acc[0] = s0, acc[1] = s1, acc[2] = s2, acc[3] = s3;
}
#else
TW_INLINE void tw_rows_s8(int32_t *acc, const int8_t *x, const int8_t *w, int32_t n, int32_t size) {
    for (int32_t i = 0; i < n; ++i)
        for (int j = 0; j < 4; ++j) acc[j] = tw_add(acc[j], x[i] * w[j * size + i]);
}

TW_INLINE void tw_square_s8(int32_t *acc, const int8_t *x0, const int8_t *x1, const int8_t *w, int32_t n,
                            int32_t size) {
    for (int32_t i = 0; i < n; ++i)
        for (int j = 0; j < 2; ++j) {
            acc[2 * j] = tw_add(acc[2 * j], x0[i] * w[j * size + i]);
            acc[2 * j + 1] = tw_add(acc[2 * j + 1], x1[i] * w[j * size + i]);
        }
}
#endif

/* The output of a sum with its channel's mult and shift. */
TW_SHORT int8_t tw_end_s8(int32_t sum, int32_t mult, int32_t shift, const tw_channels_s8 *channels) {
    int32_t q;
    if (channels->fast)
        q = tw_scaled(2 * sum, mult, tw_rounding(channels->end.zero, -shift), -shift);
    else
        q = tw_add(tw_requantize(sum, mult, shift), channels->end.zero);
    return (int8_t)(channels->end.low > -128 || channels->end.high < 127
                        ? tw_clamp(q, channels->end.low, channels->end.high)
                        : tw_clamp8(q));
}

/* All channels of TW_TILE_PIXELS outputs of a convolution: y[i][c] = x[i] . w[c], rows of n. */
TW_INLINE void tw_outputs_s8(int8_t *const *y, const int8_t *const *x, const int8_t *w, int32_t n, int32_t out,
                             const tw_channels_s8 *channels) {
    const tw_rows rows = tw_rows_of(out, TW_TILE_CHANNELS);
    for (int32_t next = 0; next < out; next += rows.step) {
        const int32_t first = tw_min(next, out - rows.step);
        int32_t acc[TW_TILE];
        for (int k = 0; k < TW_TILE; ++k) acc[k] = channels->bias[first + k / TW_TILE_PIXELS * rows.apart];
#if TW_THUMB == 1
        tw_rows_s8(acc, x[0], w + first * n, n, rows.apart * n);
#else
        tw_square_s8(acc, x[0], x[1], w + first * n, n, rows.apart * n);
#endif
        for (int32_t k = 0, c = first; k < TW_TILE; k += TW_TILE_PIXELS, c += rows.apart) {
            const int32_t mult = channels->mult[c], shift = channels->shift[c];
            int8_t ends[TW_TILE_PIXELS]; /* before the first is written: compilers think channels might lie there */
            for (int i = 0; i < TW_TILE_PIXELS; ++i) ends[i] = tw_end_s8(acc[k + i], mult, shift, channels);
            for (int i = 0; i < TW_TILE_PIXELS; ++i) y[i][c] = ends[i];
        }
    }
}

#endif
