/* SPDX-License-Identifier: Apache-2.0 */
/* MUL over Helium, int8, four lanes at a time; rows of both operands run along with the output's. */
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

/* A function of its own: the loop takes all registers, and layers share it. */
static TW_NOINLINE __attribute__((unused)) void tw_mul_mve_row(const int8_t *a, const int8_t *b, int8_t *y,
                                                               const tw_mul_mve_s8_params *p) {
#if defined(TW_MVE)
    int32x4_t left, right;
    __asm volatile("dlstp.32 lr, %[size]\n"
                   "1:\n\t"
                   "vldrb.s32 %q[left], [%[a]], #4\n\t"
                   "vldrb.s32 %q[right], [%[b]], #4\n\t"
                   "vsub.i32 %q[left], %q[left], %[a_zero]\n\t"
                   "vsub.i32 %q[right], %q[right], %[b_zero]\n\t"
                   "vmul.i32 %q[left], %q[left], %q[right]\n\t"
                   "vqrdmulh.s32 %q[left], %q[left], %[mult]\n\t"
                   "vand %q[right], %q[left], %q[shift]\n\t"
                   "vshr.s32 %q[right], %q[right], #31\n\t"
                   "vadd.i32 %q[left], %q[left], %q[right]\n\t"
                   "vrshl.s32 %q[left], %q[left], %q[shift]\n\t"
                   "vadd.i32 %q[left], %q[left], %[zero]\n\t"
                   "vmax.s32 %q[left], %q[left], %q[low]\n\t"
                   "vmin.s32 %q[left], %q[left], %q[high]\n\t"
                   "vstrb.32 %q[left], [%[y]], #4\n\t"
                   "letp lr, 1b"
                   : [a] "+&l"(a), [b] "+&l"(b), [y] "+&l"(y), [left] "=&w"(left), [right] "=&w"(right)
                   : [size] "r"(p->walk.size), [a_zero] "r"(p->a_zero), [b_zero] "r"(p->b_zero), [mult] "r"(p->mult),
                     [zero] "r"(p->out_zero), [shift] "w"(vdupq_n_s32(p->shift)), [low] "w"(vdupq_n_s32(p->low)),
                     [high] "w"(vdupq_n_s32(p->high))
                   : "lr", "memory");
#else
    for (int32_t i = 0; i < p->walk.size; ++i) {
        const int32_t q = tw_requantize((a[i] - p->a_zero) * (b[i] - p->b_zero), p->mult, p->shift);
        y[i] = (int8_t)tw_clamp(q + p->out_zero, p->low, p->high);
    }
#endif
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
