/* Comparisons with broadcasting: EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL. */
#ifndef TW_COMPARE_H
#define TW_COMPARE_H

#include "broadcast.h"

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

/* The walk: every type reads its operands, the rest is the same. */
#define TW_COMPARE(type)                                                                                               \
    const type *a = (const type *)in[0];                                                                               \
    const type *b = (const type *)in[1];                                                                               \
    uint8_t *y = (uint8_t *)out[0];                                                                                    \
    tw_row at = tw_first_row();                                                                                        \
    (void)scratch;                                                                                                     \
    for (int32_t row = 0; row < p.rows; ++row, y += p.size) {                                                          \
        for (int32_t i = 0; i < p.size; ++i) {                                                                         \
            const type m = a[at.a + i * p.a_step], n = b[at.b + i * p.b_step];                                         \
            y[i] = tw_accepted(p.accepted, (m < n), (m == n), (m > n));                                                \
        }                                                                                                              \
        tw_next_row(&at, p.shape, p.a_jump, p.b_jump);                                                                 \
    }

TW_KERNEL(tw_compare_s8) {
    const tw_compare_s8_params p = *params;
    TW_COMPARE(int8_t)
}

TW_KERNEL(tw_compare_s32) {
    const tw_compare_s32_params p = *params;
    TW_COMPARE(int32_t)
}

TW_KERNEL(tw_compare_s64) {
    const tw_compare_s64_params p = *params;
    TW_COMPARE(int64_t)
}

TW_KERNEL(tw_compare_f32) {
    const tw_compare_f32_params p = *params;
    TW_COMPARE(float)
}

TW_KERNEL(tw_compare_scaled_s8) {
    const tw_compare_scaled_s8_params p = *params;
    const int8_t *a = (const int8_t *)in[0];
    const int8_t *b = (const int8_t *)in[1];
    uint8_t *y = (uint8_t *)out[0];
    tw_row at = tw_first_row();
    (void)scratch;
    for (int32_t row = 0; row < p.rows; ++row, y += p.size) {
        for (int32_t i = 0; i < p.size; ++i) {
            const int32_t m = tw_requantize((a[at.a + i * p.a_step] - p.a_zero) * 256, p.a_mult, p.a_shift);
            const int32_t n = tw_requantize((b[at.b + i * p.b_step] - p.b_zero) * 256, p.b_mult, p.b_shift);
            y[i] = tw_accepted(p.accepted, (m < n), (m == n), (m > n));
        }
        tw_next_row(&at, p.shape, p.a_jump, p.b_jump);
    }
}

#endif
