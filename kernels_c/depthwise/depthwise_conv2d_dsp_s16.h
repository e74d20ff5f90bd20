/* SPDX-License-Identifier: Apache-2.0 */
/* DEPTHWISE_CONV_2D, NHWC, 3x3 windows, int16 activations and int8 weights on the DSP extension. */
#ifndef TW_DEPTHWISE_CONV2D_DSP_S16_H
#define TW_DEPTHWISE_CONV2D_DSP_S16_H

#include "depthwise_conv2d_dsp.h"

/* As with int8, sizes in bytes; but biases are not doubled, there are no shifts, and tw_top takes mult. in_zero and
 * end.zero are 0; all sums fit 32 bits. */
typedef tw_depthwise_conv2d_dsp_s8_params tw_depthwise_conv2d_dsp_s16_params;

TW_KERNEL(tw_depthwise_conv2d_dsp_s16) {
    const tw_depthwise_conv2d_dsp_s16_params p = *params;
    int16_t *y = (int16_t *)out[0];
    tw_depthwise_dsp_images(&p, in, out, TW_DEPTHWISE_S16, 0);
    if ((p.end.low > INT16_MIN && p.end.low != 0) || p.end.high < INT16_MAX)
        for (int32_t i = p.batches * p.y_size / 2; i > 0; --i, ++y) *y = (int16_t)tw_clamp(*y, p.end.low, p.end.high);
}

#endif
