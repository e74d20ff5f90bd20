/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of one float (of one integer: ABS, NEG, SIGN, SQRT, RSQRT); others of int8 and int16 have tables (lut.h). */
#ifndef TW_FUNCTIONS_H
#define TW_FUNCTIONS_H

#include <math.h>

#include "../core/each.h"
#include "../core/inverse_root.h"

TW_NEED(DBL_MANT_DIG == 53, TW_NEED_DOUBLE);

/* in: x [size] (may be planned in place). out: y [size]. int32 and int64 wrap: -INT32_MIN is INT32_MIN. */
typedef struct {
    int32_t size;
} tw_abs_f32_params;
typedef tw_abs_f32_params tw_abs_s32_params;
typedef tw_abs_f32_params tw_neg_f32_params;
typedef tw_abs_f32_params tw_neg_s32_params;
typedef tw_abs_f32_params tw_neg_s64_params;
typedef tw_abs_f32_params tw_sign_f32_params;
typedef tw_abs_f32_params tw_sign_f64_params;
typedef tw_abs_f32_params tw_sign_s32_params;
typedef tw_abs_f32_params tw_square_f32_params;
typedef tw_abs_f32_params tw_sqrt_f32_params;
typedef tw_abs_f32_params tw_rsqrt_f32_params;
typedef tw_abs_f32_params tw_exp_f32_params;
typedef tw_abs_f32_params tw_log_f32_params;
typedef tw_abs_f32_params tw_sin_f32_params;
typedef tw_abs_f32_params tw_cos_f32_params;
typedef tw_abs_f32_params tw_floor_f32_params;
typedef tw_abs_f32_params tw_ceil_f32_params;
typedef tw_abs_f32_params tw_round_f32_params;
typedef tw_abs_f32_params tw_elu_f32_params;
typedef tw_abs_f32_params tw_gelu_f32_params;
typedef tw_abs_f32_params tw_gelu_tanh_f32_params;

TW_INLINE float tw_abs_f32(float x) { return fabsf(x); }
TW_INLINE int32_t tw_neg_s32(int32_t x) { return (int32_t)(0U - (uint32_t)x); }
TW_INLINE int32_t tw_abs_s32(int32_t x) { return x < 0 ? tw_neg_s32(x) : x; }
TW_INLINE float tw_neg_f32(float x) { return -x; }
/* NaN gives 0. */
TW_INLINE float tw_sign_f32(float x) { return x != x ? x : (float)((x > 0.0f) - (x < 0.0f)); }
TW_INLINE double tw_sign_f64(double x) { return x != x ? x : (double)((x > 0.0) - (x < 0.0)); }
TW_INLINE int32_t tw_sign_s32(int32_t x) { return (x > 0) - (x < 0); }
TW_INLINE float tw_square_f32(float x) { return x * x; }
TW_INLINE float tw_sqrt_f32(float x) { return sqrtf(x); }
TW_INLINE float tw_rsqrt_f32(float x) { return 1.0f / sqrtf(x); }
TW_INLINE float tw_exp_f32(float x) { return expf(x); }
TW_INLINE float tw_log_f32(float x) { return logf(x); }
TW_INLINE float tw_sin_f32(float x) { return sinf(x); }
TW_INLINE float tw_cos_f32(float x) { return cosf(x); }
TW_INLINE float tw_floor_f32(float x) { return floorf(x); }
TW_INLINE float tw_ceil_f32(float x) { return ceilf(x); }
TW_INLINE float tw_elu_f32(float x) { return x < 0.0f ? expm1f(x) : x; }
/* Half to even, the default rounding mode of C; what is below 0 becomes 0.0, as in TFLM, not -0.0. */
TW_INLINE float tw_round_f32(float x) { return x < 0.0f ? rintf(x) + 0.0f : rintf(x); }
/* x / 2 * (1 + erf(x / sqrt(2))), in a form that stays precise if x is far below 0. */
TW_INLINE float tw_gelu_f32(float x) { return 0.5f * x * erfcf(x * -0.70710678118654752f); }
/* x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) */
TW_INLINE float tw_gelu_tanh_f32(float x) {
    return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
}

/* The body of the kernel that is named after its function. */
#define TW_FUNCTION(name, type) TW_EACH(name, type, type, name(x))

TW_KERNEL(tw_abs_f32) { TW_FUNCTION(tw_abs_f32, float); }
TW_KERNEL(tw_abs_s32) { TW_FUNCTION(tw_abs_s32, int32_t); }
TW_KERNEL(tw_neg_f32) { TW_FUNCTION(tw_neg_f32, float); }
TW_KERNEL(tw_neg_s32) { TW_FUNCTION(tw_neg_s32, int32_t); }
TW_KERNEL(tw_neg_s64) { TW_EACH(tw_neg_s64, int64_t, int64_t, UINT64_C(0) - (uint64_t)x); }
TW_KERNEL(tw_sign_f32) { TW_FUNCTION(tw_sign_f32, float); }
TW_KERNEL(tw_sign_f64) { TW_FUNCTION(tw_sign_f64, double); }
TW_KERNEL(tw_sign_s32) { TW_FUNCTION(tw_sign_s32, int32_t); }
TW_KERNEL(tw_square_f32) { TW_FUNCTION(tw_square_f32, float); }
TW_KERNEL(tw_sqrt_f32) { TW_FUNCTION(tw_sqrt_f32, float); }
TW_KERNEL(tw_rsqrt_f32) { TW_FUNCTION(tw_rsqrt_f32, float); }
TW_KERNEL(tw_exp_f32) { TW_FUNCTION(tw_exp_f32, float); }
TW_KERNEL(tw_log_f32) { TW_FUNCTION(tw_log_f32, float); }
TW_KERNEL(tw_sin_f32) { TW_FUNCTION(tw_sin_f32, float); }
TW_KERNEL(tw_cos_f32) { TW_FUNCTION(tw_cos_f32, float); }
TW_KERNEL(tw_floor_f32) { TW_FUNCTION(tw_floor_f32, float); }
TW_KERNEL(tw_ceil_f32) { TW_FUNCTION(tw_ceil_f32, float); }
TW_KERNEL(tw_round_f32) { TW_FUNCTION(tw_round_f32, float); }
TW_KERNEL(tw_elu_f32) { TW_FUNCTION(tw_elu_f32, float); }
TW_KERNEL(tw_gelu_f32) { TW_FUNCTION(tw_gelu_f32, float); }
TW_KERNEL(tw_gelu_tanh_f32) { TW_FUNCTION(tw_gelu_tanh_f32, float); }

/* int16 with zero points of 0, otherwise alike: x's magnitude (ABS) or -x (NEG) times mult * 2^(shift - 31), clamped.
 * mult 2^30..2^31-1 or 0, shift -31..14 (positive: left). */
typedef struct {
    int32_t size, mult, shift;
} tw_abs_s16_params;
typedef tw_abs_s16_params tw_neg_s16_params;

/* 2^20 / sqrt(x), rounded, times mult * 2^(shift - 31), clamped; the greatest value for x up to 0. shift -31..10. */
typedef tw_abs_s16_params tw_rsqrt_s16_params;

/* The square root of scale * x in steps, towards zero; 0 of negative values. scale and step are above 0. */
typedef struct {
    int32_t size;
    float scale, step;
} tw_sqrt_s16_params;

TW_INLINE int32_t tw_rescaled_s16(const tw_abs_s16_params *p, int32_t x) {
    return tw_clamp(tw_requantize(x, p->mult, p->shift), INT16_MIN, INT16_MAX);
}

TW_INLINE int32_t tw_sqrt_of_s16(const tw_sqrt_s16_params *p, int32_t x) {
    const float steps = sqrtf(p->scale * (float)tw_max(x, 0)) / p->step;
    return steps < (float)INT16_MAX ? (int32_t)steps : INT16_MAX;
}

TW_INLINE int32_t tw_rsqrt_of_s16(const tw_rsqrt_s16_params *p, int32_t x) {
    int32_t right;
    const int32_t mult = tw_inverse_root(tw_max(x, 1), &right);
    return x > 0 ? tw_rescaled_s16(p, tw_requantize(1, mult, 20 - right)) : INT16_MAX;
}

TW_KERNEL(tw_abs_s16) { TW_EACH(tw_abs_s16, int16_t, int16_t, tw_rescaled_s16(&p, x < 0 ? -x : x)); }
TW_KERNEL(tw_neg_s16) { TW_EACH(tw_neg_s16, int16_t, int16_t, tw_rescaled_s16(&p, -x)); }
TW_KERNEL(tw_rsqrt_s16) { TW_EACH(tw_rsqrt_s16, int16_t, int16_t, tw_rsqrt_of_s16(&p, x)); }
TW_KERNEL(tw_sqrt_s16) { TW_EACH(tw_sqrt_s16, int16_t, int16_t, tw_sqrt_of_s16(&p, x)); }

#endif
