/* SPDX-License-Identifier: Apache-2.0 */
/* SVDF on Helium: four filters, then four units at a time. */
#ifndef TW_SVDF_MVE_H
#define TW_SVDF_MVE_H

#include "../isa/mve/mve_tile.h"
#include "svdf.h"

/* As tw_svdf_s8 but for the inputs: x, features, time, bias int32 [units] with the state's zero point folded in, and
 * what the sums of filters begin with, int32 [filters / 4 rounded up][4]. The last four filters begin at filters - 4; if
 * there are fewer, they are all. memory at most 2^14. */
typedef tw_svdf_s8_params tw_svdf_mve_s8_params;
typedef tw_svdf_s8_params tw_svdf_mve_s16_params;

/* Writes count values, clamped to int8, or to int16 if wide, apart from one another. */
TW_INLINE void tw_svdf_mve_scatter(int8_t *to, tw_v4 x, int32_t apart, int32_t count, int32_t wide) {
    const int32_t low = wide ? INT16_MIN : INT8_MIN, high = wide ? INT16_MAX : INT8_MAX;
#if defined(TW_MVE)
    const int32x4_t clamped = vminq_s32(vmaxq_s32(x, vdupq_n_s32(low)), vdupq_n_s32(high));
    const uint32x4_t at = vmulq_n_u32(vidupq_n_u32(0, 1), (uint32_t)apart);
    const mve_pred16_t lanes = vctp32q((uint32_t)count);
    if (wide)
        vstrhq_scatter_shifted_offset_p_s32((int16_t *)(void *)to, at, clamped, lanes);
    else
        vstrbq_scatter_offset_p_s32(to, at, clamped, lanes);
#else
    for (int i = 0; i < tw_min(count, 4); ++i, to += apart * (1 + wide)) {
        if (wide)
            *(int16_t *)(void *)to = (int16_t)tw_clamp(x.lane[i], low, high);
        else
            *to = (int8_t)tw_clamp(x.lane[i], low, high);
    }
#endif
}

/* sum plus n (at least one) products of int8, or of int16 if wide. */
TW_INLINE int32_t tw_svdf_mve_dot(int32_t sum, const int8_t *a, const int8_t *b, int32_t n, int32_t wide) {
#if defined(TW_MVE)
    int8x16_t u, v;
#define TW_SVDF_DOT(bits, b_or_h)                                                                                      \
    __asm volatile("dlstp." #bits " lr, %[n]\n"                                                                        \
                   "1:\n\t"                                                                                            \
                   "vldr" #b_or_h "." #bits " %q[u], [%[a]], #16\n\t"                                                  \
                   "vldr" #b_or_h "." #bits " %q[v], [%[b]], #16\n\t"                                                  \
                   "vmladava.s" #bits " %[sum], %q[u], %q[v]\n\t"                                                      \
                   "letp lr, 1b"                                                                                       \
                   : [sum] "+Te"(sum), [u] "=&w"(u), [v] "=&w"(v), [a] "+r"(a), [b] "+r"(b)                            \
                   : [n] "r"(n)                                                                                        \
                   : "lr", "memory")
    if (wide)
        TW_SVDF_DOT(16, h);
    else
        TW_SVDF_DOT(8, b);
#undef TW_SVDF_DOT
#else
    const int16_t *c = (const int16_t *)(const void *)a, *d = (const int16_t *)(const void *)b;
    for (int32_t i = 0; i < n; ++i) sum = tw_add(sum, wide ? c[i] * d[i] : a[i] * b[i]);
#endif
    return sum;
}

/* The newest value of every filter; newest: where the first filter's is in the state. */
TW_INLINE void tw_svdf_mve_features(const int8_t *x, const void *const *in, int8_t *newest, int32_t wide,
                                    const tw_svdf_s8_params *p) {
    const int32_t filters = p->units * p->rank;
    const tw_mve_four_rows rows = tw_mve_four_rows_of(p->size, filters);
    const int32_t *starts = (const int32_t *)in[4];
    const tw_v4 mult = tw_v4_all(p->mult), shift = tw_v4_all(p->shift), zero = tw_v4_all(p->state_zero);
#pragma GCC unroll 1
    for (int32_t f = 0; f < filters; f += 4, starts += 4) {
        const int32_t at = tw_max(tw_min(f, filters - 4), 0);
        const tw_v4 sums = tw_mve_tile1(x, (const int8_t *)in[1] + at * p->size, rows.at, starts);
        tw_svdf_mve_scatter(newest + at * p->memory * (1 + wide), tw_v4_add(tw_v4_requantize(sums, mult, shift), zero),
                            p->memory, filters, wide);
    }
}

/* y [units] of one batch. */
TW_INLINE void tw_svdf_mve_units(const int8_t *state, const void *const *in, int8_t *y, int32_t wide,
                                 const tw_svdf_s8_params *p) {
    const int32_t taps = p->rank * p->memory, bytes = taps * (1 + wide);
    const tw_v4 mult = tw_v4_all(p->out_mult), shift = tw_v4_all(p->out_shift);
    const int8_t *time = (const int8_t *)in[2];
    const int32_t *bias = (const int32_t *)in[3];
#pragma GCC unroll 1
    for (int32_t u = 0; u < p->units; u += 4) {
        const int32_t count = tw_min(p->units - u, 4);
        int32_t sums[4] = {0, 0, 0, 0};
        for (int32_t j = 0; j < count; ++j, state += bytes, time += bytes)
            sums[j] = tw_svdf_mve_dot(bias[u + j], state, time, taps, wide);
        tw_v4_store_s8(y + u, tw_v4_requantize(tw_v4_load(sums, 4), mult, shift), p->out_zero, p->low, p->high, count);
    }
}

TW_INLINE void tw_svdf_mve(const tw_svdf_s8_params *params, const void *const *in, void *const *out, int32_t wide) {
    const tw_svdf_s8_params p = *params;
    const int8_t *x = (const int8_t *)in[0];
    const int32_t bytes = 1 + wide, all = p.units * p.rank * p.memory * bytes;
    int8_t *y = (int8_t *)out[0], *state = (int8_t *)out[1];
    for (int32_t b = 0; b < p.batches; ++b, x += p.size, y += p.units, state += all) {
        if (all > bytes) tw_mve_rows(state, 0, state + bytes, 0, 1, all - bytes);
        tw_svdf_mve_features(x, in, state + (p.memory - 1) * bytes, wide, &p);
        tw_svdf_mve_units(state, in, y, wide, &p);
    }
}

TW_KERNEL(tw_svdf_mve_s8) { tw_svdf_mve(params, in, out, 0); }
TW_KERNEL(tw_svdf_mve_s16) { tw_svdf_mve(params, in, out, 1); }

#endif
