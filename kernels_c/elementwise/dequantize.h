/* SPDX-License-Identifier: Apache-2.0 */
/* DEQUANTIZE to float32: scale * (x - zero), per tensor and per channel, and float16. */
#ifndef TW_DEQUANTIZE_H
#define TW_DEQUANTIZE_H

#include "../core/tw.h"

/* in: x [size]. out: y float32 [size]. zero is in the range of x's type. */
typedef struct {
    int32_t size, zero;
    float scale;
} tw_dequantize_s8_params;
typedef tw_dequantize_s8_params tw_dequantize_u8_params;
typedef tw_dequantize_s8_params tw_dequantize_s16_params;

TW_KERNEL(tw_dequantize_s8) {
    const tw_dequantize_s8_params p = *params;
    const int8_t *TW_RESTRICT x = (const int8_t *)in[0];
    float *TW_RESTRICT y = (float *)out[0];
    (void)scratch;
    for (int32_t i = 0; i < p.size; ++i) y[i] = p.scale * (float)(x[i] - p.zero);
}

TW_KERNEL(tw_dequantize_u8) {
    const tw_dequantize_u8_params p = *params;
    const uint8_t *TW_RESTRICT x = (const uint8_t *)in[0];
    float *TW_RESTRICT y = (float *)out[0];
    (void)scratch;
    for (int32_t i = 0; i < p.size; ++i) y[i] = p.scale * (float)(x[i] - p.zero);
}

TW_KERNEL(tw_dequantize_s16) {
    const tw_dequantize_s16_params p = *params;
    const int16_t *TW_RESTRICT x = (const int16_t *)in[0];
    float *TW_RESTRICT y = (float *)out[0];
    (void)scratch;
    for (int32_t i = 0; i < p.size; ++i) y[i] = p.scale * (float)(x[i] - p.zero);
}

/* Per channel. in: x int8 [outer, channels, inner], scale float32 [channels], zero int32 [channels].
 * out: y float32 [outer, channels, inner]. */
typedef struct {
    int32_t outer, channels, inner;
} tw_dequantize_channels_s8_params;

TW_INLINE void tw_dequantize_row_s8(const int8_t *TW_RESTRICT x, float *TW_RESTRICT y, int32_t size, float scale,
                                    int32_t zero) {
    for (int32_t i = 0; i < size; ++i) y[i] = scale * (float)(x[i] - zero);
}

TW_KERNEL(tw_dequantize_channels_s8) {
    const tw_dequantize_channels_s8_params p = *params;
    const int8_t *TW_RESTRICT x = (const int8_t *)in[0];
    const float *TW_RESTRICT scale = (const float *)in[1];
    const int32_t *TW_RESTRICT zero = (const int32_t *)in[2];
    float *TW_RESTRICT y = (float *)out[0];
    (void)scratch;
    for (int32_t o = 0; o < p.outer; ++o) {
        if (p.inner == 1) {
            for (int32_t c = 0; c < p.channels; ++c) y[c] = scale[c] * (float)(x[c] - zero[c]);
        } else {
            for (int32_t c = 0; c < p.channels; ++c) {
                tw_dequantize_row_s8(x + c * p.inner, y + c * p.inner, p.inner, scale[c], zero[c]);
            }
        }
        x += p.channels * p.inner;
        y += p.channels * p.inner;
    }
}

/* in: x float16 [size], as its bits. out: y float32 [size]. */
typedef struct {
    int32_t size;
} tw_dequantize_f16_params;

TW_KERNEL(tw_dequantize_f16) {
    const tw_dequantize_f16_params p = *params;
    const uint16_t *TW_RESTRICT x = (const uint16_t *)in[0];
    uint32_t *TW_RESTRICT y = (uint32_t *)out[0];
    (void)scratch;
    for (int32_t i = 0; i < p.size; ++i) {
        const uint32_t sign = (uint32_t)(x[i] & 0x8000) << 16;
        const uint32_t bits = x[i] & 0x7fff;
        const float tiny = (float)(int32_t)bits * 5.9604644775390625e-8f; /* 2^-24: what a subnormal float16 counts */
        const uint32_t rebased = (bits << 13) + (bits >= 0x7c00 ? 0x70000000u : 0x38000000u); /* infinity, NaN: 255 */
        uint32_t small;
        memcpy(&small, &tiny, sizeof small);
        y[i] = sign | (bits < 0x400 ? small : rebased);
    }
}

#endif
