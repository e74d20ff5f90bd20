/* SPDX-License-Identifier: Apache-2.0 */
/* DEPTHWISE_CONV_2D of int8 with a multiplier, on AVX2 and AVX512-VNNI: where every channel of the image stands as often as it
 * makes outputs, the multiplier is 1. */
#ifndef TW_DEPTHWISE_CONV2D_TIMES_H
#define TW_DEPTHWISE_CONV2D_TIMES_H

#include "depthwise_conv2d_avx2.h"

/* all: of the repeated image, whose in_c is out_c. in and out: as tw_depthwise_conv2d_avx2_s8, but for x, which has values
 * bytes, each of which stands times times. scratch: int8 [values * times rounded up to 64], then that of all. */
typedef struct {
    tw_depthwise_conv2d_avx2_s8_params all;
    int32_t times, values;
} tw_depthwise_conv2d_times_s8_params;

/* to = every byte of x times times; that is a constant where it is 2. */
TW_INLINE void tw_repeat_bytes(int8_t *TW_RESTRICT to, const int8_t *TW_RESTRICT x, int32_t values, int32_t times) {
    for (int32_t i = 0; i < values; ++i)
        for (int32_t k = 0; k < times; ++k) to[i * times + k] = x[i];
}

TW_KERNEL(tw_depthwise_conv2d_times_s8) {
    const tw_depthwise_conv2d_times_s8_params p = *params;
    int8_t *repeated = (int8_t *)scratch;
    const void *const inputs[] = {repeated, in[1], in[2], in[3], in[4]};
    if (p.times == 2)
        tw_repeat_bytes(repeated, (const int8_t *)in[0], p.values, 2);
    else
        tw_repeat_bytes(repeated, (const int8_t *)in[0], p.values, p.times);
    tw_ring_blocks(&p.all, inputs, out, repeated + (p.values * p.times + 63) / 64 * 64);
}

#endif
