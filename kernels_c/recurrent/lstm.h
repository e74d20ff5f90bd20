/* SPDX-License-Identifier: Apache-2.0 */
/* LSTMs of float values: with float weights, or with int8 weights ("hybrid"). */
#ifndef TW_LSTM_H
#define TW_LSTM_H

#include "../functions/logistic.h"
#include "vector.h"

/* The inputs of a gate: weights [units, size], recurrent weights [units, outputs], bias [units], weights of the cell
 * [units] (peephole), factors [units] (norm), weights of the other input [units, extra]. */
#define TW_GATE_INPUTS 6
#define TW_GATE_OF_CELL 2

/* coupled: there is no input gate, but 1 - forget gate. peephole: gates but the cell's see the cell. norm: sums are
 * normalised. project: the output is a product with weights. clip, proj_clip: bounds of the magnitudes of cells and of
 * the projection; 0: none. */
typedef struct {
    tw_cell cell;
    tw_activation activation;
    int32_t coupled, peephole, norm, project;
    float clip, proj_clip;
} tw_lstm;

/* Scales of int8 weights. symmetric: how values are quantised. */
typedef struct {
    float x[TW_MAX_GATES], hidden[TW_MAX_GATES], peephole[TW_MAX_GATES], other[TW_MAX_GATES], project;
    int32_t symmetric;
} tw_lstm_scales;

/* Gates in the order forget, input, cell, output. in: x, other, the inputs of each gate, weights of the projection
 * [outputs, units] and its bias [outputs]; null where the model has none. out: y, hidden [batches, outputs], cell
 * [batches, units]; the last two are also read. scratch: floats [4, units]; then, with int8 weights, bytes for x, other,
 * hidden and a cell. */
typedef struct {
    tw_lstm lstm;
} tw_lstm_f32_params;

typedef struct {
    tw_lstm lstm;
    tw_lstm_scales scales;
} tw_lstm_hybrid_params;

/* One step of one sequence. scales: null with float weights. gates [4, units], cell [units], codes: see scratch. */
typedef struct {
    const tw_lstm *p;
    const tw_lstm_scales *scales;
    const void *const *in;
    tw_vector x, other, hidden;
    float *gates, *cell;
    int8_t *codes;
} tw_lstm_step;

/* x less its mean, over its standard deviation, times factors, plus bias. Source: LiteRT's MeanStddevNormalization. */
TW_INLINE void tw_normalize(float *x, int32_t n, const float *factors, const float *bias) {
    float sum = 0.0F, squares = 0.0F;
    for (int32_t i = 0; i < n; ++i) sum += x[i];
    const float mean = sum / (float)n;
    for (int32_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const float inverse = 1.0F / sqrtf(squares / (float)n + 1e-8F);
    for (int32_t i = 0; i < n; ++i) x[i] = (x[i] - mean) * inverse * factors[i] + bias[i];
}

/* What gate g sums for unit u, of its products with x, the other input and the hidden state. */
TW_INLINE float tw_lstm_total(const tw_lstm_step *s, int32_t g, int32_t u, float of_x, float of_other,
                              float of_hidden) {
    const void *const *in = s->in + 2 + TW_GATE_INPUTS * g;
    const tw_lstm_scales *by = s->scales;
    float sum = of_x;
    if (!s->p->norm) sum += ((const float *)in[2])[u];
    if (s->p->cell.extra) sum += of_other;
    sum += of_hidden;
    if (s->p->peephole && g != TW_GATE_OF_CELL) {
        const float w = by ? by->peephole[g] * (float)((const int8_t *)in[3])[u] : ((const float *)in[3])[u];
        sum += w * s->cell[u];
    }
    return sum;
}

TW_INLINE float tw_lstm_sum(const tw_lstm_step *s, int32_t g, int32_t u) {
    const void *const *in = s->in + 2 + TW_GATE_INPUTS * g;
    const tw_lstm_scales *by = s->scales;
    const float of_x = tw_vector_times(&s->x, in[0], u, by ? &by->x[g] : NULL);
    const float of_other = s->p->cell.extra ? tw_vector_times(&s->other, in[5], u, by ? &by->other[g] : NULL) : 0.0F;
    return tw_lstm_total(s, g, u, of_x, of_other, tw_vector_times(&s->hidden, in[1], u, by ? &by->hidden[g] : NULL));
}

/* What gate g sums for TW_VECTOR_ROWS units from u on, with float weights. */
TW_INLINE void tw_lstm_sums(float *gate, const tw_lstm_step *s, int32_t g, int32_t u) {
    const void *const *in = s->in + 2 + TW_GATE_INPUTS * g;
    float of_x[TW_VECTOR_ROWS], of_other[TW_VECTOR_ROWS] = {0}, of_hidden[TW_VECTOR_ROWS];
    tw_vector_times_rows(of_x, &s->x, in[0], u);
    if (s->p->cell.extra) tw_vector_times_rows(of_other, &s->other, in[5], u);
    tw_vector_times_rows(of_hidden, &s->hidden, in[1], u);
    for (int32_t i = 0; i < TW_VECTOR_ROWS; ++i)
        gate[u + i] = tw_lstm_total(s, g, u + i, of_x[i], of_other[i], of_hidden[i]);
}

/* The sums of gate g become what it lets through. */
TW_INLINE void tw_lstm_open(float *gate, int32_t g, const tw_lstm *p) {
    for (int32_t u = 0; u < p->cell.units; ++u)
        gate[u] = g == TW_GATE_OF_CELL ? tw_activate(gate[u], &p->activation) : tw_logistic(gate[u]);
}

TW_INLINE void tw_lstm_gate(const tw_lstm_step *s, int32_t g) {
    const int32_t n = s->p->cell.units;
    float *gate = s->gates + g * n;
    int32_t u = 0;
    if (!s->scales)
        for (; u + TW_VECTOR_ROWS <= n; u += TW_VECTOR_ROWS) tw_lstm_sums(gate, s, g, u);
    for (; u < n; ++u) gate[u] = tw_lstm_sum(s, g, u);
    if (s->p->norm) {
        const void *const *in = s->in + 2 + TW_GATE_INPUTS * g;
        tw_normalize(gate, n, (const float *)in[4], (const float *)in[2]);
    }
    tw_lstm_open(gate, g, s->p);
}

/* The new cells, from gates that lie so far apart. */
TW_INLINE void tw_lstm_cells(float *cell, const float *gates, int32_t apart, const tw_lstm *p) {
    for (int32_t u = 0; u < p->cell.units; ++u) {
        const float take = p->coupled ? 1.0F - gates[u] : gates[apart + u];
        const float value = gates[u] * cell[u] + take * gates[2 * apart + u];
        cell[u] = p->clip > 0.0F ? tw_clampf(value, -p->clip, p->clip) : value;
    }
}

/* What the output gate shows of the cells. */
TW_INLINE void tw_lstm_show(float *shown, const float *gate, const float *cell, const tw_lstm *p) {
    for (int32_t u = 0; u < p->cell.units; ++u) shown[u] = tw_activate(cell[u], &p->activation) * gate[u];
}

/* The new hidden state of what the output gate shows, shown [units]. */
TW_INLINE void tw_lstm_project(const tw_lstm_step *s, const float *shown, float *hidden) {
    const tw_lstm *p = s->p;
    const void *const *in = s->in + 2 + TW_GATE_INPUTS * TW_MAX_GATES;
    const tw_vector v = tw_vector_of(shown, p->cell.units, s->codes, s->scales ? s->scales->symmetric : 0);
    for (int32_t o = 0; o < p->cell.outputs; ++o) {
        const float start = in[1] ? ((const float *)in[1])[o] : 0.0F;
        const float sum = start + tw_vector_times(&v, in[0], o, s->scales ? &s->scales->project : NULL);
        hidden[o] = p->proj_clip > 0.0F ? tw_clampf(sum, -p->proj_clip, p->proj_clip) : sum;
    }
}

/* Gates, the new cell, the output gate, which sees it, and the new hidden state. */
TW_INLINE void tw_lstm_advance(const tw_lstm_step *s, float *hidden) {
    const tw_lstm *p = s->p;
    const int32_t n = p->cell.units;
    float *shown = p->project ? s->gates : hidden;
    for (int32_t g = 0; g < TW_MAX_GATES - 1; ++g)
        if (g != 1 || !p->coupled) tw_lstm_gate(s, g);
    tw_lstm_cells(s->cell, s->gates, n, p);
    tw_lstm_gate(s, TW_MAX_GATES - 1);
    tw_lstm_show(shown, s->gates + 3 * n, s->cell, p);
    if (p->project) tw_lstm_project(s, shown, hidden);
}

TW_INLINE void tw_lstm_run(const tw_lstm *p, const tw_lstm_scales *scales, const void *const *in, void *const *out,
                           void *scratch) {
    const tw_cell *c = &p->cell;
    float *gates = (float *)scratch;
    int8_t *codes = scales ? (int8_t *)(gates + TW_MAX_GATES * c->units) : NULL;
    int8_t *of_other = codes ? codes + c->size : NULL, *of_hidden = codes ? of_other + c->extra : NULL;
    const int32_t symmetric = scales ? scales->symmetric : 0;
    for (int32_t b = 0; b < c->batches; ++b) {
        float *hidden = (float *)out[1] + (ptrdiff_t)b * c->outputs, *cell = (float *)out[2] + (ptrdiff_t)b * c->units;
        for (int32_t t = 0; t < c->steps; ++t) {
            const float *x = (const float *)in[0] + tw_sequence_at(&c->x, b, t);
            tw_lstm_step s = {p,
                              scales,
                              in,
                              tw_vector_of(x, c->size, codes, symmetric),
                              {NULL, NULL, {1.0F, 0}, 0},
                              tw_vector_of(hidden, c->outputs, of_hidden, symmetric),
                              gates,
                              cell,
                              codes ? of_hidden + c->outputs : NULL};
            if (c->extra) {
                const float *other = (const float *)in[1] + tw_sequence_at(&c->other, b, t);
                s.other = tw_vector_of(other, c->extra, of_other, symmetric);
            }
            tw_lstm_advance(&s, hidden);
            memcpy((float *)out[0] + tw_sequence_at(&c->y, b, t), hidden, (size_t)c->outputs * sizeof *hidden);
        }
    }
}

TW_KERNEL(tw_lstm_f32) {
    const tw_lstm_f32_params p = *params;
    tw_lstm_run(&p.lstm, NULL, in, out, scratch);
}

TW_KERNEL(tw_lstm_hybrid) {
    const tw_lstm_hybrid_params p = *params;
    tw_lstm_run(&p.lstm, &p.scales, in, out, scratch);
}

#endif
