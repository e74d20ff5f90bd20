/* SPDX-License-Identifier: Apache-2.0 */
/* UNIDIRECTIONAL_SEQUENCE_LSTM of int8 or int16 on the DSP extension: the four gates of a unit at a time. */
#ifndef TW_LSTM_DSP_H
#define TW_LSTM_DSP_H

#include "../isa/dsp/dsp_tile.h"
#include "../isa/dsp/dsp_tile_s16.h"
#include "lstm_s8.h"

/* As tw_lstm_s8 but for the inputs: x, then packed weights (dsp_tile.h) over the input [units][size / 4 rounded up][2][2]
 * and over the hidden state, where the gates of a unit are two pairs of channels; int32 [units][8]: what the doubled
 * sums of the four gates over the input begin with, and those over the hidden state, zero points folded in; the table.
 * Sums shifted to the left stay below 2^30; shifts to the right are 1..28. scratch: int8 [size rounded up to 4], [units
 * rounded up to 4]. */
typedef tw_lstm_s8_params tw_lstm_dsp_s8_params;

/* As tw_lstm_s16 but for the inputs: x, then weights over the input, halves of two channels in words [units][size / 4
 * rounded up][2][2] (fully_connected_dsp_s16.h), and those over the hidden state, where the gates of a unit are two pairs
 * of channels; int64 [units][4]: what the sums of the four gates begin with; the table. Sums of products fit 32 bits.
 * scratch: int16 [size rounded up to 4], [units rounded up to 4]. */
typedef tw_lstm_s8_params tw_lstm_dsp_s16_params;

TW_INLINE int32_t tw_lstm_dsp_clamp(int32_t x) { return tw_clamp_s16(x, INT16_MIN, INT16_MAX); }

TW_INLINE int32_t tw_lstm_dsp_product(int32_t a, int32_t b, int32_t mult, int32_t shift) {
    return tw_scaled_either(2 * a * b, mult, shift);
}

/* The cell and the hidden state of unit u from the sums of its gates, as int16 with 12 fractional bits. */
TW_INLINE void tw_lstm_dsp_unit(const tw_lstm_s8_step *s, int32_t u, const int32_t *sums) {
    const tw_lstm_s8_params *p = s->p;
    const uint16_t *table = (const uint16_t *)s->in[4];
    int32_t gates[TW_MAX_GATES];
    TW_UNROLLED
    for (int g = 0; g < TW_MAX_GATES; ++g) gates[g] = tw_lstm_gate_of(sums[g], g, table);
    const int32_t kept = tw_lstm_dsp_product(gates[0], s->cell[u], p->keep_mult, p->keep_shift);
    const int32_t added = tw_lstm_dsp_product(gates[1], gates[2], p->add_mult, p->add_shift);
    const int32_t value = tw_lstm_dsp_clamp(tw_lstm_dsp_clamp(kept) + tw_lstm_dsp_clamp(added));
    s->cell[u] = (int16_t)(p->clip > 0 ? tw_clamp(value, -p->clip, p->clip) : value);
    const int32_t shown = tw_tanh16(s->cell[u], p->cell, table);
    const int32_t q = tw_lstm_dsp_product(shown, gates[3], p->give_mult, p->give_shift);
    if (s->wide)
        ((int16_t *)s->hidden)[u] = (int16_t)tw_lstm_dsp_clamp(q);
    else
        ((int8_t *)s->hidden)[u] = (int8_t)tw_clamp8(q + p->hidden_zero);
}

TW_INLINE void tw_lstm_dsp_advance(const tw_lstm_s8_step *s) {
    const tw_lstm_s8_params *p = s->p;
    int8_t *x = (int8_t *)s->gates, *hidden = x + (p->size + 3) / 4 * 4;
    const uint32_t *w = (const uint32_t *)s->in[1], *r = (const uint32_t *)s->in[2];
    const int32_t *ends = (const int32_t *)s->in[3];
    memcpy(x, s->x, (size_t)p->size);
    memcpy(hidden, s->hidden, (size_t)p->units);
#pragma GCC unroll 1
    for (int32_t u = 0; u < p->units; ++u, ends += 2 * TW_MAX_GATES) {
        int32_t of_x[TW_MAX_GATES], of_h[TW_MAX_GATES];
        w = tw_dsp_four(x, w, p->size, 0, ends, of_x);
        r = tw_dsp_four(hidden, r, p->units, 0, ends + TW_MAX_GATES, of_h);
        TW_UNROLLED
        for (int g = 0; g < TW_MAX_GATES; ++g) {
            const int32_t one = tw_scaled_either(of_x[g], p->mult[g], p->shift[g]);
            const int32_t other = tw_scaled_either(of_h[g], p->hidden_mult[g], p->hidden_shift[g]);
            of_x[g] = tw_lstm_dsp_clamp(tw_lstm_dsp_clamp(one) + tw_lstm_dsp_clamp(other));
        }
        tw_lstm_dsp_unit(s, u, of_x);
    }
}

TW_KERNEL(tw_lstm_dsp_s8) { tw_lstm_sequences(params, in, out, scratch, 1, tw_lstm_dsp_advance); }

/* The sums of the four gates of a unit over n values of x, as int16 with 12 fractional bits; starts: null if they begin
 * with 0. Returns the weights of the next unit. */
TW_INLINE const uint32_t *tw_lstm_dsp_four_s16(const int16_t *x, const uint32_t *w, int32_t n, const int64_t *starts,
                                               const int32_t *mult, const int32_t *right, int32_t *sums) {
    const int32_t words = (n + 3) / 4 * 2;
    int64_t both[2];
    int32_t first[2];
    tw_dsp_sums1_s16((const uint32_t *)(const void *)x, w, words, both, first);
    TW_UNROLLED
    for (int g = 0; g < TW_MAX_GATES; ++g) {
        const int32_t sum = g % 2 ? (int32_t)((both[g / 2] - first[g / 2]) >> 8) : first[g / 2];
        sums[g] = tw_lstm_dsp_clamp(tw_scaled64(starts ? starts[g] + sum : sum, mult[g], right[g]));
    }
    return w + 2 * words;
}

TW_INLINE void tw_lstm_dsp_advance_s16(const tw_lstm_s8_step *s) {
    const tw_lstm_s8_params *p = s->p;
    int16_t *x = s->gates, *hidden = x + (p->size + 3) / 4 * 4;
    const uint32_t *w = (const uint32_t *)s->in[1], *r = (const uint32_t *)s->in[2];
    const int64_t *starts = (const int64_t *)s->in[3];
    memcpy(x, s->x, 2 * (size_t)p->size);
    memcpy(hidden, s->hidden, 2 * (size_t)p->units);
#pragma GCC unroll 1
    for (int32_t u = 0; u < p->units; ++u, starts += TW_MAX_GATES) {
        int32_t of_x[TW_MAX_GATES], of_h[TW_MAX_GATES];
        w = tw_lstm_dsp_four_s16(x, w, p->size, starts, p->mult, p->shift, of_x);
        r = tw_lstm_dsp_four_s16(hidden, r, p->units, NULL, p->hidden_mult, p->hidden_shift, of_h);
        TW_UNROLLED
        for (int g = 0; g < TW_MAX_GATES; ++g) of_x[g] = tw_lstm_dsp_clamp(of_x[g] + of_h[g]);
        tw_lstm_dsp_unit(s, u, of_x);
    }
}

TW_KERNEL(tw_lstm_dsp_s16) { tw_lstm_sequences(params, in, out, scratch, 2, tw_lstm_dsp_advance_s16); }

#endif
