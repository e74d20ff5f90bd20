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

/* Of each channel, or of all where there is but one mult and shift: what its sums begin with and are scaled by. fast:
 * tw_scaled is exact for all channels. */
typedef struct {
    const int32_t *bias, *mult;
    const int8_t *shift;
    int32_t fast;
    tw_epilogue_s8 end;
} tw_channels_s8;

/* Those from channel c on of a kernel whose inputs 2 to 4 they are. */
TW_INLINE tw_channels_s8 tw_channels_s8_of(const void *const *in, int32_t c, int32_t fast, const tw_epilogue_s8 *end) {
    const tw_channels_s8 channels = {(const int32_t *)in[2] + c,
                                     (const int32_t *)in[3] + c,
                                     (const int8_t *)in[4] + c,
                                     fast,
                                     {end->zero, end->low, end->high}};
    return channels;
}

/* The same for int16. narrow: sums are of 32 bits and end as those of int8 do (tw_requantize); else mult is of 16 bits,
 * 0..32767, and shift one to the right, 8..46. */
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
