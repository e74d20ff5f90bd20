/* SPDX-License-Identifier: Apache-2.0 */
/* SVDF on the DSP extension: four filters at a time, then unit by unit. */
#ifndef TW_SVDF_DSP_H
#define TW_SVDF_DSP_H

#include "../isa/dsp/dsp_tile.h"
#include "svdf.h"

/* As tw_svdf_s8 but for the inputs: x, packed features (fours of fully_connected_dsp.h), time, bias int32 [units] with
 * the state's zero point folded in, and what the doubled sums of filters begin with, int32 [filters rounded up to 4].
 * shift: as tw_scaled_either takes it. bytes: whether features are stored so. scratch: int8 [size rounded up to 4]. */
typedef struct {
    tw_svdf_s8_params all;
    int32_t bytes;
} tw_svdf_dsp_s8_params;
typedef tw_svdf_dsp_s8_params tw_svdf_dsp_s16_params;

/* Moves count bytes down by a few. */
static TW_NOINLINE void tw_svdf_dsp_move(int8_t *to, int32_t by, int32_t count) {
#pragma GCC unroll 4
    for (; count >= 4; count -= 4, to += 4) {
        const uint32_t word = tw_word(to + by);
        memcpy(to, &word, sizeof word);
    }
    for (; count > 0; --count, ++to) *to = to[by];
}

/* sum plus n products of int8, or of int16 if wide. */
TW_INLINE int32_t tw_svdf_dsp_dot(int32_t sum, const int8_t *a, const int8_t *b, int32_t n, int32_t wide) {
    if (wide) {
        for (; n >= 2; n -= 2, a += 4, b += 4) sum = tw_dual(tw_word(a), tw_word(b), sum);
        return n > 0 ? tw_add(sum, *(const int16_t *)(const void *)a * *(const int16_t *)(const void *)b) : sum;
    }
    for (; n >= 4; n -= 4, a += 4, b += 4) {
        const uint32_t u = tw_word(a), v = tw_word(b);
        sum = tw_dual(tw_odd(u), tw_odd(v), tw_dual(tw_even(u), tw_even(v), sum));
    }
    for (; n > 0; --n) sum = tw_add(sum, *a++ * *b++);
    return sum;
}

/* The newest value of every filter; newest: where the first filter's is in the state. */
TW_INLINE void tw_svdf_dsp_features(const int8_t *x, const void *const *in, int8_t *newest, int32_t wide,
                                    const tw_svdf_dsp_s8_params *params) {
    const tw_svdf_s8_params *p = &params->all;
    const int32_t filters = p->units * p->rank;
    const uint32_t *w = (const uint32_t *)in[1];
    for (int32_t f = 0; f < filters; f += 4) {
        int32_t twice[4];
        w = tw_dsp_four(x, w, p->size, params->bytes, (const int32_t *)in[4] + f, twice);
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j, newest += p->memory * (1 + wide)) {
            if (f + j >= filters) break;
            const int32_t value = tw_scaled_either(twice[j], p->mult, p->shift) + p->state_zero;
            if (wide)
                *(int16_t *)(void *)newest = tw_clamp_s16(value, INT16_MIN, INT16_MAX);
            else
                *newest = (int8_t)tw_clamp8(value);
        }
    }
}

TW_INLINE void tw_svdf_dsp(const tw_svdf_dsp_s8_params *params, const void *const *in, void *const *out, int8_t *room,
                           int32_t wide) {
    const tw_svdf_dsp_s8_params params_of = *params;
    const tw_svdf_s8_params *p = &params_of.all;
    const int8_t *x = (const int8_t *)in[0];
    const int32_t bytes = 1 + wide, taps = p->rank * p->memory, all = p->units * taps * bytes;
    int8_t *y = (int8_t *)out[0], *state = (int8_t *)out[1];
    for (int32_t b = 0; b < p->batches; ++b, x += p->size) {
        const int8_t *time = (const int8_t *)in[2];
        if (p->size % 4 != 0) memcpy(room, x, (size_t)p->size);
        tw_svdf_dsp_move(state, bytes, all - bytes);
        tw_svdf_dsp_features(p->size % 4 != 0 ? room : x, in, state + (p->memory - 1) * bytes, wide, &params_of);
        for (int32_t u = 0; u < p->units; ++u, state += taps * bytes, time += taps * bytes) {
            const int32_t sum = tw_svdf_dsp_dot(((const int32_t *)in[3])[u], state, time, taps, wide);
            const int32_t value = tw_add(tw_requantize(sum, p->out_mult, p->out_shift), p->out_zero);
            *y++ = (int8_t)tw_clamp(value, p->low, p->high);
        }
    }
}

TW_KERNEL(tw_svdf_dsp_s8) { tw_svdf_dsp(params, in, out, (int8_t *)scratch, 0); }
TW_KERNEL(tw_svdf_dsp_s16) { tw_svdf_dsp(params, in, out, (int8_t *)scratch, 1); }

#endif
