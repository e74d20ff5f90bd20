/* SPDX-License-Identifier: Apache-2.0 */
/* What the decoders of weights share.
 *
 * Coded weights are decoded right before the layer that reads them, or once at the start. Decoded rows have head, body
 * and tail bytes. The body is coded; its size is a multiple of 8. Head and tail (empty in most layouts) are not coded;
 * their sizes are multiples of 4, and they lie one after the other in `ends`. */
#ifndef TW_DECODE_H
#define TW_DECODE_H

#include "../isa/dsp/dsp.h"

/* Four bytes to or from an address that is a multiple of 4. */
TW_INLINE void tw_decode_store(int8_t *to, uint32_t word) {
    memcpy(__builtin_assume_aligned(to, 4), &word, sizeof word);
}
TW_INLINE uint32_t tw_decode_load(const void *from) {
    uint32_t word;
    memcpy(&word, __builtin_assume_aligned(from, 4), sizeof word);
    return word;
}

/* count bytes of `ends`, a multiple of 4, into a row; returns what follows them. */
static TW_NOINLINE const int8_t *tw_decode_ends(int8_t *to, const int8_t *ends, int32_t count) {
    for (int32_t i = 0; i < count; i += 4) tw_decode_store(to + i, tw_decode_load(ends + i));
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
        const uint32_t first = tw_decode_load(y), second = tw_decode_load(y + 4);
        tw_decode_store(y, tw_decode_half2(first));
        tw_decode_store(y + 4, tw_decode_half2(second));
    }
}

#endif
