/* SPDX-License-Identifier: Apache-2.0 */
/* ADD and SUB over Helium, int8, four lanes at a time; rows of both operands run along with the output's. */
#ifndef TW_ADD_MVE_H
#define TW_ADD_MVE_H

#include "../core/broadcast.h"
#include "../isa/mve/mve.h"

/* y = requantize(a * a_scale + a_start + requantize(b * b_scale + b_start)) + out_zero. a is the operand with the
 * larger scale: TFLM shifts it left by 20 and multiplies it by exactly 1/2, so a_scale is 2^19. In SUB a_scale is
 * -2^19, and mult is negative, too, if b is the operand that is subtracted. b_scale: 2^20, or 2^21 if the scales are
 * equal; a_start and b_start: the zero points times -a_scale and -b_scale. shift and b_shift -31..-1. in: a, b (either
 * may be planned in place if it has the output's shape). out: y [walk]. The walk's tile and both of its steps are 1. */
typedef struct {
    tw_walk walk;
    int32_t a_scale, a_start, b_scale, b_start, b_mult, b_shift, out_zero, mult, shift, low, high;
} tw_add_mve_s8_params;

/* A function of its own: the loop takes all registers, and layers share it. */
static TW_NOINLINE __attribute__((unused)) void tw_add_mve_row(const int8_t *a, const int8_t *b, int8_t *y,
                                                               const tw_add_mve_s8_params *p) {
#if defined(TW_MVE)
    int32x4_t left, right;
    __asm volatile(
        "dlstp.32 lr, %[size]\n"
        "1:\n\t"
        "vldrb.s32 %q[right], [%[b]], #4\n\t"
        "vldrb.s32 %q[left], [%[a]], #4\n\t"
        "vmlas.s32 %q[right], %q[b_scale], %[b_start]\n\t"
        "vqrdmulh.s32 %q[right], %q[right], %[b_mult]\n\t"
        "vqdmlah.s32 %q[right], %q[right], %[one]\n\t"
        "vrshl.s32 %q[right], %[b_shift]\n\t"
        "vmlas.s32 %q[left], %q[a_scale], %[a_start]\n\t"
        "vadd.i32 %q[left], %q[left], %q[right]\n\t"
        "vqrdmulh.s32 %q[left], %q[left], %[mult]\n\t"
        "vqdmlah.s32 %q[left], %q[left], %[one]\n\t"
        "vrshl.s32 %q[left], %[shift]\n\t"
        "vadd.i32 %q[left], %q[left], %q[zero]\n\t"
        "vmax.s32 %q[left], %q[left], %q[low]\n\t"
        "vmin.s32 %q[left], %q[left], %q[high]\n\t"
        "vstrb.32 %q[left], [%[y]], #4\n\t"
        "letp lr, 1b"
        : [a] "+&l"(a), [b] "+&l"(b), [y] "+&l"(y), [left] "=&w"(left), [right] "=&w"(right)
        : [size] "r"(p->walk.size), [b_start] "r"(p->b_start), [b_mult] "r"(p->b_mult), [b_shift] "r"(p->b_shift),
          [one] "r"(1), [a_start] "r"(p->a_start), [mult] "r"(p->mult), [shift] "r"(p->shift),
          [zero] "w"(vdupq_n_s32(p->out_zero)), [a_scale] "w"(vdupq_n_s32(p->a_scale)),
          [b_scale] "w"(vdupq_n_s32(p->b_scale)), [low] "w"(vdupq_n_s32(p->low)), [high] "w"(vdupq_n_s32(p->high))
        : "lr", "memory");
#else
    for (int32_t i = 0; i < p->walk.size; ++i) {
        const int32_t right = tw_requantize(b[i] * p->b_scale + p->b_start, p->b_mult, p->b_shift);
        const int32_t sum = a[i] * p->a_scale + p->a_start + right;
        y[i] = (int8_t)tw_clamp(tw_requantize(sum, p->mult, p->shift) + p->out_zero, p->low, p->high);
    }
#endif
}

TW_KERNEL(tw_add_mve_s8) {
    int8_t *y = (int8_t *)out[0];
    tw_row at = {(const char *)in[0], (const char *)in[1], {0}};
    for (int32_t row = 0; row < params->walk.outer.rows; ++row, y += params->walk.size) {
        tw_add_mve_row((const int8_t *)at.a, (const int8_t *)at.b, y, params);
        tw_next_row(&at, &params->walk.outer, 1, 1);
    }
}

#endif
