/* SPDX-License-Identifier: Apache-2.0 */
/* UNIDIRECTIONAL_SEQUENCE_LSTM of int8 for cores without SMLAD: the four gates of a unit share what they load. */
#ifndef TW_LSTM_WORDS_H
#define TW_LSTM_WORDS_H

#include "../core/sums.h"
#include "lstm_s8.h"

/* As tw_lstm_s8 but for the inputs: x, then weights over the input [units][4][size] and over the hidden state
 * [units][4][units], gate by gate; int32 [units][8]: what the sums of the four gates over the input begin with, and those
 * over the hidden state, zero points folded in; the table. scratch: the hidden state before the step. */
typedef tw_lstm_s8_params tw_lstm_words_s8_params;

/* Scaled to 12 fractional bits, clamped to int16. */
TW_SHORT int32_t tw_lstm_words_end(int32_t sum, int32_t mult, int32_t shift) {
    return tw_clamp16(tw_requantize(sum, mult, shift));
}

TW_INLINE void tw_lstm_words_advance(const tw_lstm_s8_step *s) {
    const tw_lstm_s8_params *p = s->p;
    const int8_t *w = (const int8_t *)s->in[1], *r = (const int8_t *)s->in[2];
    const int32_t *starts = (const int32_t *)s->in[3];
    int8_t *hidden = (int8_t *)s->gates;
    memcpy(hidden, s->hidden, (size_t)p->units);
    for (int32_t u = 0; u < p->units; ++u, starts += 2 * TW_MAX_GATES) {
        int32_t sums[2 * TW_MAX_GATES];
        memcpy(sums, starts, sizeof sums);
        tw_rows_s8(sums, (const int8_t *)s->x, w, p->size, p->size);
        tw_rows_s8(sums + TW_MAX_GATES, hidden, r, p->units, p->units);
        w += TW_MAX_GATES * p->size, r += TW_MAX_GATES * p->units;
        for (int g = 0; g < TW_MAX_GATES; ++g)
            sums[g] = tw_clamp16(tw_lstm_words_end(sums[g], p->mult[g], p->shift[g]) +
                                 tw_lstm_words_end(sums[TW_MAX_GATES + g], p->hidden_mult[g], p->hidden_shift[g]));
        tw_lstm_unit_s8(s, u, sums, (const uint16_t *)s->in[4]);
    }
}

TW_KERNEL(tw_lstm_words_s8) { tw_lstm_sequences(params, in, out, scratch, 1, tw_lstm_words_advance); }

#endif
