/* SPDX-License-Identifier: Apache-2.0 */
/* What every kernel uses: the calling convention, clamping and gemmlowp's fixed-point arithmetic. */
#ifndef TW_H
#define TW_H

#include <float.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "place.h"

/* What kernels take for granted of a machine and its compiler. */
#ifdef __cplusplus
#define TW_NEED static_assert
#else
#define TW_NEED _Static_assert
#endif
TW_NEED(CHAR_BIT == 8 && sizeof(int) == sizeof(int32_t), "twinfer needs bytes of 8 bits and int of 32");
TW_NEED((-1 & 3) == 3 && INT_MIN >> 31 == -1, "twinfer needs two's complement and right shifts that keep the sign");
TW_NEED(FLT_RADIX == 2 && FLT_MANT_DIG == 24 && FLT_MAX_EXP == 128 && FLT_MIN_EXP == -125 && sizeof(float) == 4,
        "twinfer needs float to be IEEE 754's binary32");
/* Where a kernel computes with double. */
#define TW_NEED_DOUBLE "this kernel needs double to be IEEE 754's binary64"
/* Emitted code of models with floats says so: more bits than a float has, or another order of sums, change results. */
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#define TW_FAST_MATH 1
#else
#define TW_FAST_MATH 0
#endif
#define TW_NEED_FLOATS                                                                                                 \
    TW_NEED(!TW_FAST_MATH, "-Ofast and -ffast-math change what floats give: compile without them");                    \
    TW_NEED(FLT_EVAL_METHOD == 0 || FLT_EVAL_METHOD >= 16,                                                             \
            "floats are computed wider than float, which changes bits: on x86 compile with -msse2 -mfpmath=sse, "      \
            "on s390x with -fexcess-precision=fast")
/* Whether the lowest byte of a word comes first in memory. Where kernels read constants as words of bytes, emitted code
 * needs it. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define TW_LOW_FIRST 0
#else
#define TW_LOW_FIRST 1
#endif

#ifdef __cplusplus
#define TW_RESTRICT __restrict
#else
#define TW_RESTRICT restrict
#endif
#define TW_INLINE static inline __attribute__((always_inline, unused))
/* A function that is neither inlined nor copied, and of which callers assume nothing. A copy for a constant argument
 * would undo the sharing. Also, gcc 11 and 12 may wrongly conclude that a function writes nothing, and delete its
 * calls: if ivopts spells an address of the arena as NULL + number, later passes (pure-const, modref) take the store
 * for one through NULL. */
#if defined(__has_attribute)
#if __has_attribute(noipa)
#define TW_LAYER __attribute__((noipa, unused))
#endif
#endif
#if !defined(TW_LAYER) && defined(__clang__)
#define TW_LAYER __attribute__((noinline, unused))
#elif !defined(TW_LAYER)
#define TW_LAYER __attribute__((noinline, noclone, unused))
#endif
/* The same of a function that kernels call. */
#define TW_NOINLINE TW_LAYER TW_SECTION_KERNELS
/* A function that does little and should be small: compiled for size at every optimisation level. */
#define TW_COLD __attribute__((cold))

/* Before a loop of known length that compilers would fully unroll, which only costs flash. */
#if defined(__clang__)
#define TW_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define TW_ROLLED _Pragma("GCC unroll 1")
#endif

/* Before a short loop that is to be fully unrolled. */
#define TW_UNROLLED _Pragma("GCC unroll 8")

/* Whether vectors of 8 or 16 channels pay. Compilers fill them only where they know how many channels there are, so
 * kernels that go pixel by pixel have code for so many; elsewhere it would only cost flash. TW_VECTOR stands before such
 * a loop: one that is unrolled whole is no vector any longer. */
#if defined(__SSE2__) || defined(__ARM_NEON) || defined(__wasm_simd128__)
#define TW_FILLS 1
#define TW_VECTOR TW_ROLLED
#else
#define TW_FILLS 0
#define TW_VECTOR
#endif

/* Does what call says, an expression of c and n, for all channels: n of them from c on, at most most. */
#define TW_CHANNELS(channels, most, call)                                                                              \
    do {                                                                                                               \
        int32_t c = 0;                                                                                                 \
        if (TW_FILLS) {                                                                                                \
            for (const int32_t n = most; c <= (channels)-n; c += n) call;                                              \
            for (const int32_t n = 16; c <= (channels)-n; c += n) call;                                                \
            for (const int32_t n = 8; c <= (channels)-n; c += n) call;                                                 \
        }                                                                                                              \
        for (; c < (channels); c += most) {                                                                            \
            const int32_t n = tw_min((channels)-c, most);                                                              \
            call;                                                                                                      \
        }                                                                                                              \
    } while (0)

/* Kernels keep the reference's rounding: no hidden fused multiply-add (gcc: -ffp-contract=off). */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

/* A kernel's body. It is inlined into two places: into the shared instance, which reads its params at run time, and
 * into a compiled layer, where params is a constant and folds away. in, out and scratch are aligned to 16 bytes. */
#define TW_KERNEL(name)                                                                                                \
    TW_INLINE void name##_body(const name##_params *params, const void *const *in, void *const *out,                   \
                               void *scratch __attribute__((unused)))

/* The shared instance of a kernel: one uniform C signature for all. */
#define TW_SHARED(name, symbol)                                                                                        \
    TW_LAYER void symbol(const void *params, const void *const *in, void *const *out, void *scratch);                  \
    void symbol(const void *params, const void *const *in, void *const *out, void *scratch) {                          \
        name##_body((const name##_params *)params, in, out, scratch);                                                  \
    }

typedef void tw_fn(const void *params, const void *const *in, void *const *out, void *scratch);

/* One step of a plan, ready to run. */
typedef struct {
    tw_fn *fn;
    const void *params;
    const void *const *in;
    void *const *out;
    void *scratch;
} tw_call;

/* count bytes of x as uint8: x + 128. */
TW_INLINE void tw_bias128(uint8_t *to, const int8_t *from, int32_t count) {
    for (int32_t i = 0; i < count; ++i) to[i] = (uint8_t)((uint8_t)from[i] ^ 0x80U);
}

TW_INLINE int32_t tw_min(int32_t a, int32_t b) { return a < b ? a : b; }
TW_INLINE int32_t tw_max(int32_t a, int32_t b) { return a > b ? a : b; }
TW_INLINE int32_t tw_clamp(int32_t x, int32_t low, int32_t high) { return tw_min(tw_max(x, low), high); }
/* int64 between low and high; INT32_MIN and INT32_MAX bound nothing. */
TW_INLINE int64_t tw_clamp_wide(int64_t x, int32_t low, int32_t high) {
    if (low != INT32_MIN && x < low) return low;
    return high != INT32_MAX && x > high ? high : x;
}
/* A NaN stays NaN, and zeros keep their sign, as with std::min(std::max(x, low), high). */
TW_INLINE float tw_clampf(float x, float low, float high) {
    const float raised = x < low ? low : x;
    return raised > high ? high : raised;
}
/* As std::min(std::max(low, x), high): a NaN becomes low. Bounds may be infinite; a NaN stays one if low is. Source:
 * LiteRT's ApplyActivationToVector. */
TW_INLINE float tw_boundf(float x, float low, float high) {
    const float raised = x > low || low < -FLT_MAX ? x : low;
    return raised > high ? high : raised;
}

/* Cores whose multiplier gives the low 32 bits of a product only: 64 bits would take a call into libgcc. */
#if defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)
#define TW_HALVES 1
#endif

/* a * b / 2^(16 + shift) rounded half up from four products of 16-bit halves, shift 15 or 16: the two in the middle are
 * added in two steps, so that no sum leaves int32. */
TW_INLINE int32_t tw_mul_halves(int32_t a, int32_t b, int32_t shift) {
    const uint32_t a_low = (uint32_t)a & 0xFFFFU, b_low = (uint32_t)b & 0xFFFFU;
    const int32_t a_high = a >> 16, b_high = b >> 16;
    const int32_t one = a_high * (int32_t)b_low + (int32_t)(a_low * b_low >> 16) + (1 << (shift - 1));
    const int32_t other = (int32_t)a_low * b_high + (one & ((1 << shift) - 1));
    const uint32_t high = (uint32_t)(a_high * b_high) << (16 - shift);
    return (int32_t)(high + (uint32_t)(one >> shift) + (uint32_t)(other >> shift));
}

/* a * b / 2^31 rounded half up from two products of 16-bit halves, |a| < 2^16 and b >= 0. */
TW_INLINE int32_t tw_mul_halves_small(int32_t a, int32_t b) {
    const uint32_t low = (uint32_t)a & 0xFFFFU;
    const uint32_t product = low * ((uint32_t)b >> 16) + (low * ((uint32_t)b & 0xFFFFU) >> 16); /* below 2^31 */
    return ((int32_t)product - (a >> 31 & b) + (1 << 14)) >> 15;
}

/* a * b / 2^31 rounded half up, b >= 0 (a multiplier). This is gemmlowp's SaturatingRoundingDoublingHighMul: its
 * sign-dependent nudge before a truncating division has the same effect as adding 2^30 and shifting, and it saturates
 * only if both factors are INT32_MIN. */
TW_INLINE int32_t tw_mul_high(int32_t a, int32_t b) {
#if defined(TW_HALVES)
    return tw_mul_halves(a, b, 15);
#else
    return (int32_t)(((uint64_t)((int64_t)a * b) + (1u << 30)) >> 31); /* bits 31..62; logical shifts vectorise */
#endif
}

/* x / 2^exponent rounded half away from zero, exponent 0..31 (gemmlowp RoundingDivideByPOT). */
TW_INLINE int32_t tw_round_shift(int32_t x, int32_t exponent) {
    const int32_t mask = (int32_t)((1U << exponent) - 1);
    const int32_t threshold = (mask >> 1) + (x < 0 ? 1 : 0);
    return (x >> exponent) + ((x & mask) > threshold ? 1 : 0);
}

/* a + b without signed overflow: wraps as two's complement does. */
TW_INLINE int32_t tw_add(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }

/* a - b, likewise. */
TW_INLINE int32_t tw_subtract(int32_t a, int32_t b) { return (int32_t)((uint32_t)a - (uint32_t)b); }

/* a * b, likewise. */
TW_INLINE int32_t tw_times(int32_t a, int32_t b) { return (int32_t)((uint32_t)a * (uint32_t)b); }

/* The same in fewer steps if |x| < 2^30 or exponent is 0, as usual after tw_mul_high. */
TW_INLINE int32_t tw_round_shift_small(int32_t x, int32_t exponent) {
    const int32_t half = (int32_t)((1u << exponent) >> 1);
    return (x + half + ((x >> 31) & -(exponent > 0))) >> exponent;
}

/* x << shift without signed overflow: wraps as two's complement does. */
TW_INLINE int32_t tw_shift_left(int32_t x, int32_t shift) { return (int32_t)((uint32_t)x << shift); }

/* x * mult * 2^(shift - 31), rounded twice as TFLM does (MultiplyByQuantizedMultiplier). mult is in [2^30, 2^31) or 0. */
TW_INLINE int32_t tw_requantize(int32_t x, int32_t mult, int32_t shift) {
    const int32_t left = shift > 0 ? shift : 0;
    const int32_t right = shift > 0 ? 0 : -shift;
    return tw_round_shift(tw_mul_high(tw_shift_left(x, left), mult), right);
}

#endif
