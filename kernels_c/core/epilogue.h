/* SPDX-License-Identifier: Apache-2.0 */
/* How the sums of a layer's channels become outputs. */
#ifndef TW_EPILOGUE_H
#define TW_EPILOGUE_H

#include "tw.h"

/* Outputs are clamped to low..high. */
typedef struct {
    int32_t low, high;
} tw_limits;

typedef struct {
    float low, high;
} tw_limits_f32;

/* Scaled sums, plus zero, are clamped to low..high: int8. */
typedef struct {
    int32_t zero, low, high;
} tw_epilogue_s8;

/* The output of a scaled sum. */
TW_INLINE int8_t tw_epilogue_s8_of(int32_t scaled, const tw_epilogue_s8 *end) {
    return (int8_t)tw_clamp(tw_add(scaled, end->zero), end->low, end->high);
}

/* Sums of what was uint8, times mult, over 2^(32 + right), rounded half up, plus zero, are clamped to low..high. Planning
 * has proven that LiteRT's float64 gives the same. */
typedef struct {
    int32_t mult, right, zero, low, high;
} tw_unsigned_end;

/* A sum, scaled. The lower 32 bits of the product decide nothing. */
TW_INLINE int32_t tw_scaled_unsigned(int32_t sum, const tw_unsigned_end *end) {
    const int32_t high = (int32_t)((int64_t)sum * end->mult >> 32);
    return (high + (1 << (end->right - 1))) >> end->right;
}

TW_INLINE int8_t tw_output_unsigned(int32_t sum, const tw_unsigned_end *end) {
    return (int8_t)tw_clamp(tw_scaled_unsigned(sum, end) + end->zero, end->low, end->high);
}

/* What the sums of each channel begin with and are scaled by; there may be one mult and shift for all channels. fast:
 * a short form is exact for all: tw_scaled (sums.h) or, over lanes, one rounding (tw_acc_requantize_fast in wide.h).
 * alike: over lanes, mult and shift have 16 equal entries, which are those of every channel. */
typedef struct {
    const int32_t *bias, *mult;
    const int8_t *shift;
    int32_t fast, alike;
    tw_epilogue_s8 end;
} tw_channels_s8;

/* The channels from c on of a kernel that has them as inputs 2 to 4. */
TW_INLINE tw_channels_s8 tw_channels_s8_of(const void *const *in, int32_t c, int32_t fast, const tw_epilogue_s8 *end) {
    const tw_channels_s8 channels = {
        (const int32_t *)in[2] + c,      (const int32_t *)in[3] + c, (const int8_t *)in[4] + c, fast, 0,
        {end->zero, end->low, end->high}};
    return channels;
}

/* The same for int16. narrow: sums have 32 bits and end as those of int8 do (tw_requantize); else mult has 16 bits,
 * 0..32767, and shift is to the right, 8..46. */
typedef struct {
    const int64_t *bias;
    const int32_t *mult;
    const int8_t *shift;
    int32_t narrow;
    tw_limits limits;
} tw_channels_s16;

TW_INLINE tw_channels_s16 tw_channels_s16_of(const void *const *in, int32_t narrow, const tw_limits *limits) {
    const tw_channels_s16 channels = {
        (const int64_t *)in[2], (const int32_t *)in[3], (const int8_t *)in[4], narrow, {limits->low, limits->high}};
    return channels;
}

#endif
