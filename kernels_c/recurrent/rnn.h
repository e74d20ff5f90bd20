/* SPDX-License-Identifier: Apache-2.0 */
/* RNN, UNIDIRECTIONAL_SEQUENCE_RNN, BIDIRECTIONAL_SEQUENCE_RNN: y = activation(W x + V other + R hidden + bias). */
#ifndef TW_RNN_H
#define TW_RNN_H

#include "vector.h"

typedef struct {
    tw_cell cell;
    tw_activation activation;
} tw_rnn;

/* Scales of int8 weights. symmetric: how values are quantised. */
typedef struct {
    float x, hidden, other;
    int32_t symmetric;
} tw_rnn_scales;

#define TW_RNN_INPUTS 6

/* in: x, other, weights [units, size], recurrent weights [units, units], bias [units], weights of other [units, extra];
 * null where the model has none. out: y, hidden [batches, units], which is also read. scratch: with int8 weights, bytes
 * for x, other and hidden. */
typedef struct {
    tw_rnn rnn;
} tw_rnn_f32_params;

typedef struct {
    tw_rnn rnn;
    tw_rnn_scales scales;
} tw_rnn_hybrid_params;

/* in, out: those of the cell that runs forwards, then of the one that runs backwards. */
typedef struct {
    tw_rnn forward, backward;
} tw_bidirectional_rnn_f32_params;

typedef struct {
    tw_rnn forward, backward;
    tw_rnn_scales forward_scales, backward_scales;
} tw_bidirectional_rnn_hybrid_params;

/* One step of one sequence. other: null if there is none. codes: null with float weights. */
TW_INLINE void tw_rnn_step(const tw_rnn *p, const tw_rnn_scales *by, const void *const *in, const float *const *from,
                           float *y, int8_t *codes) {
    const tw_cell *c = &p->cell;
    const int32_t symmetric = by ? by->symmetric : 0;
    const tw_vector x = tw_vector_of(from[0], c->size, codes, symmetric);
    const tw_vector hidden = tw_vector_of(from[2], c->units, codes ? codes + c->size : NULL, symmetric);
    tw_vector other = {NULL, NULL, {1.0F, 0}, 0};
    if (c->extra) other = tw_vector_of(from[1], c->extra, codes ? codes + c->size + c->units : NULL, symmetric);
    for (int32_t u = 0; u < c->units; ++u) {
        float sum = ((const float *)in[4])[u] + tw_vector_times(&x, in[2], u, by ? &by->x : NULL);
        if (c->extra) sum += tw_vector_times(&other, in[5], u, by ? &by->other : NULL);
        sum += tw_vector_times(&hidden, in[3], u, by ? &by->hidden : NULL);
        y[u] = tw_activate(sum, &p->activation);
    }
}

TW_INLINE void tw_rnn_run(const tw_rnn *p, const tw_rnn_scales *by, const void *const *in, void *const *out,
                          void *scratch) {
    const tw_cell *c = &p->cell;
    for (int32_t b = 0; b < c->batches; ++b) {
        float *hidden = (float *)out[1] + (ptrdiff_t)b * c->units;
        for (int32_t t = 0; t < c->steps; ++t) {
            const float *x = (const float *)in[0] + tw_sequence_at(&c->x, b, t);
            const float *other = c->extra ? (const float *)in[1] + tw_sequence_at(&c->other, b, t) : NULL;
            const float *const from[3] = {x, other, hidden};
            float *y = (float *)out[0] + tw_sequence_at(&c->y, b, t);
            tw_rnn_step(p, by, in, from, y, by ? (int8_t *)scratch : NULL);
            memcpy(hidden, y, (size_t)c->units * sizeof *hidden);
        }
    }
}

TW_KERNEL(tw_rnn_f32) {
    const tw_rnn_f32_params p = *params;
    tw_rnn_run(&p.rnn, NULL, in, out, scratch);
}

TW_KERNEL(tw_rnn_hybrid) {
    const tw_rnn_hybrid_params p = *params;
    tw_rnn_run(&p.rnn, &p.scales, in, out, scratch);
}

TW_KERNEL(tw_bidirectional_rnn_f32) {
    const tw_bidirectional_rnn_f32_params p = *params;
    tw_rnn_run(&p.forward, NULL, in, out, scratch);
    tw_rnn_run(&p.backward, NULL, in + TW_RNN_INPUTS, out + 2, scratch);
}

TW_KERNEL(tw_bidirectional_rnn_hybrid) {
    const tw_bidirectional_rnn_hybrid_params p = *params;
    tw_rnn_run(&p.forward, &p.forward_scales, in, out, scratch);
    tw_rnn_run(&p.backward, &p.backward_scales, in + TW_RNN_INPUTS, out + 2, scratch);
}

#endif
