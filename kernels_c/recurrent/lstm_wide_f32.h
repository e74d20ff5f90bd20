/* SPDX-License-Identifier: Apache-2.0 */
/* UNIDIRECTIONAL_SEQUENCE_LSTM of float32 for computers: the sums of all gates run over vectors of units, each in the order
 * of lstm.h. */
#ifndef TW_LSTM_WIDE_F32_H
#define TW_LSTM_WIDE_F32_H

#include "../isa/wide/wide_f32.h"
#include "lstm.h"

/* Four gates and nothing else: coupled, peephole, norm and project are 0, there is no other input. in: x, then of all gates
 * in the order of lstm.h, with padded units, up to a multiple of 16: weights over the input, packed
 * [4 * padded / 16][size][16], weights over the hidden state, packed [4 * padded / 16][units][16], bias [4, padded]. out: as
 * tw_lstm_f32. scratch: floats [4, padded]. */
typedef struct {
    tw_lstm lstm;
} tw_lstm_wide_f32_params;

/* Blocks of 16 units that are summed at once: enough to hide how long an addition takes. */
#define TW_LSTM_BLOCKS (TW_F32_LANES / 4)

/* sum += x [n] . blocks blocks (a constant) of weights, vector by vector. */
TW_INLINE void tw_lstm_products_f32(tw_f32v *sum, const float *x, int32_t n, const float *w, int blocks) {
    for (int32_t i = 0; i < n; ++i)
        for (int b = 0; b < blocks; ++b)
            for (int v = 0; v < TW_F32_VECTORS; ++v)
                sum[b * TW_F32_VECTORS + v] += x[i] * tw_f32v_load(w + TW_LANES * (b * n + i) + TW_F32_LANES * v);
}

/* What blocks blocks (a constant) of units sum, from unit u of all gates on. */
TW_INLINE void tw_lstm_sums_f32(float *gates, const void *const *in, const float *x, const float *hidden, int32_t u,
                                int blocks, const tw_cell *c) {
    const float *bias = (const float *)in[3] + u;
    tw_f32v sum[TW_LSTM_BLOCKS * TW_F32_VECTORS] = {{0}}, more[TW_LSTM_BLOCKS * TW_F32_VECTORS] = {{0}};
    tw_lstm_products_f32(sum, x, c->size, (const float *)in[1] + u * c->size, blocks);
    tw_lstm_products_f32(more, hidden, c->units, (const float *)in[2] + u * c->units, blocks);
    for (int v = 0; v < blocks * TW_F32_VECTORS; ++v) {
        const tw_f32v biased = sum[v] + tw_f32v_load(bias + TW_F32_LANES * v);
        tw_f32v_store(gates + u + TW_F32_LANES * v, biased + more[v], TW_F32_LANES);
    }
}

/* One step of one sequence; padded: units up to a multiple of 16. */
TW_INLINE void tw_lstm_wide_step_f32(float *gates, const void *const *in, const float *x, float *hidden, float *cell,
                                     int32_t padded, const tw_lstm *p) {
    const int32_t all = TW_MAX_GATES * padded;
    int32_t u = 0;
    for (; u + TW_LANES * TW_LSTM_BLOCKS <= all; u += TW_LANES * TW_LSTM_BLOCKS)
        tw_lstm_sums_f32(gates, in, x, hidden, u, TW_LSTM_BLOCKS, &p->cell);
    for (; u < all; u += TW_LANES) tw_lstm_sums_f32(gates, in, x, hidden, u, 1, &p->cell);
    for (int32_t g = 0; g < TW_MAX_GATES; ++g) tw_lstm_open(gates + g * padded, g, p);
    tw_lstm_cells(cell, gates, padded, p);
    tw_lstm_show(hidden, gates + 3 * padded, cell, p);
}

TW_KERNEL(tw_lstm_wide_f32) {
    const tw_lstm_wide_f32_params params_of = *params;
    const tw_lstm *p = &params_of.lstm;
    const tw_cell *c = &p->cell;
    const int32_t padded = (c->units + TW_LANES - 1) / TW_LANES * TW_LANES;
    for (int32_t b = 0; b < c->batches; ++b) {
        float *hidden = (float *)out[1] + (ptrdiff_t)b * c->units, *cell = (float *)out[2] + (ptrdiff_t)b * c->units;
        for (int32_t t = 0; t < c->steps; ++t) {
            const float *x = (const float *)in[0] + tw_sequence_at(&c->x, b, t);
            tw_lstm_wide_step_f32((float *)scratch, in, x, hidden, cell, padded, p);
            memcpy((float *)out[0] + tw_sequence_at(&c->y, b, t), hidden, (size_t)c->units * sizeof *hidden);
        }
    }
}

#endif
