/* SPDX-License-Identifier: Apache-2.0 */
/* DEQUANTIZE to float32: scale * (x - zero), per tensor and per channel, and float16. */
#ifndef TW_DEQUANTIZE_H
#define TW_DEQUANTIZE_H

#include "../core/axis.h"
#include "../core/each.h"
#include "../core/half.h"

/* in: x [size]. out: y float32 [size]. zero is in the range of x's type. */
typedef struct {
    int32_t size, zero;
    float scale;
} tw_dequantize_s8_params;
typedef tw_dequantize_s8_params tw_dequantize_u8_params;
typedef tw_dequantize_s8_params tw_dequantize_s16_params;

TW_INLINE float tw_dequantized(int32_t x, float scale, int32_t zero) { return scale * (float)(x - zero); }

TW_KERNEL(tw_dequantize_s8) { TW_EACH_APART(tw_dequantize_s8, int8_t, float, tw_dequantized(x, p.scale, p.zero)); }
TW_KERNEL(tw_dequantize_u8) { TW_EACH_APART(tw_dequantize_u8, uint8_t, float, tw_dequantized(x, p.scale, p.zero)); }
TW_KERNEL(tw_dequantize_s16) { TW_EACH_APART(tw_dequantize_s16, int16_t, float, tw_dequantized(x, p.scale, p.zero)); }

/* Per channel of the axis. in: x int8 [outer, count, inner], scale float32 [count], zero int32 [count].
 * out: y float32 [outer, count, inner]. */
typedef struct {
    tw_axis axis;
} tw_dequantize_channels_s8_params;

TW_INLINE void tw_dequantize_row_s8(const int8_t *TW_RESTRICT x, float *TW_RESTRICT y, int32_t size, float scale,
                                    int32_t zero) {
    for (int32_t i = 0; i < size; ++i) y[i] = tw_dequantized(x[i], scale, zero);
}

TW_KERNEL(tw_dequantize_channels_s8) {
    const tw_axis axis = params->axis;
    const int8_t *TW_RESTRICT x = (const int8_t *)in[0];
    const float *TW_RESTRICT scale = (const float *)in[1];
    const int32_t *TW_RESTRICT zero = (const int32_t *)in[2];
    float *TW_RESTRICT y = (float *)out[0];
    const int32_t channels = axis.count, inner = axis.inner;
    for (int32_t o = 0; o < axis.outer; ++o, x += channels * inner, y += channels * inner) {
        if (inner == 1)
            for (int32_t c = 0; c < channels; ++c) y[c] = tw_dequantized(x[c], scale[c], zero[c]);
        else
            for (int32_t c = 0; c < channels; ++c)
                tw_dequantize_row_s8(x + c * inner, y + c * inner, inner, scale[c], zero[c]);
    }
}

/* in: x float16 [size], as its bits. out: y float32 [size]. */
typedef struct {
    int32_t size;
} tw_dequantize_f16_params;

TW_KERNEL(tw_dequantize_f16) { TW_EACH_APART(tw_dequantize_f16, uint16_t, uint32_t, tw_bits_of_half(x)); }

#endif
