/* SPDX-License-Identifier: Apache-2.0 */
/* UNIDIRECTIONAL_SEQUENCE_LSTM of int8 on the DSP extension: the four gates of a unit at a time. */
#ifndef TW_LSTM_DSP_H
#define TW_LSTM_DSP_H

#include "../isa/dsp/dsp_tile.h"
#include "lstm_s8.h"

/* As tw_lstm_s8 but for the inputs: x, then packed weights (dsp_tile.h) over the input [units][size / 4 rounded up][2][2]
 * and over the hidden state, where the gates of a unit are two pairs of channels; int32 [units][8]: what the doubled
 * sums of the four gates over the input begin with, and those over the hidden state, zero points folded in; the table.
 * Sums shifted to the left stay below 2^30; shifts to the right are 1..28. scratch: int8 [size rounded up to 4], [units
 * rounded up to 4]. */
typedef tw_lstm_s8_params tw_lstm_dsp_s8_params;

TW_INLINE int32_t tw_lstm_dsp_clamp(int32_t x) { return tw_clamp_s16(x, INT16_MIN, INT16_MAX); }

TW_INLINE int32_t tw_lstm_dsp_product(int32_t a, int32_t b, int32_t mult, int32_t shift) {
    return tw_scaled_either(2 * a * b, mult, shift);
}

/* The cell and the hidden state of unit u from the sums of its gates. */
TW_INLINE void tw_lstm_dsp_unit(const tw_lstm_s8_step *s, int32_t u, const int32_t *of_x, const int32_t *of_h) {
    const tw_lstm_s8_params *p = s->p;
    const uint16_t *table = (const uint16_t *)s->in[4];
    int32_t gates[TW_MAX_GATES];
    TW_UNROLLED
    for (int g = 0; g < TW_MAX_GATES; ++g) {
        const int32_t one = tw_scaled_either(of_x[g], p->mult[g], p->shift[g]);
        const int32_t other = tw_scaled_either(of_h[g], p->hidden_mult[g], p->hidden_shift[g]);
        const int32_t sum = tw_lstm_dsp_clamp(tw_lstm_dsp_clamp(one) + tw_lstm_dsp_clamp(other));
        gates[g] = g == 2 ? tw_tanh16(sum, 0, table) : tw_sigmoid16(sum, table);
    }
    const int32_t kept = tw_lstm_dsp_product(gates[0], s->cell[u], p->keep_mult, p->keep_shift);
    const int32_t added = tw_lstm_dsp_product(gates[1], gates[2], p->add_mult, p->add_shift);
    const int32_t value = tw_lstm_dsp_clamp(tw_lstm_dsp_clamp(kept) + tw_lstm_dsp_clamp(added));
    s->cell[u] = (int16_t)(p->clip > 0 ? tw_clamp(value, -p->clip, p->clip) : value);
    const int32_t shown = tw_tanh16(s->cell[u], p->cell, table);
    const int32_t q = tw_lstm_dsp_product(shown, gates[3], p->give_mult, p->give_shift);
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
        tw_lstm_dsp_unit(s, u, of_x, of_h);
    }
}

TW_KERNEL(tw_lstm_dsp_s8) {
    const tw_lstm_dsp_s8_params p = *params;
    tw_lstm_sequences(&p, in, out, scratch, 1, tw_lstm_dsp_advance);
}

#endif
