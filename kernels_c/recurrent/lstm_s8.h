/* SPDX-License-Identifier: Apache-2.0 */
/* UNIDIRECTIONAL_SEQUENCE_LSTM of int8 or int16 with four gates and nothing else, as TFLM computes it; cells are int16. */
#ifndef TW_LSTM_S8_H
#define TW_LSTM_S8_H

#include "../core/dot.h"
#include "../core/sums_s16.h"
#include "../functions/logistic.h"
#include "../functions/tanh.h"
#include "cell.h"

/* Gates in the order forget, input, cell, output. in: x, then for each gate weights [units, size], recurrent weights
 * [units, units], bias [units]. out: y, hidden [batches, units], cell [batches, units]; the last two are also read. x
 * [batches, steps, size] and y [batches, steps, units]; neighbours are *_batch and *_step elements apart. clip: bound
 * of the cells' magnitude; 0: none. scratch: 4 * units values.
 *
 * Gates are summed as int16 with 12 fractional bits. mult and shift scale the sums over the inputs, hidden_mult
 * and hidden_shift those over the hidden state; keep, add and give: the products of cell and forget gate, of cell gate
 * and input gate, of the cell's tanh and output gate. The cell has 15 - cell fractional bits. One more input: sigmoid
 * [256] uint16, of x / 24 with 16 fractional bits. */
typedef struct {
    int32_t batches, steps, size, units, x_batch, x_step, y_batch, y_step;
    int32_t clip, x_zero, hidden_zero, cell;
    int32_t mult[TW_MAX_GATES], shift[TW_MAX_GATES], hidden_mult[TW_MAX_GATES], hidden_shift[TW_MAX_GATES];
    int32_t keep_mult, keep_shift, add_mult, add_shift, give_mult, give_shift;
} tw_lstm_s8_params;

/* x, hidden and y are int16, bias int64; mult and hidden_mult have 15 bits, and shift and hidden_shift are to the
 * right. */
typedef tw_lstm_s8_params tw_lstm_s16_params;

/* The sigmoid with 15 fractional bits of x with 12; the table has steps of 1 / 24. */
TW_INLINE int32_t tw_sigmoid16(int32_t x, const uint16_t *table) { return tw_logistic_of_s16(3 * x, table); }

/* tanh(x) with 15 fractional bits; x has 12 after a left shift by 0..12. */
TW_INLINE int32_t tw_tanh16(int32_t x, int32_t left, const uint16_t *table) {
    return tw_tanh_of_s16(x * (3 << left), table);
}

TW_INLINE int32_t tw_product16(int32_t a, int32_t b, int32_t mult, int32_t shift, int32_t zero) {
    return tw_add(tw_requantize(a * b, mult, shift), zero);
}

/* x . w less the zero point of x, requantised to int16. */
TW_INLINE int32_t tw_lstm_sum_s8(int32_t start, const int8_t *x, const int8_t *w, int32_t n, int32_t zero, int32_t mult,
                                 int32_t shift) {
    return tw_clamp16(tw_requantize(tw_dot_s8(start, x, w, n, zero), mult, shift));
}

/* One step of one sequence; gates [4, units]. wide: x and hidden are int16, not int8. */
typedef struct {
    const tw_lstm_s8_params *p;
    const void *const *in;
    const void *x;
    void *hidden;
    int16_t *cell, *gates;
    int32_t wide;
} tw_lstm_s8_step;

/* What gate g sums for unit u, 12 fractional bits. */
TW_INLINE int32_t tw_lstm_gate_s8(const tw_lstm_s8_step *s, int32_t g, int32_t u) {
    const tw_lstm_s8_params *p = s->p;
    const void *bias = s->in[3 + 3 * g];
    const int32_t n = p->units;
    const int8_t *w = (const int8_t *)s->in[1 + 3 * g] + u * p->size, *r = (const int8_t *)s->in[2 + 3 * g] + u * n;
    if (s->wide) {
        const int64_t one = tw_dot_s16(((const int64_t *)bias)[u], (const int16_t *)s->x, w, p->size);
        const int64_t other = tw_dot_s16(0, (const int16_t *)s->hidden, r, n);
        return tw_clamp16(tw_clamp16(tw_scaled64(one, p->mult[g], p->shift[g])) +
                          tw_clamp16(tw_scaled64(other, p->hidden_mult[g], p->hidden_shift[g])));
    }
    const int32_t one = tw_lstm_sum_s8(((const int32_t *)bias)[u], (const int8_t *)s->x, w, p->size, p->x_zero,
                                       p->mult[g], p->shift[g]);
    const int32_t other =
        tw_lstm_sum_s8(0, (const int8_t *)s->hidden, r, n, p->hidden_zero, p->hidden_mult[g], p->hidden_shift[g]);
    return tw_clamp16(one + other);
}

/* What gate g gives for its sum. */
TW_INLINE int32_t tw_lstm_gate_of(int32_t sum, int32_t g, const uint16_t *table) {
    return g == 2 ? tw_tanh16(sum, 0, table) : tw_sigmoid16(sum, table);
}

/* The cell and the hidden state of unit u from its gates. */
TW_INLINE void tw_lstm_cell_s8(const tw_lstm_s8_step *s, int32_t u, int32_t forget, int32_t take, int32_t fresh,
                               int32_t give, const uint16_t *table) {
    const tw_lstm_s8_params *p = s->p;
    const int32_t kept = tw_clamp16(tw_product16(forget, s->cell[u], p->keep_mult, p->keep_shift, 0));
    const int32_t added = tw_clamp16(tw_product16(take, fresh, p->add_mult, p->add_shift, 0));
    const int32_t value = tw_clamp16(kept + added);
    s->cell[u] = (int16_t)(p->clip > 0 ? tw_clamp(value, -p->clip, p->clip) : value);
    const int32_t shown = tw_tanh16(s->cell[u], p->cell, table);
    const int32_t q = tw_product16(shown, give, p->give_mult, p->give_shift, p->hidden_zero);
    if (s->wide) {
        ((int16_t *)s->hidden)[u] = (int16_t)tw_clamp16(q);
    } else {
        ((int8_t *)s->hidden)[u] = (int8_t)tw_clamp(q, INT8_MIN, INT8_MAX);
    }
}

/* The same from the sums of its four gates, 12 fractional bits. */
TW_INLINE void tw_lstm_unit_s8(const tw_lstm_s8_step *s, int32_t u, int32_t *sums, const uint16_t *table) {
    for (int g = 0; g < TW_MAX_GATES; ++g) sums[g] = tw_lstm_gate_of(sums[g], g, table);
    tw_lstm_cell_s8(s, u, sums[0], sums[1], sums[2], sums[3], table);
}

TW_INLINE void tw_lstm_advance_s8(const tw_lstm_s8_step *s) {
    const uint16_t *table = (const uint16_t *)s->in[13];
    const int32_t n = s->p->units;
    int16_t *gates = s->gates;
    for (int32_t g = 0; g < TW_MAX_GATES; ++g)
        for (int32_t u = 0; u < n; ++u) gates[g * n + u] = (int16_t)tw_lstm_gate_of(tw_lstm_gate_s8(s, g, u), g, table);
    for (int32_t u = 0; u < n; ++u)
        tw_lstm_cell_s8(s, u, gates[u], gates[n + u], gates[2 * n + u], gates[3 * n + u], table);
}

/* All sequences. bytes: of a value of x, hidden and y. advance: does one step. */
TW_INLINE void tw_lstm_sequences(const tw_lstm_s8_params *params, const void *const *in, void *const *out,
                                 void *scratch, int32_t bytes, void (*advance)(const tw_lstm_s8_step *)) {
    const tw_lstm_s8_params p = *params;
    for (int32_t b = 0; b < p.batches; ++b) {
        int8_t *hidden = (int8_t *)out[1] + b * p.units * bytes;
        int16_t *cell = (int16_t *)out[2] + b * p.units;
        for (int32_t t = 0; t < p.steps; ++t) {
            const int8_t *x = (const int8_t *)in[0] + (b * p.x_batch + t * p.x_step) * bytes;
            const tw_lstm_s8_step s = {&p, in, x, hidden, cell, (int16_t *)scratch, bytes == 2};
            advance(&s);
            memcpy((int8_t *)out[0] + (b * p.y_batch + t * p.y_step) * bytes, hidden, (size_t)(p.units * bytes));
        }
    }
}

TW_KERNEL(tw_lstm_s8) { tw_lstm_sequences(params, in, out, scratch, 1, tw_lstm_advance_s8); }
TW_KERNEL(tw_lstm_s16) { tw_lstm_sequences(params, in, out, scratch, 2, tw_lstm_advance_s8); }

#endif
