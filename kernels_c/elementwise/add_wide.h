/* SPDX-License-Identifier: Apache-2.0 */
/* ADD and SUB of int8 as a plane (add.h), for computers: pairs of a byte of a and one of b are multiplied and added at
 * once, by the upper and the lower bits of the multipliers. */
#ifndef TW_ADD_WIDE_H
#define TW_ADD_WIDE_H

#include "../core/broadcast.h"
#include "../isa/wide/planes.h"

/* in: a, b (either may be planned in place if it has the output's shape). out: y [walk], whose steps are 1.
 * y = ((a + 128) * a_mult + (b + 128) * b_mult + offset) >> shift, clamped to low..high. Planning has proven over all
 * pairs of operands that every sum fits int32 (a part of it may wrap). |a_mult|, |b_mult| < 2^29, shift 1..30. */
typedef struct {
    tw_walk walk;
    int32_t a_mult, b_mult, offset, shift, low, high;
} tw_add_wide_s8_params;

TW_INLINE void tw_add_wide_row_s8(const tw_add_wide_s8_params *p, const char *from_a, const char *from_b, char *to,
                                  int32_t size) {
    const int8_t *a = (const int8_t *)from_a, *b = (const int8_t *)from_b;
    int8_t *y = (int8_t *)to;
    int32_t i = 0;
#if defined(TW_PLANES)
    const tw_plane plane = tw_plane_load(p->a_mult, p->b_mult, p->offset, p->shift, p->low, p->high);
    for (; i <= size - TW_PLANES; i += TW_PLANES) tw_plane_bytes(&plane, a + i, b + i, y + i);
#endif
    for (; i < size; ++i) {
        const uint32_t left = (uint32_t)(a[i] + 128) * (uint32_t)p->a_mult + (uint32_t)p->offset;
        const int32_t sum = (int32_t)((uint32_t)(b[i] + 128) * (uint32_t)p->b_mult + left);
        y[i] = (int8_t)tw_clamp(sum >> p->shift, p->low, p->high);
    }
}

TW_KERNEL(tw_add_wide_s8) { TW_ROWS_OF_BYTES(tw_add_wide_s8, tw_add_wide_row_s8); }

#endif
