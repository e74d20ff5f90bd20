/* SPDX-License-Identifier: Apache-2.0 */
/* UNIDIRECTIONAL_SEQUENCE_LSTM of int8 for computers: the sums of all gates are a layer over 16 lanes, and what follows
 * runs over all units of a gate. */
#ifndef TW_LSTM_WIDE_H
#define TW_LSTM_WIDE_H

#include "../isa/wide/wide.h"
#include "lstm_s8.h"

/* As tw_lstm_s8 but for the inputs, where a gate has padded units, up to a multiple of 16: x, then weights over the input
 * packed (wide.h) as [4 * padded] rows of size, and over the hidden state; int32 [2][4][padded]: what the sums over both
 * begin with, zero points folded in; int32 [256]: an entry of the table, and by how much the next one is larger in the
 * upper half. scratch: bytes of a row of x and of the hidden state, each up to a multiple of 64, then int32 [2][4][padded]
 * of sums, which become gates. */
typedef tw_lstm_s8_params tw_lstm_wide_s8_params;

/* As tw_sigmoid_at, without a branch. */
TW_INLINE int32_t tw_lstm_wide_at(const int32_t *pairs, int32_t magnitude, int32_t bits, int32_t most) {
    const int32_t i = magnitude >> bits, pair = pairs[tw_min(i, 255)];
    const int32_t at = ((pair & 0xFFFF) << bits) + (magnitude & ((1 << bits) - 1)) * (pair >> 16);
    return i >= 255 ? most : at;
}

/* As tw_sigmoid16 and tw_tanh16. */
TW_INLINE int32_t tw_lstm_wide_sigmoid(int32_t x, const int32_t *pairs) {
    const int32_t upper = tw_lstm_wide_at(pairs, 3 * (x < 0 ? -x : x), 9, 0x7FFF << 10);
    return (x < 0 ? (1 << 25) - upper + 511 : upper + 512) >> 10;
}

TW_INLINE int32_t tw_lstm_wide_tanh(int32_t x, int32_t left, const int32_t *pairs) {
    const int32_t above = tw_lstm_wide_at(pairs, (3 << left) * (x < 0 ? -x : x), 8, 0xFFFF << 8) - (1 << 23);
    return (x < 0 ? 127 - above : 128 + above) >> 8;
}

/* The gate g of n units, from sums over the input and over the hidden state; it lies where the former were. */
TW_INLINE void tw_lstm_wide_gate(int32_t *TW_RESTRICT of_x, const int32_t *TW_RESTRICT of_h, int32_t g, int32_t n,
                                 const int32_t *TW_RESTRICT starts, int32_t apart, const int32_t *TW_RESTRICT pairs,
                                 const tw_lstm_s8_params *p) {
    const int32_t mult = p->mult[g], shift = p->shift[g], other = p->hidden_mult[g], further = p->hidden_shift[g];
    TW_VECTOR
    for (int32_t u = 0; u < n; ++u) {
        const int32_t x = tw_clamp16(tw_requantize(tw_add(of_x[u], starts[u]), mult, shift));
        const int32_t h = tw_clamp16(tw_requantize(tw_add(of_h[u], starts[apart + u]), other, further));
        of_x[u] = tw_clamp16(x + h);
    }
    if (g == 2) {
        TW_VECTOR
        for (int32_t u = 0; u < n; ++u) of_x[u] = tw_lstm_wide_tanh(of_x[u], 0, pairs);
    } else {
        TW_VECTOR
        for (int32_t u = 0; u < n; ++u) of_x[u] = tw_lstm_wide_sigmoid(of_x[u], pairs);
    }
}

/* Cells and hidden state of n units from the gates [4][padded]. */
TW_INLINE void tw_lstm_wide_cells(const int32_t *TW_RESTRICT gates, int32_t padded, int16_t *TW_RESTRICT cell,
                                  int8_t *TW_RESTRICT hidden, const int32_t *TW_RESTRICT pairs,
                                  const tw_lstm_s8_params *p) {
    const int32_t *forget = gates, *take = forget + padded, *fresh = take + padded, *give = fresh + padded;
    const int32_t most = p->clip > 0 ? p->clip : INT16_MAX, least = p->clip > 0 ? -p->clip : INT16_MIN;
    TW_VECTOR
    for (int32_t u = 0; u < p->units; ++u) {
        const int32_t kept = tw_clamp16(tw_product16(forget[u], cell[u], p->keep_mult, p->keep_shift, 0));
        const int32_t added = tw_clamp16(tw_product16(take[u], fresh[u], p->add_mult, p->add_shift, 0));
        const int32_t value = tw_clamp(tw_clamp16(kept + added), least, most);
        const int32_t shown = tw_lstm_wide_tanh(value, p->cell, pairs);
        const int32_t q = tw_product16(shown, give[u], p->give_mult, p->give_shift, p->hidden_zero);
        cell[u] = (int16_t)value;
        hidden[u] = (int8_t)tw_clamp(q, INT8_MIN, INT8_MAX);
    }
}

TW_INLINE void tw_lstm_wide_advance(const tw_lstm_s8_step *s) {
    const tw_lstm_s8_params *p = s->p;
    const int32_t padded = (p->units + TW_LANES - 1) / TW_LANES * TW_LANES, blocks = TW_MAX_GATES * padded / TW_LANES;
    const int32_t *starts = (const int32_t *)s->in[3], *pairs = (const int32_t *)s->in[4];
    uint8_t *x = (uint8_t *)s->gates, *h = x + (p->size + 63) / 64 * 64;
    int32_t *of_x = (int32_t *)(void *)(h + (p->units + 63) / 64 * 64), *of_h = of_x + TW_MAX_GATES * padded;
    tw_bias128(x, (const int8_t *)s->x, p->size);
    tw_bias128(h, (const int8_t *)s->hidden, p->units);
    tw_row_sums(x, (p->size + 3) / 4 * 4, (const int8_t *)s->in[1], of_x, blocks);
    tw_row_sums(h, (p->units + 3) / 4 * 4, (const int8_t *)s->in[2], of_h, blocks);
    for (int32_t g = 0; g < TW_MAX_GATES; ++g)
        tw_lstm_wide_gate(of_x + g * padded, of_h + g * padded, g, padded, starts + g * padded, TW_MAX_GATES * padded,
                          pairs, p);
    tw_lstm_wide_cells(of_x, padded, s->cell, (int8_t *)s->hidden, pairs, p);
}

TW_KERNEL(tw_lstm_wide_s8) { tw_lstm_sequences(params, in, out, scratch, 1, tw_lstm_wide_advance); }

#endif
