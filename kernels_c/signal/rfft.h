/* SPDX-License-Identifier: Apache-2.0 */
/* SignalRfft: the spectrum of real values, through a complex FFT of half as many. Source: kissfft v130. */
#ifndef TW_RFFT_H
#define TW_RFFT_H

#include "fft.h"

/* Each row of length <= 2 n values is filled up with zeros. in: x [rows, length], twiddles of the FFT [n] and of the
 * last step [n / 2], complex. out: y [rows, n + 1] complex. Scratch: n complex numbers. */
typedef struct {
    tw_fft fft;
    int32_t rows, length;
} tw_rfft;

typedef tw_rfft tw_rfft_s16_params;
typedef tw_rfft tw_rfft_s32_params;
typedef tw_rfft tw_rfft_f32_params;

#define TW_RFFT(T, scalar)                                                                                             \
    /* z: pairs of neighbours as complex numbers, in the order of the FFT. */                                          \
    TW_INLINE void tw_rfft_pairs_##T(tw_complex_##T *z, const scalar *x, const tw_fft *p, int32_t length) {            \
        int32_t digits[TW_MAX_FFT_STAGES] = {0}, at = 0;                                                               \
        for (int32_t k = 0; k < p->n; ++k, at = tw_fft_next(p, digits, at)) {                                          \
            z[k].r = 2 * at < length ? x[2 * at] : 0;                                                                  \
            z[k].i = 2 * at + 1 < length ? x[2 * at + 1] : 0;                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    /* The spectrum of 2 n real values from that of their pairs. */                                                    \
    TW_INLINE void tw_rfft_apart_##T(tw_complex_##T *y, const tw_complex_##T *z, const tw_complex_##T *w, int32_t n) { \
        const tw_complex_##T zero = tw_fft_cdiv_##T(z[0], 2);                                                          \
        y[0].r = tw_fft_add_##T(zero.r, zero.i);                                                                       \
        y[n].r = tw_fft_sub_##T(zero.r, zero.i);                                                                       \
        y[0].i = y[n].i = 0;                                                                                           \
        for (int32_t k = 1; k <= n / 2; ++k) {                                                                         \
            const tw_complex_##T mirror = {z[n - k].r, tw_fft_neg_##T(z[n - k].i)};                                    \
            const tw_complex_##T a = tw_fft_cdiv_##T(z[k], 2), b = tw_fft_cdiv_##T(mirror, 2);                         \
            const tw_complex_##T even = tw_fft_cadd_##T(a, b);                                                         \
            const tw_complex_##T odd = tw_fft_cmul_##T(tw_fft_csub_##T(a, b), w[k - 1]);                               \
            y[k].r = tw_fft_mean_##T(even.r, odd.r);                                                                   \
            y[k].i = tw_fft_mean_##T(even.i, odd.i);                                                                   \
            y[n - k].r = tw_fft_apart_##T(even.r, odd.r);                                                              \
            y[n - k].i = tw_fft_apart_##T(odd.i, even.i);                                                              \
        }                                                                                                              \
    }                                                                                                                  \
    TW_INLINE void tw_rfft_rows_##T(const tw_fft *p, const void *const *in, void *out, tw_complex_##T *z,              \
                                    int32_t rows, int32_t length) {                                                    \
        const scalar *x = (const scalar *)in[0];                                                                       \
        tw_complex_##T *y = (tw_complex_##T *)out;                                                                     \
        for (int32_t row = 0; row < rows; ++row, x += length, y += p->n + 1) {                                         \
            tw_rfft_pairs_##T(z, x, p, length);                                                                        \
            tw_fft_##T(z, (const tw_complex_##T *)in[1], p);                                                           \
            tw_rfft_apart_##T(y, z, (const tw_complex_##T *)in[2], p->n);                                              \
        }                                                                                                              \
    }

TW_RFFT(s16, int16_t)
TW_RFFT(s32, int32_t)
TW_RFFT(f32, float)

TW_KERNEL(tw_rfft_s16) {
    tw_rfft_rows_s16(&params->fft, in, out[0], (tw_complex_s16 *)scratch, params->rows, params->length);
}

TW_KERNEL(tw_rfft_s32) {
    tw_rfft_rows_s32(&params->fft, in, out[0], (tw_complex_s32 *)scratch, params->rows, params->length);
}

TW_KERNEL(tw_rfft_f32) {
    tw_rfft_rows_f32(&params->fft, in, out[0], (tw_complex_f32 *)scratch, params->rows, params->length);
}

#endif
