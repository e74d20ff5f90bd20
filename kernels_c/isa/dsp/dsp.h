/* SPDX-License-Identifier: Apache-2.0 */
/* The DSP extension of Armv7E-M and Armv8-M (Cortex-M4, M7, M33), one instruction per helper, or the same in plain C
 * where the extension is absent: kernels give the same bits everywhere.
 *
 * Words hold two int16 ("halves", the low one first) or four int8 in memory order. Sums wrap as two's complement
 * does. */
#ifndef TW_DSP_H
#define TW_DSP_H

#include "../../core/tw.h"

#if defined(__ARM_FEATURE_DSP) && __ARM_FEATURE_DSP && defined(__GNUC__)
#define TW_DSP 1
#include <arm_acle.h>
#endif

/* Loops in assembly take every register. Debug builds do not have them; define TW_NO_ASM if a flag reserves a register,
 * such as -fno-omit-frame-pointer. */
#if defined(TW_DSP) && defined(__OPTIMIZE__) && !defined(TW_NO_ASM)
#define TW_DSP_LOOPS 1
#endif

/* A word of memory as one whose lowest byte comes first, and the other way round. */
TW_INLINE uint32_t tw_low_first(uint32_t word) { return TW_LOW_FIRST ? word : __builtin_bswap32(word); }

/* Four bytes or two halves as a word; no alignment needed. */
TW_INLINE uint32_t tw_word(const void *p) {
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return tw_low_first(word);
}

/* Four bytes from or to an address that is a multiple of 4. */
TW_INLINE uint32_t tw_load4(const void *p) {
    uint32_t word;
    memcpy(&word, __builtin_assume_aligned(p, 4), sizeof word);
    return tw_low_first(word);
}
TW_INLINE void tw_store4(void *p, uint32_t word) {
    word = tw_low_first(word);
    memcpy(__builtin_assume_aligned(p, 4), &word, sizeof word);
}

/* Four int8, at an address that is a multiple of 4, as unsigned bytes. */
TW_INLINE uint32_t tw_unsigned4(const int8_t *p) { return tw_load4(p) ^ 0x80808080U; }

TW_INLINE int32_t tw_low(uint32_t x) { return (int16_t)(uint16_t)(x & 0xFFFFU); }
TW_INLINE int32_t tw_high(uint32_t x) { return (int16_t)(uint16_t)(x >> 16); }

/* A word of two halves: a's low half in the low one, b's low half in the high one. */
TW_INLINE uint32_t tw_pack(uint32_t a, uint32_t b) {
#if defined(TW_DSP)
    uint32_t r;
    __asm("pkhbt %0, %1, %2, lsl #16" : "=r"(r) : "r"(a), "r"(b));
    return r;
#else
    return (a & 0xFFFFU) | (b << 16);
#endif
}

/* The high halves: a's in the low one, b's in the high one. */
TW_INLINE uint32_t tw_pack_tops(uint32_t a, uint32_t b) {
#if defined(TW_DSP)
    uint32_t r;
    __asm("pkhtb %0, %2, %1, asr #16" : "=r"(r) : "r"(a), "r"(b));
    return r;
#else
    return (a >> 16) | (b & 0xFFFF0000U);
#endif
}

/* Bytes 0 and 2 of a word as halves. */
TW_INLINE uint32_t tw_even(uint32_t x) {
#if defined(TW_DSP)
    return (uint32_t)__sxtb16((int32_t)x);
#else
    return tw_pack((uint32_t)(int8_t)(x & 0xFFU), (uint32_t)(int8_t)(x >> 16 & 0xFFU));
#endif
}

/* Bytes 1 and 3 of a word as halves. */
TW_INLINE uint32_t tw_odd(uint32_t x) {
#if defined(TW_DSP)
    uint32_t r;
    __asm("sxtb16 %0, %1, ror #8" : "=r"(r) : "r"(x));
    return r;
#else
    return tw_even(x >> 8);
#endif
}

/* a + b in both halves, and a - b. */
TW_INLINE uint32_t tw_plus(uint32_t a, uint32_t b) {
#if defined(TW_DSP)
    return (uint32_t)__sadd16((int32_t)a, (int32_t)b);
#else
    return tw_pack(a + b, (a >> 16) + (b >> 16));
#endif
}

TW_INLINE uint32_t tw_minus(uint32_t a, uint32_t b) {
#if defined(TW_DSP)
    return (uint32_t)__ssub16((int32_t)a, (int32_t)b);
#else
    return tw_pack(a - b, (a >> 16) - (b >> 16));
#endif
}

/* acc + a.low * b.low + a.high * b.high. */
TW_INLINE int32_t tw_dual(uint32_t a, uint32_t b, int32_t acc) {
#if defined(TW_DSP)
    return __smlad((int32_t)a, (int32_t)b, acc);
#else
    return tw_add(acc, tw_add(tw_low(a) * tw_low(b), tw_high(a) * tw_high(b)));
#endif
}

/* The same in 64 bits. */
TW_INLINE int64_t tw_dual64(uint32_t a, uint32_t b, int64_t acc) {
#if defined(TW_DSP)
    return __smlald((int32_t)a, (int32_t)b, acc);
#else
    return acc + (int64_t)tw_low(a) * tw_low(b) + (int64_t)tw_high(a) * tw_high(b);
#endif
}

/* acc + one half of a * one half of b: low and low, low and high. */
TW_INLINE int32_t tw_low_low(uint32_t a, uint32_t b, int32_t acc) {
#if defined(TW_DSP)
    return __smlabb((int32_t)a, (int32_t)b, acc);
#else
    return tw_add(acc, tw_low(a) * tw_low(b));
#endif
}

TW_INLINE int32_t tw_low_high(uint32_t a, uint32_t b, int32_t acc) {
#if defined(TW_DSP)
    return __smlabt((int32_t)a, (int32_t)b, acc);
#else
    return tw_add(acc, tw_low(a) * tw_high(b));
#endif
}

/* a * b / 2^32 rounded half up. */
TW_INLINE int32_t tw_top(int32_t a, int32_t b) {
#if defined(TW_DSP)
    int32_t r;
    __asm("smmulr %0, %1, %2" : "=r"(r) : "r"(a), "r"(b));
    return r;
#else
    return (int32_t)(((uint64_t)((int64_t)a * b) + 0x80000000U) >> 32);
#endif
}

/* a * b / 2^32 + c, rounded half up. */
TW_INLINE int32_t tw_mul_top(int32_t a, int32_t b, int32_t c) {
#if defined(TW_DSP)
    int32_t r;
    __asm("smmlar %0, %1, %2, %3" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
#elif defined(TW_HALVES)
    return tw_add(tw_mul_halves(a, b, 16), c);
#else
    return (int32_t)(((uint64_t)((int64_t)a * b) + ((uint64_t)(uint32_t)c << 32) + 0x80000000U) >> 32); /* one SMLAL */
#endif
}

/* a * b / 2^32, rounded down. */
TW_INLINE int32_t tw_high32(int32_t a, int32_t b) { return (int32_t)((int64_t)a * b >> 32); }

/* Four unsigned bytes of a word added to halves: bytes 0 and 2, bytes 1 and 3. Up to 257 additions fit. */
TW_INLINE uint32_t tw_add_even(uint32_t sums, uint32_t x) {
#if defined(TW_DSP)
    uint32_t r;
    __asm("uxtab16 %0, %1, %2" : "=r"(r) : "r"(sums), "r"(x));
    return r;
#else
    return sums + (x & 0x00FF00FFU);
#endif
}

TW_INLINE uint32_t tw_add_odd(uint32_t sums, uint32_t x) {
#if defined(TW_DSP)
    uint32_t r;
    __asm("uxtab16 %0, %1, %2, ror #8" : "=r"(r) : "r"(sums), "r"(x));
    return r;
#else
    return sums + (x >> 8 & 0x00FF00FFU);
#endif
}

/* The greater of each pair of four unsigned bytes. */
TW_INLINE uint32_t tw_greater4(uint32_t a, uint32_t b) {
#if defined(TW_DSP)
    uint32_t r;
    __asm("usub8 %0, %1, %2\n\tsel %0, %1, %2" : "=&r"(r) : "r"(a), "r"(b) : "cc");
    return r;
#else
    const uint32_t tops = 0x80808080U, low = (a | tops) - (b & ~tops); /* top bits: a >= b below the top bits */
    const uint32_t bits = (((a & ~b) | (~(a ^ b) & low)) & tops) >> 7; /* 1 where a >= b */
    const uint32_t mask = (bits << 8) - bits;                          /* 255 where a >= b */
    return (a & mask) | (b & ~mask);
#endif
}

/* x clamped to -128..127. */
TW_INLINE int32_t tw_clamp8(int32_t x) {
#if defined(__ARM_FEATURE_SAT) && defined(__GNUC__)
    int32_t r;
    __asm("ssat %0, #8, %1" : "=r"(r) : "r"(x));
    return r;
#else
    return tw_clamp(x, -128, 127);
#endif
}

/* tw_clamp8(x >> shift), shift 1..31: one instruction if the compiler knows the shift. */
TW_INLINE int32_t tw_shift_clamp8(int32_t x, int32_t shift) {
#if defined(__ARM_FEATURE_SAT) && defined(__GNUC__) && defined(__OPTIMIZE__)
    if (__builtin_constant_p(shift)) {
        int32_t r;
        __asm("ssat %0, #8, %1, asr %2" : "=r"(r) : "r"(x), "I"(shift));
        return r;
    }
#endif
    return tw_clamp8(x >> shift);
}

/* x clamped to low..high: one instruction if the compiler knows these as the range of int16 or its positive half, as
 * without an activation or with RELU. */
TW_INLINE int16_t tw_clamp_s16(int32_t x, int32_t low, int32_t high) {
#if defined(__ARM_FEATURE_SAT) && defined(__GNUC__) && defined(__OPTIMIZE__)
    if (__builtin_constant_p(low) && __builtin_constant_p(high) && high == INT16_MAX &&
        (low == INT16_MIN || low == 0)) {
        int32_t r;
        if (low == 0)
            __asm("usat %0, #15, %1" : "=r"(r) : "r"(x));
        else
            __asm("ssat %0, #16, %1" : "=r"(r) : "r"(x));
        return (int16_t)r;
    }
#endif
    return (int16_t)tw_clamp(x, low, high);
}

/* What tw_scaled adds before its shift: half of a step, and the output's zero point in steps. zero -128..127, shift
 * 1..22. */
TW_INLINE int32_t tw_rounding(int32_t zero, int32_t shift) { return tw_shift_left(2 * zero + 1, shift) >> 1; }

/* tw_requantize(twice / 2, mult, -shift) + zero in three instructions: exact for |twice| < 2^31 and shift 1..22, if the
 * product is below 2^30. mult: 2^30..2^31-1 or 0. rounding: tw_rounding(zero, shift). Halves round away from zero, so
 * negative sums get one less; if such a sum times mult is 0, the half step makes up for it. */
TW_INLINE int32_t tw_scaled(int32_t twice, int32_t mult, int32_t rounding, int32_t shift) {
    return (tw_mul_top(twice, mult, rounding) + (twice >> 31)) >> shift;
}

/* The same for |sum| < 2^16, not doubled. */
TW_INLINE int32_t tw_scaled_small(int32_t sum, int32_t mult, int32_t rounding, int32_t shift) {
#if defined(TW_HALVES)
    return (tw_mul_halves_small(sum, mult) + rounding + (sum >> 31)) >> shift;
#else
    return tw_scaled(2 * sum, mult, rounding, shift);
#endif
}

/* tw_requantize(twice / 2, mult, shift) for shifts to either side, -28..30, if twice shifted to the left fits. */
TW_INLINE int32_t tw_scaled_either(int32_t twice, int32_t mult, int32_t shift) {
    if (shift >= 0) return tw_top(tw_shift_left(twice, shift), mult);
    return tw_scaled(twice, mult, tw_rounding(0, -shift), -shift);
}

#endif
