/* SPDX-License-Identifier: Apache-2.0 */
/* LSTMs of int8 with all their options, as LiteRT computes them; cells are int16. */
#ifndef TW_LSTM_GEMMLOWP_H
#define TW_LSTM_GEMMLOWP_H

#include "../core/gemmlowp16.h"
#include "../core/inverse_root.h"
#include "cell.h"

/* Gates in the order forget, input, cell, output. in: x, then for each gate weights int8 [units, size], recurrent
 * weights int8 [units, outputs], bias int32 [units], weights of the cell int16 [units] (peephole), factors int16 [units]
 * (norm); then weights of the projection int8 [outputs, units] and its bias int32 [outputs]; null where the model has
 * none. out: y, hidden [batches, outputs], cell [batches, units]; the last two are also read.
 *
 * coupled, peephole, norm, project: see lstm.h. clip, proj_clip: bounds of the magnitudes of cells and of the stored
 * output; 0: none. The cell has 15 - bits fractional bits, bits 0..6. Each mult and shift scales a kind of sum: those
 * over x, over the hidden state and over the cell to what gates take, norm to 12 fractional bits; shown is what the
 * output gate shows, with the zero point shown_zero. guard: the variance where it is below 1. scratch: int16 [4, units],
 * then int8 [units]. */
typedef struct {
    tw_cell cell;
    int32_t coupled, peephole, norm, project, clip, proj_clip, bits, x_zero, hidden_zero, shown_zero;
    int32_t x_mult[TW_MAX_GATES], x_shift[TW_MAX_GATES], hidden_mult[TW_MAX_GATES], hidden_shift[TW_MAX_GATES];
    int32_t peephole_mult[TW_MAX_GATES], peephole_shift[TW_MAX_GATES];
    int32_t norm_mult[TW_MAX_GATES], norm_shift[TW_MAX_GATES], guard[TW_MAX_GATES];
    int32_t shown_mult, shown_shift, project_mult, project_shift;
} tw_lstm_gemmlowp_s8_params;

#define TW_FIXED_GATE_INPUTS 5

/* The sum of a row of weights times values less zero, from start on. */
TW_INLINE int32_t tw_row_sum(int32_t start, const int8_t *w, const int8_t *x, int32_t n, int32_t zero) {
    for (int32_t i = 0; i < n; ++i) start = tw_add(start, w[i] * (x[i] - zero));
    return start;
}

/* x less its mean, over its standard deviation, times factors, plus bias, in place. Source: LiteRT's ApplyLayerNorm, in
 * which products and sums wrap. */
TW_INLINE void tw_normalize_s16(int16_t *x, int32_t n, const void *const *in, const int32_t *scale) {
    const int16_t *factors = (const int16_t *)in[4];
    const int32_t *bias = (const int32_t *)in[2];
    int64_t sum = 0, squares = 0;
    for (int32_t i = 0; i < n; ++i) {
        sum += x[i];
        squares += x[i] * x[i];
    }
    const int32_t mean = (int32_t)(sum * 1024 / n);
    const int32_t variance = (int32_t)((squares * ((1 << 20) / n) - (int64_t)mean * mean) / (1 << 20));
    int32_t right;
    const int32_t mult = tw_inverse_root(variance < 1 ? scale[2] : variance, &right);
    for (int32_t i = 0; i < n; ++i) {
        const int32_t centred = tw_requantize(1024 * x[i] - mean, mult, -right);
        const int64_t value = tw_add(tw_times(centred, factors[i]), bias[i]);
        const int32_t rounded = (int32_t)((value > 0 ? value + 512 : value - 512) / 1024);
        x[i] = (int16_t)tw_clamp16(tw_requantize(rounded, scale[0], scale[1]));
    }
}

/* One step of one sequence; gates [4, units]. */
typedef struct {
    const tw_lstm_gemmlowp_s8_params *p;
    const void *const *in;
    const int8_t *x;
    int8_t *hidden, *shown;
    int16_t *cell, *gates;
} tw_lstm_fixed_step;

/* What gate g sums for unit u. */
TW_INLINE int32_t tw_lstm_fixed_sum(const tw_lstm_fixed_step *s, int32_t g, int32_t u) {
    const tw_lstm_gemmlowp_s8_params *p = s->p;
    const void *const *in = s->in + 1 + TW_FIXED_GATE_INPUTS * g;
    const int32_t size = p->cell.size, outputs = p->cell.outputs, start = p->norm ? 0 : ((const int32_t *)in[2])[u];
    int32_t sum = tw_row_sum(start, (const int8_t *)in[0] + (ptrdiff_t)u * size, s->x, size, p->x_zero);
    sum = tw_clamp16(tw_requantize(sum, p->x_mult[g], p->x_shift[g]));
    const int32_t more =
        tw_row_sum(0, (const int8_t *)in[1] + (ptrdiff_t)u * outputs, s->hidden, outputs, p->hidden_zero);
    sum = tw_clamp16(tw_add(sum, tw_requantize(more, p->hidden_mult[g], p->hidden_shift[g])));
    if (!p->peephole || g == 2) return sum;
    const int32_t seen =
        tw_requantize(((const int16_t *)in[3])[u] * s->cell[u], p->peephole_mult[g], p->peephole_shift[g]);
    return tw_clamp16(tw_add(sum, seen));
}

TW_INLINE void tw_lstm_fixed_gate(const tw_lstm_fixed_step *s, int32_t g) {
    const tw_lstm_gemmlowp_s8_params *p = s->p;
    const int32_t n = p->cell.units, scale[3] = {p->norm_mult[g], p->norm_shift[g], p->guard[g]};
    int16_t *gate = s->gates + g * n;
    for (int32_t u = 0; u < n; ++u) gate[u] = (int16_t)tw_lstm_fixed_sum(s, g, u);
    if (p->norm) tw_normalize_s16(gate, n, s->in + 1 + TW_FIXED_GATE_INPUTS * g, scale);
    for (int32_t u = 0; u < n; ++u) gate[u] = (int16_t)(g == 2 ? tw_tanh16_of(gate[u], 3) : tw_logistic16(gate[u], 3));
}

/* The new hidden state of what the output gate shows. */
TW_INLINE void tw_lstm_fixed_project(const tw_lstm_fixed_step *s) {
    const tw_lstm_gemmlowp_s8_params *p = s->p;
    const void *const *in = s->in + 1 + TW_FIXED_GATE_INPUTS * TW_MAX_GATES;
    const int32_t n = p->cell.units;
    const int8_t *w = (const int8_t *)in[0];
    for (int32_t o = 0; o < p->cell.outputs; ++o, w += n) {
        const int32_t sum = tw_row_sum(in[1] ? ((const int32_t *)in[1])[o] : 0, w, s->shown, n, p->shown_zero);
        const int32_t scaled = tw_add(tw_requantize(sum, p->project_mult, p->project_shift), p->hidden_zero);
        const int32_t q = tw_clamp(scaled, INT8_MIN, INT8_MAX);
        s->hidden[o] = (int8_t)(p->proj_clip > 0 ? tw_clamp(q, -p->proj_clip, p->proj_clip) : q);
    }
}

TW_INLINE void tw_lstm_fixed_advance(const tw_lstm_fixed_step *s) {
    const tw_lstm_gemmlowp_s8_params *p = s->p;
    const int32_t n = p->cell.units;
    const int16_t *forget = s->gates;
    int8_t *shown = p->project ? s->shown : s->hidden;
    for (int32_t g = 0; g < TW_MAX_GATES - 1; ++g)
        if (g != 1 || !p->coupled) tw_lstm_fixed_gate(s, g);
    for (int32_t u = 0; u < n; ++u) {
        const int32_t take = p->coupled ? INT16_MAX - forget[u] : forget[n + u];
        const int32_t kept = tw_round_shift(forget[u] * s->cell[u], 15);
        const int32_t value = tw_clamp16(kept + tw_round_shift(take * forget[2 * n + u], 15 + p->bits));
        s->cell[u] = (int16_t)(p->clip > 0 ? tw_clamp(value, -p->clip, p->clip) : value);
    }
    tw_lstm_fixed_gate(s, TW_MAX_GATES - 1);
    for (int32_t u = 0; u < n; ++u) {
        const int32_t product = s->gates[3 * n + u] * tw_tanh16_of(s->cell[u], p->bits);
        const int32_t scaled = tw_requantize(product, p->shown_mult, p->shown_shift);
        shown[u] = (int8_t)tw_clamp(tw_add(scaled, p->shown_zero), INT8_MIN, INT8_MAX);
    }
    if (p->project) tw_lstm_fixed_project(s);
}

TW_KERNEL(tw_lstm_gemmlowp_s8) {
    const tw_lstm_gemmlowp_s8_params p = *params;
    const tw_cell *c = &p.cell;
    int16_t *gates = (int16_t *)scratch;
    for (int32_t b = 0; b < c->batches; ++b) {
        int8_t *hidden = (int8_t *)out[1] + (ptrdiff_t)b * c->outputs;
        int16_t *cell = (int16_t *)out[2] + (ptrdiff_t)b * c->units;
        for (int32_t t = 0; t < c->steps; ++t) {
            const int8_t *x = (const int8_t *)in[0] + tw_sequence_at(&c->x, b, t);
            const tw_lstm_fixed_step s = {&p, in, x, hidden, (int8_t *)(gates + TW_MAX_GATES * c->units), cell, gates};
            tw_lstm_fixed_advance(&s);
            memcpy((int8_t *)out[0] + tw_sequence_at(&c->y, b, t), hidden, (size_t)c->outputs);
        }
    }
}

#endif
