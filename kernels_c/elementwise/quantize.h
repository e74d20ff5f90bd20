/* SPDX-License-Identifier: Apache-2.0 */
/* QUANTIZE: float32 to integers, and integers of one scale to integers of another. 8 bits to 8: lut.h. */
#ifndef TW_QUANTIZE_H
#define TW_QUANTIZE_H

#include "../core/each.h"

#if defined(__wasm_simd128__)
#include <wasm_simd128.h>
#endif

/* x / scale rounded half away from zero, clamped to low..high (|low|, |high| < 2^17). NaN gives low; in the reference
 * that depends on the machine. */
TW_INLINE int32_t tw_quantized(float x, float scale, float low, float high) {
    const float real = x / scale;
    const float raised = real > low ? real : low;
    const float bounded = raised < high ? raised : high;
    const int32_t twice = (int32_t)(bounded * 2.0f); /* truncated towards zero: keeps the half, drops the rest */
    return (twice + 1 + (twice >> 31)) >> 1;
}

/* in: x float32 [size]. out: y [size], 8 bits (signed or not, by low and high) or int16. low and high: the range of the
 * type less zero. reciprocal is 2^54 / the 24-bit mantissa of scale (2^30..2^31-1), exponent the biased one of scale
 * plus 30; scale is 2^-100..2^100, or exponent is 0. */
typedef struct {
    int32_t size, zero, low, high, reciprocal, exponent;
    float scale;
} tw_quantize_f32_8_params;
typedef tw_quantize_f32_8_params tw_quantize_f32_s16_params;

/* tw_quantized by integers, for cores without floats: the quotient with 30 bits after its leading one, and a true
 * division only beyond 17 bits, or so near a bound of rounding that the last bits decide. */
TW_INLINE int32_t tw_quantized_bits(const tw_quantize_f32_8_params *p, float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int32_t n = p->exponent - (int32_t)(bits >> 23 & 255U); /* bits after the point */
    if (n > 31) return 0;
    if (n > 12) {
        const int32_t mantissa = (int32_t)(((bits & 0x7FFFFFU) | 0x800000U) << 7);
        const uint32_t sum = (uint32_t)tw_mul_high(mantissa, p->reciprocal) + (1U << (n - 1));
        const uint32_t rest = sum & ((1U << n) - 1);
        const int32_t whole = (int32_t)(sum >> n);
        if (rest - 256 < (1U << n) - 512) return tw_clamp(bits >> 31 ? -whole : whole, p->low, p->high);
    }
    return tw_quantized(x, p->scale, (float)p->low, (float)p->high);
}

/* One of the two; low and high come as floats, so that the loop need not convert them. */
TW_INLINE int32_t tw_quantized_any(const tw_quantize_f32_8_params *p, float x, float low, float high) {
#if defined(__arm__) && !defined(__ARM_FP)
    (void)low, (void)high;
    if (p->exponent) return tw_quantized_bits(p, x);
#endif
    return tw_quantized(x, p->scale, low, high);
}

/* int8 to uint8 of the same scale with a zero point 128 higher, or back: the highest bit is flipped. in: x [size] (may
 * be planned in place). out: y [size]. */
typedef struct {
    int32_t size;
} tw_flip_params;

TW_KERNEL(tw_flip) { TW_EACH(tw_flip, uint8_t, uint8_t, x ^ 0x80U); }

#define TW_QUANTIZE(name, type)                                                                                        \
    const float low = (float)params->low, high = (float)params->high;                                                  \
    TW_EACH_APART(name, float, type, tw_quantized_any(&p, x, low, high) + p.zero)

#if defined(__wasm_simd128__)
/* tw_quantized of four. */
TW_INLINE v128_t tw_quantized128(const float *x, float scale, float low, float high) {
    const v128_t real = wasm_f32x4_div(wasm_v128_load(x), wasm_f32x4_splat(scale));
    const v128_t bounded = wasm_f32x4_pmin(wasm_f32x4_splat(high), wasm_f32x4_pmax(wasm_f32x4_splat(low), real));
    const v128_t twice = wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_add(bounded, bounded));
    const v128_t raised = wasm_i32x4_add(wasm_i32x4_add(twice, wasm_i32x4_const_splat(1)), wasm_i32x4_shr(twice, 31));
    return wasm_i32x4_shr(raised, 1);
}

/* Eight, with zero added, of which the lower bytes are left. */
TW_INLINE v128_t tw_quantized_bytes128(const float *x, const tw_quantize_f32_8_params *p, float low, float high) {
    const v128_t words =
        wasm_i16x8_narrow_i32x4(tw_quantized128(x, p->scale, low, high), tw_quantized128(x + 4, p->scale, low, high));
    return wasm_v128_and(wasm_i16x8_add(words, wasm_i16x8_splat((int16_t)p->zero)), wasm_i16x8_const_splat(255));
}

/* At least 16, so many at a time: in half of the time that clang takes, who stores four bytes at a time. The last may
 * be some again. */
TW_INLINE void tw_quantize_wasm(const void *const *in, void *const *out, const tw_quantize_f32_8_params *params) {
    const float low = (float)params->low, high = (float)params->high;
    for (int32_t i = 0; i < params->size; i += 16) {
        const int32_t at = tw_min(i, params->size - 16);
        const float *x = (const float *)in[0] + at;
        wasm_v128_store((uint8_t *)out[0] + at,
                        wasm_u8x16_narrow_i16x8(tw_quantized_bytes128(x, params, low, high),
                                                tw_quantized_bytes128(x + 8, params, low, high)));
    }
}
#endif

TW_KERNEL(tw_quantize_f32_8) {
#if defined(__wasm_simd128__)
    if (params->size >= 16) {
        tw_quantize_wasm(in, out, params);
        return;
    }
#endif
    TW_QUANTIZE(tw_quantize_f32_8, uint8_t);
}

TW_KERNEL(tw_quantize_f32_s16) { TW_QUANTIZE(tw_quantize_f32_s16, int16_t); }

/* in: x [size] (may be planned in place if the types are the same). out: y [size]. mult 2^30..2^31-1 or 0, shift
 * -31..30 (positive: left), zero points and low..high in the range of their types. Overflow wraps, as in TFLM. */
typedef struct {
    int32_t size, zero, mult, shift, out_zero, low, high;
} tw_quantize_s8_s16_params;
typedef tw_quantize_s8_s16_params tw_quantize_u8_s16_params;
typedef tw_quantize_s8_s16_params tw_quantize_s8_s32_params;
typedef tw_quantize_s8_s16_params tw_quantize_s16_s8_params;
typedef tw_quantize_s8_s16_params tw_quantize_s16_s16_params;
typedef tw_quantize_s8_s16_params tw_quantize_s16_s32_params;
typedef tw_quantize_s8_s16_params tw_quantize_s32_s8_params;
typedef tw_quantize_s8_s16_params tw_quantize_s32_s16_params;

TW_INLINE int32_t tw_requantized(const tw_quantize_s8_s16_params *p, int32_t x) {
    const int32_t scaled = tw_requantize((int32_t)((uint32_t)x - (uint32_t)p->zero), p->mult, p->shift);
    return tw_clamp(tw_add(scaled, p->out_zero), p->low, p->high);
}

TW_KERNEL(tw_quantize_s8_s16) { TW_EACH_APART(tw_quantize_s8_s16, int8_t, int16_t, tw_requantized(&p, x)); }
TW_KERNEL(tw_quantize_u8_s16) { TW_EACH_APART(tw_quantize_u8_s16, uint8_t, int16_t, tw_requantized(&p, x)); }
TW_KERNEL(tw_quantize_s8_s32) { TW_EACH_APART(tw_quantize_s8_s32, int8_t, int32_t, tw_requantized(&p, x)); }
TW_KERNEL(tw_quantize_s16_s8) { TW_EACH_APART(tw_quantize_s16_s8, int16_t, int8_t, tw_requantized(&p, x)); }
TW_KERNEL(tw_quantize_s16_s16) { TW_EACH(tw_quantize_s16_s16, int16_t, int16_t, tw_requantized(&p, x)); }
TW_KERNEL(tw_quantize_s16_s32) { TW_EACH_APART(tw_quantize_s16_s32, int16_t, int32_t, tw_requantized(&p, x)); }
TW_KERNEL(tw_quantize_s32_s8) { TW_EACH_APART(tw_quantize_s32_s8, int32_t, int8_t, tw_requantized(&p, x)); }
TW_KERNEL(tw_quantize_s32_s16) { TW_EACH_APART(tw_quantize_s32_s16, int32_t, int16_t, tw_requantized(&p, x)); }

#endif
