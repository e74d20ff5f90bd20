/* SPDX-License-Identifier: Apache-2.0 */
/* SignalIrfft: real values from their spectrum. Source: kissfft v130, its real FFT; TFLM divides floats behind it. */
#ifndef TW_IRFFT_H
#define TW_IRFFT_H

#include "fft.h"

/* in: x [rows, n + 1] complex, twiddles of the inverse FFT [n] and of the first step [n / 2], complex. out: y [rows,
 * 2 n]. Scratch: n complex numbers. */
typedef struct {
    tw_fft fft;
    int32_t rows;
} tw_irfft;

typedef tw_irfft tw_irfft_s16_params;
typedef tw_irfft tw_irfft_s32_params;
typedef tw_irfft tw_irfft_f32_params;

#define TW_IRFFT(T)                                                                                                    \
    /* The spectrum of pairs from that of the values. */                                                               \
    TW_INLINE void tw_irfft_pairs_##T(tw_complex_##T *z, const tw_complex_##T *x, const tw_complex_##T *w,             \
                                      int32_t n) {                                                                     \
        const tw_complex_##T ends = {tw_fft_add_##T(x[0].r, x[n].r), tw_fft_sub_##T(x[0].r, x[n].r)};                  \
        z[0] = tw_fft_cdiv_##T(ends, 2);                                                                               \
        for (int32_t k = 1; k <= n / 2; ++k) {                                                                         \
            const tw_complex_##T mirror = {x[n - k].r, tw_fft_neg_##T(x[n - k].i)};                                    \
            const tw_complex_##T a = tw_fft_cdiv_##T(x[k], 2), b = tw_fft_cdiv_##T(mirror, 2);                         \
            const tw_complex_##T even = tw_fft_cadd_##T(a, b);                                                         \
            const tw_complex_##T odd = tw_fft_cmul_##T(tw_fft_csub_##T(a, b), w[k - 1]);                               \
            const tw_complex_##T last = tw_fft_csub_##T(even, odd);                                                    \
            z[k] = tw_fft_cadd_##T(even, odd);                                                                         \
            z[n - k].r = last.r;                                                                                       \
            z[n - k].i = tw_fft_neg_##T(last.i);                                                                       \
        }                                                                                                              \
    }                                                                                                                  \
    TW_INLINE void tw_irfft_row_##T(const tw_fft *p, const void *const *in, int32_t row, tw_complex_##T *y,            \
                                    tw_complex_##T *z) {                                                               \
        const tw_complex_##T *x = (const tw_complex_##T *)in[0] + (ptrdiff_t)row * (p->n + 1);                         \
        int32_t digits[TW_MAX_FFT_STAGES] = {0}, at = 0;                                                               \
        tw_irfft_pairs_##T(z, x, (const tw_complex_##T *)in[2], p->n);                                                 \
        for (int32_t k = 0; k < p->n; ++k, at = tw_fft_next(p, digits, at)) y[k] = z[at];                              \
        tw_fft_##T(y, (const tw_complex_##T *)in[1], p);                                                               \
    }

TW_IRFFT(s16)
TW_IRFFT(s32)
TW_IRFFT(f32)

TW_KERNEL(tw_irfft_s16) {
    tw_complex_s16 *y = (tw_complex_s16 *)out[0];
    for (int32_t row = 0; row < params->rows; ++row, y += params->fft.n)
        tw_irfft_row_s16(&params->fft, in, row, y, (tw_complex_s16 *)scratch);
}

TW_KERNEL(tw_irfft_s32) {
    tw_complex_s32 *y = (tw_complex_s32 *)out[0];
    for (int32_t row = 0; row < params->rows; ++row, y += params->fft.n)
        tw_irfft_row_s32(&params->fft, in, row, y, (tw_complex_s32 *)scratch);
}

TW_KERNEL(tw_irfft_f32) {
    tw_complex_f32 *y = (tw_complex_f32 *)out[0];
    const float length = (float)(2 * params->fft.n);
    for (int32_t row = 0; row < params->rows; ++row, y += params->fft.n) {
        tw_irfft_row_f32(&params->fft, in, row, y, (tw_complex_f32 *)scratch);
        for (int32_t k = 0; k < params->fft.n; ++k) {
            y[k].r /= length;
            y[k].i /= length;
        }
    }
}

#endif
