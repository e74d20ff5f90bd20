/* SPDX-License-Identifier: Apache-2.0 */
/* LSTM, the basic kernel: one step; gates are one layer over the joined input and hidden state. */
#ifndef TW_LSTM_BASIC_H
#define TW_LSTM_BASIC_H

#include "../core/gemmlowp16.h"
#include "../functions/logistic.h"

/* Gates in the order input, modulation, forget, output. in: x [batches, size], weights [4, units, size + units], bias [4,
 * units]. out: hidden [batches, units], cell [batches, units], joined [batches, size + units], sums [batches, 4, units];
 * then hidden and cell as they are kept from run to run, which are also read. */
typedef struct {
    int32_t batches, size, units;
} tw_lstm_basic_f32_params;

/* uint8, and int16 for the cell with 11 fractional bits; zero points of x and hidden are 128. mult and shift scale sums
 * to 12 fractional bits. */
typedef struct {
    int32_t batches, size, units, weights_zero, mult, shift;
} tw_lstm_basic_u8_params;

TW_INLINE void tw_lstm_basic_cell_f32(const float *gates, int32_t n, float *hidden, float *cell) {
    for (int32_t u = 0; u < n; ++u) {
        const float added = tw_logistic(gates[u]) * tanhf(gates[n + u]);
        cell[u] = added + tw_logistic(gates[2 * n + u]) * cell[u];
        hidden[u] = tw_logistic(gates[3 * n + u]) * tanhf(cell[u]);
    }
}

TW_KERNEL(tw_lstm_basic_f32) {
    const tw_lstm_basic_f32_params p = *params;
    const int32_t n = p.units, depth = p.size + n;
    float *joined = (float *)out[2], *sums = (float *)out[3], *hidden = (float *)out[4], *cell = (float *)out[5];
    const float *x = (const float *)in[0];
    for (int32_t b = 0; b < p.batches; ++b, x += p.size, joined += depth, sums += 4 * n, hidden += n, cell += n) {
        const float *w = (const float *)in[1];
        memcpy(joined, x, (size_t)p.size * sizeof *x);
        memcpy(joined + p.size, hidden, (size_t)n * sizeof *hidden);
        for (int32_t u = 0; u < 4 * n; ++u, w += depth) {
            float sum = 0.0F;
            for (int32_t i = 0; i < depth; ++i) sum += joined[i] * w[i];
            sums[u] = tw_clampf(sum + ((const float *)in[2])[u], -FLT_MAX, FLT_MAX);
        }
        tw_lstm_basic_cell_f32(sums, n, hidden, cell);
    }
    memcpy(out[0], out[4], (size_t)p.batches * (size_t)n * sizeof *hidden);
    memcpy(out[1], out[5], (size_t)p.batches * (size_t)n * sizeof *cell);
}

/* Source: LiteRT's LstmCell with 4 integer bits of the cell. */
TW_INLINE void tw_lstm_basic_cell_u8(const int16_t *gates, int32_t n, uint8_t *hidden, int16_t *cell) {
    for (int32_t u = 0; u < n; ++u) {
        const int32_t added = tw_mul_high16(tw_logistic16(gates[u], 3), tw_tanh16_of(gates[n + u], 3));
        const int32_t kept = tw_mul_high16(tw_logistic16(gates[2 * n + u], 3), cell[u]);
        cell[u] = (int16_t)tw_clamp(tw_round_shift(added, 4) + kept, INT16_MIN, INT16_MAX);
        const int32_t seen = tw_tanh16_of(tw_raised16(cell[u], 1), 3);
        const int32_t shown = tw_round_shift(tw_mul_high16(tw_logistic16(gates[3 * n + u], 3), seen), 8);
        hidden[u] = (uint8_t)(128 + tw_clamp(shown, -128, 127));
    }
}

/* x * mult * 2^(shift - 31) rounded twice, both times half up, as ruy does. */
TW_INLINE int32_t tw_requantize_up(int32_t x, int32_t mult, int32_t shift) {
    const int32_t right = shift > 0 ? 0 : -shift;
    const int64_t scaled = tw_mul_high(tw_shift_left(x, shift > 0 ? shift : 0), mult);
    return (int32_t)((scaled + (((int64_t)1 << right) >> 1)) >> right);
}

TW_KERNEL(tw_lstm_basic_u8) {
    const tw_lstm_basic_u8_params p = *params;
    const int32_t n = p.units, depth = p.size + n;
    uint8_t *joined = (uint8_t *)out[2], *hidden = (uint8_t *)out[4];
    int16_t *sums = (int16_t *)out[3], *cell = (int16_t *)out[5];
    const uint8_t *x = (const uint8_t *)in[0];
    for (int32_t b = 0; b < p.batches; ++b, x += p.size, joined += depth, sums += 4 * n, hidden += n, cell += n) {
        const uint8_t *w = (const uint8_t *)in[1];
        memcpy(joined, x, (size_t)p.size);
        memcpy(joined + p.size, hidden, (size_t)n);
        for (int32_t u = 0; u < 4 * n; ++u, w += depth) {
            int32_t sum = ((const int32_t *)in[2])[u];
            for (int32_t i = 0; i < depth; ++i) sum = tw_add(sum, (joined[i] - 128) * (w[i] - p.weights_zero));
            sums[u] = (int16_t)tw_clamp(tw_requantize_up(sum, p.mult, p.shift), INT16_MIN, INT16_MAX);
        }
        tw_lstm_basic_cell_u8(sums, n, hidden, cell);
    }
    memcpy(out[0], out[4], (size_t)p.batches * (size_t)n);
    memcpy(out[1], out[5], (size_t)p.batches * (size_t)n * sizeof *cell);
}

#endif
