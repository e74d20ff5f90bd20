/* SPDX-License-Identifier: Apache-2.0 */
/* AVERAGE_POOL_2D and MAX_POOL_2D by words of four channels, on any 32-bit core: in_c is a multiple of 4. Bytes first
 * become unsigned (x + 128), so that sums and differences do not borrow from a neighbour. */
#ifndef TW_POOL_2D_WORDS_H
#define TW_POOL_2D_WORDS_H

#include "../isa/dsp/dsp.h"
#include "pool_2d.h"

/* As the kernels of pool_2d.h, but averages are over at most 181 elements. */
typedef tw_pool_2d_params tw_average_pool_2d_words_s8_params;
typedef tw_pool_2d_params tw_max_pool_2d_words_s8_params;

/* The numbers that turn sums of count unsigned bytes into averages rounded half away from zero:
 * (sum * mult + offset) >> 23. mult is slightly above 2^23 / count, which moves ties of both signs away from zero and,
 * up to 181 values, nothing else over a bound: 128 count / 2^23 < 1 / (2 count). */
typedef struct {
    uint32_t mult, offset;
} tw_averaging;

TW_INLINE tw_averaging tw_averaging_of(uint32_t count) {
    tw_averaging by;
    by.mult = (1U << 23) / count + 1;
    by.offset = (128U << 23) + (1U << 22) - 128 * count * by.mult; /* 128 is added to every byte */
    return by;
}

/* The average of a sum as an unsigned byte, clamped. */
TW_INLINE uint32_t tw_average_byte(uint32_t sum, tw_averaging by, const tw_limits *limits) {
    int32_t q = (int32_t)((sum * by.mult + by.offset) >> 23);
    if (limits->low > INT8_MIN) q = tw_max(q, limits->low + 128);
    if (limits->high < INT8_MAX) q = tw_min(q, limits->high + 128);
    return (uint32_t)q;
}

/* Four averages from the sums of their bytes, as a word of int8. */
TW_INLINE uint32_t tw_average4(uint32_t even, uint32_t odd, tw_averaging by, const tw_limits *limits) {
    const uint32_t low = tw_average_byte(even & 0xFFFFU, by, limits) | tw_average_byte(odd & 0xFFFFU, by, limits) << 8;
    const uint32_t high = tw_average_byte(even >> 16, by, limits) | tw_average_byte(odd >> 16, by, limits) << 8;
    return (low | high << 16) ^ 0x80808080U;
}

/* y [channels] = the average of the window at x. */
TW_INLINE void tw_average_words_s8(const tw_pool_window *w, const int8_t *TW_RESTRICT x, int8_t *TW_RESTRICT y,
                                   const tw_limits *limits) {
    const tw_averaging by = tw_averaging_of((uint32_t)(w->rows * w->cols));
    TW_ROLLED
    for (int32_t c = 0; c < w->col; c += 4) {
        const int8_t *tap = x + c;
        uint32_t even = 0, odd = 0;
        for (int32_t r = 0; r < w->rows; ++r, tap += w->row - w->cols * w->col)
            for (int32_t k = 0; k < w->cols; ++k, tap += w->col) {
                const uint32_t word = tw_unsigned4(tap);
                even = tw_add_even(even, word);
                odd = tw_add_odd(odd, word);
            }
        tw_store4(y + c, tw_average4(even, odd, by, limits));
    }
}

/* y [channels] = the largest of the window at x. */
TW_INLINE void tw_max_words_s8(const tw_pool_window *w, const int8_t *TW_RESTRICT x, int8_t *TW_RESTRICT y,
                               const tw_limits *limits) {
    const uint32_t least = (uint32_t)(limits->low + 128) * 0x01010101U;
    const uint32_t limit = (uint32_t)(127 - limits->high) * 0x01010101U;
    TW_ROLLED
    for (int32_t c = 0; c < w->col; c += 4) {
        const int8_t *tap = x + c;
        uint32_t most = least;
        for (int32_t r = 0; r < w->rows; ++r, tap += w->row - w->cols * w->col)
            for (int32_t k = 0; k < w->cols; ++k, tap += w->col) most = tw_greater4(most, tw_unsigned4(tap));
        most = ~tw_greater4(~most, limit) ^ 0x80808080U; /* the lesser, by complements */
        tw_store4(y + c, most);
    }
}

/* All windows: their averages, or their largest values. */
TW_INLINE void tw_pool_2d_words_s8(const tw_pool_2d_params *params, const void *const *in, void *const *out,
                                   int average) {
    const tw_pool_2d_params p = *params;
    int8_t *y = (int8_t *)out[0];
    tw_pixel at = tw_pixel_first(in[0], sizeof *y, &p.window);
    TW_EACH_PIXEL(at, &p.window) {
        const tw_pool_window w = tw_pool_cut(&at, &p.window);
        if (average)
            tw_average_words_s8(&w, (const int8_t *)w.x, y, &p.limits);
        else
            tw_max_words_s8(&w, (const int8_t *)w.x, y, &p.limits);
        y += w.col;
    }
}

TW_KERNEL(tw_average_pool_2d_words_s8) { tw_pool_2d_words_s8(params, in, out, 1); }
TW_KERNEL(tw_max_pool_2d_words_s8) { tw_pool_2d_words_s8(params, in, out, 0); }

#endif
