/* SPDX-License-Identifier: Apache-2.0 */
/* SignalFftAutoScale: values times the greatest power of two that keeps them in int16. */
#ifndef TW_FFT_AUTO_SCALE_H
#define TW_FFT_AUTO_SCALE_H

#include "bits.h"

/* in: x [size] int16 (may be planned in place). out: y [size] int16, the power [1] int32. */
typedef struct {
    int32_t size;
} tw_fft_auto_scale_params;

/* The greatest magnitude as TFLM finds it: that of -32768 is stored as -32768, which every later value exceeds. */
TW_INLINE int32_t tw_greatest_magnitude(const int16_t *x, int32_t size) {
    int32_t most = 0;
    for (int32_t i = 0; i < size; ++i) {
        if (x[i] > most)
            most = x[i];
        else if (-x[i] > most)
            most = (int16_t)-x[i];
    }
    return most;
}

TW_KERNEL(tw_fft_auto_scale) {
    const tw_fft_auto_scale_params p = *params;
    const int16_t *x = (const int16_t *)in[0];
    int16_t *y = (int16_t *)out[0];
    const int32_t most = tw_greatest_magnitude(x, p.size);
    const int32_t power = most > 0 ? 15 - tw_bits((uint32_t)most) : 0;
    for (int32_t i = 0; i < p.size; ++i) y[i] = (int16_t)(x[i] * (1 << power));
    *(int32_t *)out[1] = power;
}

#endif
