/* SPDX-License-Identifier: Apache-2.0 */
/* What the decoders of weights share.
 *
 * Coded weights are decoded right before the layer that reads them, or once at the start. Decoded rows have head, body
 * and tail bytes. The body is coded; its size is a multiple of 8. Head and tail (empty in most layouts) are not coded;
 * their sizes are multiples of 4, and they lie one after the other in `ends`. */
#ifndef TW_DECODE_H
#define TW_DECODE_H

#include "../isa/dsp/dsp.h"

/* count bytes of `ends`, a multiple of 4, into a row; returns what follows them. */
static TW_NOINLINE const int8_t *tw_decode_ends(int8_t *to, const int8_t *ends, int32_t count) {
    for (int32_t i = 0; i < count; i += 4) tw_store4(to + i, tw_load4(ends + i));
    return count > 0 ? ends + count : ends;
}

/* Bytes (a, b, ...) as the halves 256 * b + a that kernels with SMLAD read (dsp_tile.h): a negative a borrows 1 from
 * b. */
TW_INLINE uint32_t tw_decode_half2(uint32_t bytes) {
#if defined(TW_DSP)
    uint32_t r;
    __asm("sxtab16 %0, %1, %2" : "=r"(r) : "r"(bytes & 0xFF00FF00U), "r"(bytes));
    return r;
#else
    const uint32_t high = bytes & 0xFF00FF00U, low = tw_even(bytes);
    return tw_pack(high + low, (high >> 16) + (low >> 16));
#endif
}

/* The same in place for count bytes, a multiple of 8. */
static TW_NOINLINE void tw_decode_halves(int8_t *y, int32_t count) {
    for (const int8_t *const end = y + count; y != end; y += 8) {
        const uint32_t first = tw_load4(y), second = tw_load4(y + 4);
        tw_store4(y, tw_decode_half2(first));
        tw_store4(y + 4, tw_decode_half2(second));
    }
}

#endif
