/* AVERAGE_POOL_2D and MAX_POOL_2D by words of four channels, on any 32-bit core: channels is a multiple of 4. Bytes are
 * made unsigned (x + 128) first, for their sums and differences not to borrow from a neighbour. */
#ifndef TW_POOL_2D_WORDS_H
#define TW_POOL_2D_WORDS_H

#include "dsp.h"
#include "pool_2d.h"

/* As the kernels of pool_2d.h, and the window has at most 257 elements (average). */
typedef tw_pool_2d_params tw_average_pool_2d_words_s8_params;
typedef tw_pool_2d_params tw_max_pool_2d_words_s8_params;

/* Four int8 at a multiple of 4 bytes, as unsigned bytes. */
TW_INLINE uint32_t tw_unsigned4(const int8_t *p) {
    uint32_t word;
    memcpy(&word, __builtin_assume_aligned(p, 4), sizeof word);
    return word ^ 0x80808080U;
}

/* The average of count int8 from their sum as unsigned bytes, rounded half away from zero, as an unsigned byte: floor(t /
 * 2 count), where t is one less for negative sums. reciprocal is 2^22 / count + 1, with which the product is exact and
 * fits 32 bits up to 90 values (t < 512 count, 1024 count^2 < 2^23). */
TW_INLINE uint32_t tw_average_byte(uint32_t sum, uint32_t count, uint32_t reciprocal) {
    const uint32_t t = 2 * sum + count - (sum < 128 * count ? 1 : 0);
    return count <= 90 ? t * reciprocal >> 23 : t / (2 * count);
}

/* Four averages from their sums, clamped to act_min .. act_max. */
TW_INLINE void tw_average_store4(const tw_pool_2d_params *p, uint32_t even, uint32_t odd, uint32_t count,
                                 uint32_t reciprocal, int8_t *y) {
    const uint32_t sums[4] = {even & 0xFFFFU, odd & 0xFFFFU, even >> 16, odd >> 16};
    for (int32_t i = 0; i < 4; ++i) {
        int32_t q = (int32_t)tw_average_byte(sums[i], count, reciprocal) - 128;
        if (p->act_min > INT8_MIN) q = tw_max(q, p->act_min);
        if (p->act_max < INT8_MAX) q = tw_min(q, p->act_max);
        y[i] = (int8_t)q;
    }
}

/* y [channels] = the average of the window at x. */
TW_INLINE void tw_average_words_s8(const tw_pool_2d_params *p, tw_pool_window w, const int8_t *TW_RESTRICT x,
                                   int8_t *TW_RESTRICT y) {
    const uint32_t count = (uint32_t)(w.rows * w.cols), reciprocal = (1U << 22) / count + 1;
    for (int32_t c = 0; c < p->channels; c += 4) {
        const int8_t *tap = x + c;
        uint32_t even = 0, odd = 0;
        for (int32_t r = 0; r < w.rows; ++r, tap += (p->in_w - w.cols) * p->channels) {
            for (int32_t k = 0; k < w.cols; ++k, tap += p->channels) {
                const uint32_t word = tw_unsigned4(tap);
                even = tw_add_even(even, word);
                odd = tw_add_odd(odd, word);
            }
        }
        tw_average_store4(p, even, odd, count, reciprocal, y + c);
    }
}

/* y [channels] = the largest of the window at x. */
TW_INLINE void tw_max_words_s8(const tw_pool_2d_params *p, tw_pool_window w, const int8_t *TW_RESTRICT x,
                               int8_t *TW_RESTRICT y) {
    const uint32_t least = (uint32_t)(p->act_min + 128) * 0x01010101U;
    const uint32_t limit = (uint32_t)(127 - p->act_max) * 0x01010101U;
    for (int32_t c = 0; c < p->channels; c += 4) {
        const int8_t *tap = x + c;
        uint32_t most = least;
        for (int32_t r = 0; r < w.rows; ++r, tap += (p->in_w - w.cols) * p->channels) {
            for (int32_t k = 0; k < w.cols; ++k, tap += p->channels) most = tw_greater4(most, tw_unsigned4(tap));
        }
        most = ~tw_greater4(~most, limit) ^ 0x80808080U; /* the lesser by complements */
        memcpy(__builtin_assume_aligned(y + c, 4), &most, sizeof most);
    }
}

TW_KERNEL(tw_average_pool_2d_words_s8) {
    const tw_pool_2d_params p = *params;
    int8_t *y = (int8_t *)out[0];
    (void)scratch;
    for (int32_t i = 0; i < p.batches * p.out_h; ++i) {
        for (int32_t j = 0; j < p.out_w; ++j, y += p.channels) {
            const tw_pool_window w = tw_pool_cut(&p, i, j);
            tw_average_words_s8(&p, w, (const int8_t *)in[0] + w.at, y);
        }
    }
}

TW_KERNEL(tw_max_pool_2d_words_s8) {
    const tw_pool_2d_params p = *params;
    int8_t *y = (int8_t *)out[0];
    (void)scratch;
    for (int32_t i = 0; i < p.batches * p.out_h; ++i) {
        for (int32_t j = 0; j < p.out_w; ++j, y += p.channels) {
            const tw_pool_window w = tw_pool_cut(&p, i, j);
            tw_max_words_s8(&p, w, (const int8_t *)in[0] + w.at, y);
        }
    }
}

#endif
