/* SPDX-License-Identifier: Apache-2.0 */
/* MUL of int8 for computers, for the usual scales: mul.h's tw_mul_scaled_s8, many at once. */
#ifndef TW_MUL_WIDE_H
#define TW_MUL_WIDE_H

#include "../core/broadcast.h"
#include "../isa/dsp/dsp.h"
#include "../isa/wide/products.h"

/* in: a, b (either may be planned in place if it has the output's shape). out: y [walk], whose steps are 1. Params are
 * as in mul.h; the output is clamped to int8. */
typedef struct {
    tw_walk walk;
    int32_t a_zero, b_zero, mult, right, rounding;
} tw_mul_wide_s8_params;

TW_INLINE void tw_mul_wide_row_s8(const tw_mul_wide_s8_params *p, const char *from_a, const char *from_b, char *to,
                                  int32_t size) {
    const int8_t *a = (const int8_t *)from_a, *b = (const int8_t *)from_b;
    int8_t *y = (int8_t *)to;
    int32_t i = 0;
#if defined(TW_PRODUCTS)
    const tw_product product = tw_product_load(p->a_zero, p->b_zero, p->mult, p->right, p->rounding);
    for (; i <= size - TW_PRODUCTS; i += TW_PRODUCTS) tw_product_bytes(&product, a + i, b + i, y + i);
#endif
    for (; i < size; ++i) {
        const int32_t twice = 2 * (a[i] - p->a_zero) * (b[i] - p->b_zero);
        y[i] = (int8_t)tw_clamp8(tw_scaled(twice, p->mult, p->rounding, p->right));
    }
}

TW_KERNEL(tw_mul_wide_s8) { TW_ROWS_OF_BYTES(tw_mul_wide_s8, tw_mul_wide_row_s8); }

#endif
