/* SPDX-License-Identifier: Apache-2.0 */
/* UNIDIRECTIONAL_SEQUENCE_LSTM of int8 or int16 on Helium: four units at a time. */
#ifndef TW_LSTM_MVE_H
#define TW_LSTM_MVE_H

#include "../isa/mve/mve_cell.h"
#include "../isa/mve/mve_tile.h"
#include "lstm_s8.h"

/* As tw_lstm_s8, but in place of the bias of a gate come int32 [units / 4 rounded up][8]: per four units what their sums
 * over the input begin with, then those over the hidden state, zero points folded in. The last four begin at units - 4;
 * if there are fewer, they are all. The shifts of products are -31..-1. */
typedef tw_lstm_s8_params tw_lstm_mve_s8_params;

/* As tw_lstm_s16 but for the inputs: x, then for each gate fours of units over the input and over the hidden state, without
 * multipliers (mve_tile_s16.h); the table. Sums fit 32 bits. mult and hidden_mult are as tw_v4_top takes them, shift and
 * hidden_shift are not used; the shifts of products are -31..-1. */
typedef tw_lstm_s8_params tw_lstm_mve_s16_params;

/* The first count of four units of gate g: gates from their sums over the input and over the hidden state. */
TW_INLINE void tw_lstm_mve_four(int32_t g, tw_v4 of_x, tw_v4 of_h, const uint16_t *table, int16_t *gates,
                                int32_t count) {
    const tw_v4 sum = tw_v4_clamp16(tw_v4_add(tw_v4_clamp16(of_x), tw_v4_clamp16(of_h)));
    const tw_v4 gate = g == 2 ? tw_v4_tanh16(sum, 0, table) : tw_v4_sigmoid16(sum, table);
    tw_v4_store_s16(gates, gate, INT16_MIN, INT16_MAX, count);
}

/* Gate g of one step: gates [units]. */
TW_INLINE void tw_lstm_mve_gate(const tw_lstm_s8_step *s, int32_t g, int16_t *gates) {
    const tw_lstm_s8_params *p = s->p;
    const tw_mve_four_rows of_x = tw_mve_four_rows_of(p->size, p->units),
                           of_h = tw_mve_four_rows_of(p->units, p->units);
    const int8_t *w = (const int8_t *)s->in[1 + 3 * g], *r = (const int8_t *)s->in[2 + 3 * g];
    const int32_t *ends = (const int32_t *)s->in[3 + 3 * g], count = tw_min(p->units, 4);
    const uint16_t *table = (const uint16_t *)s->in[13];
    const tw_v4 mult = tw_v4_all(p->mult[g]), shift = tw_v4_all(p->shift[g]);
    const tw_v4 hidden_mult = tw_v4_all(p->hidden_mult[g]), hidden_shift = tw_v4_all(p->hidden_shift[g]);
#pragma GCC unroll 1
    for (int32_t u = 0; u < p->units; u += 4, ends += 8) {
        const int32_t at = tw_max(tw_min(u, p->units - 4), 0);
        const tw_v4 one = tw_mve_tile1((const int8_t *)s->x, w + at * p->size, of_x.at, ends);
        const tw_v4 other = tw_mve_tile1((const int8_t *)s->hidden, r + at * p->units, of_h.at, ends + 4);
        tw_lstm_mve_four(g, tw_v4_requantize(one, mult, shift), tw_v4_requantize(other, hidden_mult, hidden_shift),
                         table, gates + at, count);
    }
}

/* The cells and the hidden state of one step. */
TW_INLINE void tw_lstm_mve_cells(const tw_lstm_s8_step *s, const uint16_t *table) {
    const tw_lstm_s8_params *p = s->p;
    const int32_t n = p->units, most = p->clip > 0 ? p->clip : INT16_MAX, least = p->clip > 0 ? -most : INT16_MIN;
#pragma GCC unroll 1
    for (int32_t u = 0; u < n; u += 4) {
        const int32_t count = tw_min(n - u, 4);
        const int16_t *gate = s->gates + u;
        const tw_v4 kept = tw_v4_product16(tw_v4_load_s16(gate, count), tw_v4_load_s16(s->cell + u, count),
                                           p->keep_mult, p->keep_shift);
        const tw_v4 added = tw_v4_product16(tw_v4_load_s16(gate + n, count), tw_v4_load_s16(gate + 2 * n, count),
                                            p->add_mult, p->add_shift);
        const tw_v4 cell = tw_v4_clamp(tw_v4_add(tw_v4_clamp16(kept), tw_v4_clamp16(added)), least, most);
        tw_v4_store_s16(s->cell + u, cell, INT16_MIN, INT16_MAX, count);
        const tw_v4 shown = tw_v4_tanh16(cell, p->cell, table), give = tw_v4_load_s16(gate + 3 * n, count);
        const tw_v4 q = tw_v4_product16(shown, give, p->give_mult, p->give_shift);
        if (s->wide)
            tw_v4_store_s16((int16_t *)s->hidden + u, q, INT16_MIN, INT16_MAX, count);
        else
            tw_v4_store_s8((int8_t *)s->hidden + u, q, p->hidden_zero, INT8_MIN, INT8_MAX, count);
    }
}

TW_INLINE void tw_lstm_mve_advance(const tw_lstm_s8_step *s) {
#pragma GCC unroll 1
    for (int32_t g = 0; g < TW_MAX_GATES; ++g) tw_lstm_mve_gate(s, g, s->gates + g * s->p->units);
    tw_lstm_mve_cells(s, (const uint16_t *)s->in[13]);
}

TW_KERNEL(tw_lstm_mve_s8) { tw_lstm_sequences(params, in, out, scratch, 1, tw_lstm_mve_advance); }

/* Gate g of one step: gates [units]. */
TW_INLINE void tw_lstm_mve_gate_s16(const tw_lstm_s8_step *s, int32_t g, int16_t *gates) {
    const tw_lstm_s8_params *p = s->p;
    const int32_t *of_x = (const int32_t *)s->in[1 + 2 * g], *of_h = (const int32_t *)s->in[2 + 2 * g];
    const int32_t of_x_words = tw_mve_four_words_s16(p->size), of_h_words = tw_mve_four_words_s16(p->units);
    const uint16_t *table = (const uint16_t *)s->in[9];
    const tw_v4 mult = tw_v4_all(p->mult[g]), hidden_mult = tw_v4_all(p->hidden_mult[g]);
#pragma GCC unroll 1
    for (int32_t u = 0; u < p->units; u += 4, of_x += of_x_words, of_h += of_h_words) {
        const tw_v4 one = tw_mve_four_s16((const int16_t *)s->x, of_x, p->size);
        const tw_v4 other = tw_mve_four_s16((const int16_t *)s->hidden, of_h, p->units);
        tw_lstm_mve_four(g, tw_v4_top(one, mult), tw_v4_top(other, hidden_mult), table, gates + u, p->units - u);
    }
}

TW_INLINE void tw_lstm_mve_advance_s16(const tw_lstm_s8_step *s) {
#pragma GCC unroll 1
    for (int32_t g = 0; g < TW_MAX_GATES; ++g) tw_lstm_mve_gate_s16(s, g, s->gates + g * s->p->units);
    tw_lstm_mve_cells(s, (const uint16_t *)s->in[9]);
}

TW_KERNEL(tw_lstm_mve_s16) { tw_lstm_sequences(params, in, out, scratch, 2, tw_lstm_mve_advance_s16); }

#endif
