/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons with broadcasting: EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL. */
#ifndef TW_COMPARE_H
#define TW_COMPARE_H

#include "../core/broadcast.h"

/* in: a, b. out: y [rows * size] bytes 0 or 1. accepted: bit 0 less, bit 1 equal, bit 2 greater, bit 3 neither.
 * s8: stored values as they are, and bool. */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5], accepted;
} tw_compare_s8_params;
typedef tw_compare_s8_params tw_compare_s32_params;
typedef tw_compare_s8_params tw_compare_s64_params;
typedef tw_compare_s8_params tw_compare_f32_params;

/* int8 in steps that both share: (q - zero) * 2^8, requantised. */
typedef struct {
    int32_t size, tile, a_step, b_step, rows, shape[5], a_jump[5], b_jump[5], accepted;
    int32_t a_zero, a_mult, a_shift, b_zero, b_mult, b_shift;
} tw_compare_scaled_s8_params;

TW_INLINE uint8_t tw_accepted(int32_t accepted, int less, int equal, int greater) {
    return (uint8_t)(accepted >> (less ? 0 : equal ? 1 : greater ? 2 : 3) & 1);
}

TW_INLINE void tw_compare_s8_pair(const void *params, const void *a, const void *b, void *y) {
    const int8_t m = *(const int8_t *)a, n = *(const int8_t *)b;
    *(uint8_t *)y = tw_accepted(((const tw_compare_s8_params *)params)->accepted, (m < n), (m == n), (m > n));
}

TW_KERNEL(tw_compare_s8) {
    const tw_compare_s8_params p = *params;
    const tw_walk walk = {p.size, 1, p.a_step, p.b_step, p.rows, 1, 1, 1, p.shape, p.a_jump, p.b_jump};
    (void)scratch;
    tw_each_pair(&walk, in, out, tw_compare_s8_pair, &p);
}

TW_INLINE void tw_compare_s32_pair(const void *params, const void *a, const void *b, void *y) {
    const int32_t m = *(const int32_t *)a, n = *(const int32_t *)b;
    *(uint8_t *)y = tw_accepted(((const tw_compare_s32_params *)params)->accepted, (m < n), (m == n), (m > n));
}

TW_KERNEL(tw_compare_s32) {
    const tw_compare_s32_params p = *params;
    const tw_walk walk = {p.size, 1, p.a_step, p.b_step, p.rows, 4, 4, 1, p.shape, p.a_jump, p.b_jump};
    (void)scratch;
    tw_each_pair(&walk, in, out, tw_compare_s32_pair, &p);
}

TW_INLINE void tw_compare_s64_pair(const void *params, const void *a, const void *b, void *y) {
    const int64_t m = *(const int64_t *)a, n = *(const int64_t *)b;
    *(uint8_t *)y = tw_accepted(((const tw_compare_s64_params *)params)->accepted, (m < n), (m == n), (m > n));
}

TW_KERNEL(tw_compare_s64) {
    const tw_compare_s64_params p = *params;
    const tw_walk walk = {p.size, 1, p.a_step, p.b_step, p.rows, 8, 8, 1, p.shape, p.a_jump, p.b_jump};
    (void)scratch;
    tw_each_pair(&walk, in, out, tw_compare_s64_pair, &p);
}

TW_INLINE void tw_compare_f32_pair(const void *params, const void *a, const void *b, void *y) {
    const float m = *(const float *)a, n = *(const float *)b;
    *(uint8_t *)y = tw_accepted(((const tw_compare_f32_params *)params)->accepted, (m < n), (m == n), (m > n));
}

TW_KERNEL(tw_compare_f32) {
    const tw_compare_f32_params p = *params;
    const tw_walk walk = {p.size, 1, p.a_step, p.b_step, p.rows, 4, 4, 1, p.shape, p.a_jump, p.b_jump};
    (void)scratch;
    tw_each_pair(&walk, in, out, tw_compare_f32_pair, &p);
}

TW_INLINE void tw_compare_scaled_s8_pair(const void *params, const void *a, const void *b, void *y) {
    const tw_compare_scaled_s8_params *p = (const tw_compare_scaled_s8_params *)params;
    const int32_t m = tw_requantize((*(const int8_t *)a - p->a_zero) * 256, p->a_mult, p->a_shift);
    const int32_t n = tw_requantize((*(const int8_t *)b - p->b_zero) * 256, p->b_mult, p->b_shift);
    *(uint8_t *)y = tw_accepted(p->accepted, (m < n), (m == n), (m > n));
}

TW_KERNEL(tw_compare_scaled_s8) {
    const tw_compare_scaled_s8_params p = *params;
    const tw_walk walk = {p.size, 1, p.a_step, p.b_step, p.rows, 1, 1, 1, p.shape, p.a_jump, p.b_jump};
    (void)scratch;
    tw_each_pair(&walk, in, out, tw_compare_scaled_s8_pair, &p);
}

#endif
