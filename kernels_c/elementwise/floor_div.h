/* SPDX-License-Identifier: Apache-2.0 */
/* FLOOR_DIV, FLOOR_MOD and ATAN2 of the stored values, with broadcasting. */
#ifndef TW_FLOOR_DIV_H
#define TW_FLOOR_DIV_H

#include <math.h>

#include "../core/broadcast.h"

/* All kernels here have in: a, b (either may be planned in place if it has the output's shape). out: y [walk]. tile is
 * 1. Integers wrap. */
typedef struct {
    tw_walk walk;
} tw_floor_div_f32_params;
typedef tw_floor_div_f32_params tw_floor_div_s8_params;
typedef tw_floor_div_f32_params tw_floor_div_s16_params;
typedef tw_floor_div_f32_params tw_floor_div_s32_params;
typedef tw_floor_div_f32_params tw_floor_mod_f32_params;
typedef tw_floor_div_f32_params tw_floor_mod_s8_params;
typedef tw_floor_div_f32_params tw_floor_mod_s16_params;
typedef tw_floor_div_f32_params tw_floor_mod_s32_params;
typedef tw_floor_div_f32_params tw_floor_mod_s64_params;
typedef tw_floor_div_f32_params tw_atan2_f32_params;
typedef tw_floor_div_f32_params tw_atan2_f64_params;

/* Rounded down. Division by zero saturates, 0 / 0 is 0. */
TW_INLINE int32_t tw_floor_quotient(int32_t a, int32_t b, int32_t least, int32_t most) {
    if (b == 0) return a == 0 ? 0 : a > 0 ? most : least;
    if (b == -1) return (int32_t)(0U - (uint32_t)a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

/* What is left has the sign of b; 0 if b is 0. */
TW_INLINE int64_t tw_floor_rest(int64_t a, int64_t b) {
    if (b == 0 || b == -1) return 0;
    const int64_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/* The same in 32 bits. */
TW_INLINE int32_t tw_floor_rest_s32(int32_t a, int32_t b) {
    if (b == 0 || b == -1) return 0;
    const int32_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/* A rest of 0 keeps the sign of a. */
TW_INLINE float tw_floor_rest_f32(float a, float b) {
    const float rest = fmodf(a, b);
    return rest != 0.0f && (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}

/* The quotient is rounded to float64 before it is rounded down, as TFLM does. */
TW_PAIR(tw_floor_div_f32, float, float, float, floor((double)a / (double)b))
TW_PAIR(tw_floor_div_s8, int8_t, int8_t, int8_t, tw_floor_quotient(a, b, INT8_MIN, INT8_MAX))
TW_PAIR(tw_floor_div_s16, int16_t, int16_t, int16_t, tw_floor_quotient(a, b, INT16_MIN, INT16_MAX))
TW_PAIR(tw_floor_div_s32, int32_t, int32_t, int32_t, tw_floor_quotient(a, b, INT32_MIN, INT32_MAX))
TW_PAIR(tw_floor_mod_f32, float, float, float, tw_floor_rest_f32(a, b))
TW_PAIR(tw_floor_mod_s8, int8_t, int8_t, int8_t, tw_floor_rest_s32(a, b))
TW_PAIR(tw_floor_mod_s16, int16_t, int16_t, int16_t, tw_floor_rest_s32(a, b))
TW_PAIR(tw_floor_mod_s32, int32_t, int32_t, int32_t, tw_floor_rest_s32(a, b))
TW_PAIR(tw_floor_mod_s64, int64_t, int64_t, int64_t, tw_floor_rest(a, b))
TW_PAIR(tw_atan2_f32, float, float, float, atan2f(a, b))
TW_PAIR(tw_atan2_f64, double, double, double, atan2(a, b))

TW_KERNEL(tw_floor_div_f32) { TW_EACH_PAIR(tw_floor_div_f32); }
TW_KERNEL(tw_floor_div_s8) { TW_EACH_PAIR(tw_floor_div_s8); }
TW_KERNEL(tw_floor_div_s16) { TW_EACH_PAIR(tw_floor_div_s16); }
TW_KERNEL(tw_floor_div_s32) { TW_EACH_PAIR(tw_floor_div_s32); }
TW_KERNEL(tw_floor_mod_f32) { TW_EACH_PAIR(tw_floor_mod_f32); }
TW_KERNEL(tw_floor_mod_s8) { TW_EACH_PAIR(tw_floor_mod_s8); }
TW_KERNEL(tw_floor_mod_s16) { TW_EACH_PAIR(tw_floor_mod_s16); }
TW_KERNEL(tw_floor_mod_s32) { TW_EACH_PAIR(tw_floor_mod_s32); }
TW_KERNEL(tw_floor_mod_s64) { TW_EACH_PAIR(tw_floor_mod_s64); }
TW_KERNEL(tw_atan2_f32) { TW_EACH_PAIR(tw_atan2_f32); }
TW_KERNEL(tw_atan2_f64) { TW_EACH_PAIR(tw_atan2_f64); }

#endif
