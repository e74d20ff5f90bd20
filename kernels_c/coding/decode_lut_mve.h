/* SPDX-License-Identifier: Apache-2.0 */
/* Weights as indices of 4 bits into a table of their values, on Helium: 32 elements at a time. */
#ifndef TW_DECODE_LUT_MVE_H
#define TW_DECODE_LUT_MVE_H

#include "decode_lut.h"
#include "../isa/mve/mve.h"

/* As tw_decode_lut4, but the table is values int8 [16], and halves is 0. */
typedef tw_decode_lut_params tw_decode_lut4_mve_params;

/* count elements, a multiple of 8. */
TW_INLINE void tw_lut_nibbles(const uint8_t *codes, const int8_t *values, int8_t *y, int32_t count) {
#if defined(TW_MVE)
    for (; count >= 32; count -= 32, codes += 16, y += 32) {
        const uint8x16_t both = vldrbq_u8(codes);
        int8x16x2_t two;
        two.val[0] = vldrbq_gather_offset_s8(values, vandq_u8(both, vdupq_n_u8(15)));
        two.val[1] = vldrbq_gather_offset_s8(values, vshrq_n_u8(both, 4));
        vst2q_s8(y, two);
    }
#endif
    for (; count > 0; count -= 2, ++codes, y += 2) {
        y[0] = values[*codes & 15];
        y[1] = values[*codes >> 4];
    }
}

TW_KERNEL(tw_decode_lut4_mve) {
    const tw_decode_lut_params p = *params;
    const uint8_t *codes = (const uint8_t *)in[0];
    const int8_t *ends = (const int8_t *)in[2];
    int8_t *y = (int8_t *)out[0];
    for (int32_t row = 0; row < p.rows; ++row, codes += p.body / 2) {
        ends = tw_decode_ends(y, ends, p.head);
        y += p.head;
        tw_lut_nibbles(codes, (const int8_t *)in[1], y, p.body);
        y += p.body;
        ends = tw_decode_ends(y, ends, p.tail);
        y += p.tail;
    }
}

#endif
