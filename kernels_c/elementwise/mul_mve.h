/* SPDX-License-Identifier: Apache-2.0 */
/* MUL over Helium, int8, eight lanes at a time; rows of both operands run along with the output's. */
#ifndef TW_MUL_MVE_H
#define TW_MUL_MVE_H

#include "../core/broadcast.h"
#include "../isa/mve/mve.h"

/* in: a, b (either may be planned in place if it has the output's shape). out: y [walk]. The walk's tile
 * and both of its steps are 1; shift -31..0. */
typedef struct {
    tw_walk walk;
    int32_t a_zero, b_zero, out_zero, mult, shift, low, high;
} tw_mul_mve_s8_params;

/* count (1..8) products. */
TW_INLINE void tw_mul_mve_few(const int8_t *a, const int8_t *b, int8_t *y, int32_t count,
                              const tw_mul_mve_s8_params *p) {
#if defined(TW_MVE)
    const mve_pred16_t some = vctp16q((uint32_t)count);
    const int16x8_t left = vsubq_n_s16(count == 8 ? vldrbq_s16(a) : vldrbq_z_s16(a, some), (int16_t)p->a_zero);
    const int16x8_t right = vsubq_n_s16(count == 8 ? vldrbq_s16(b) : vldrbq_z_s16(b, some), (int16_t)p->b_zero);
    int32x4_t even = vqrdmulhq_n_s32(vmullbq_int_s16(left, right), p->mult);
    int32x4_t odd = vqrdmulhq_n_s32(vmulltq_int_s16(left, right), p->mult);
    const int32_t sign = p->shift < 0; /* a shift of 0 rounds nothing */
    even = vrshlq_n_s32(vqdmlahq_n_s32(even, even, sign), p->shift);
    odd = vrshlq_n_s32(vqdmlahq_n_s32(odd, odd, sign), p->shift);
    int16x8_t v = vqaddq_n_s16(vqmovntq_s32(vqmovnbq_s32(left, even), odd), (int16_t)p->out_zero);
    v = vminq_s16(vmaxq_s16(v, vdupq_n_s16((int16_t)p->low)), vdupq_n_s16((int16_t)p->high));
    if (count == 8)
        vstrbq_s16(y, v);
    else
        vstrbq_p_s16(y, v, some);
#else
    for (int32_t i = 0; i < count; ++i) {
        const int32_t q = tw_requantize((a[i] - p->a_zero) * (b[i] - p->b_zero), p->mult, p->shift);
        y[i] = (int8_t)tw_clamp(q + p->out_zero, p->low, p->high);
    }
#endif
}

/* A row. A function of its own: layers share it. */
static TW_NOINLINE __attribute__((unused)) void tw_mul_mve_row(const int8_t *a, const int8_t *b, int8_t *y,
                                                               const tw_mul_mve_s8_params *params) {
    const tw_mul_mve_s8_params p = *params;
    int32_t i = p.walk.size;
    for (; i >= 8; i -= 8, a += 8, b += 8, y += 8) tw_mul_mve_few(a, b, y, 8, &p);
    if (i > 0) tw_mul_mve_few(a, b, y, i, &p);
}

TW_KERNEL(tw_mul_mve_s8) {
    int8_t *y = (int8_t *)out[0];
    tw_row at = {(const char *)in[0], (const char *)in[1], {0}};
    for (int32_t row = 0; row < params->walk.outer.rows; ++row, y += params->walk.size) {
        tw_mul_mve_row((const int8_t *)at.a, (const int8_t *)at.b, y, params);
        tw_next_row(&at, &params->walk.outer, 1, 1);
    }
}

#endif
