/* SPDX-License-Identifier: Apache-2.0 */
/* BIDIRECTIONAL_SEQUENCE_LSTM: one LSTM forwards, one backwards in time. */
#ifndef TW_BIDIRECTIONAL_LSTM_H
#define TW_BIDIRECTIONAL_LSTM_H

#include "lstm.h"

#define TW_LSTM_INPUTS (4 + TW_GATE_INPUTS * TW_MAX_GATES)

/* in, out: those of the first LSTM, then those of the second (lstm.h). scratch: for either, in turn. */
typedef struct {
    tw_lstm forward, backward;
} tw_bidirectional_lstm_f32_params;

typedef struct {
    tw_lstm forward, backward;
    tw_lstm_scales forward_scales, backward_scales;
} tw_bidirectional_lstm_hybrid_params;

TW_KERNEL(tw_bidirectional_lstm_f32) {
    const tw_bidirectional_lstm_f32_params p = *params;
    tw_lstm_run(&p.forward, NULL, in, out, scratch);
    tw_lstm_run(&p.backward, NULL, in + TW_LSTM_INPUTS, out + 3, scratch);
}

TW_KERNEL(tw_bidirectional_lstm_hybrid) {
    const tw_bidirectional_lstm_hybrid_params p = *params;
    tw_lstm_run(&p.forward, &p.forward_scales, in, out, scratch);
    tw_lstm_run(&p.backward, &p.backward_scales, in + TW_LSTM_INPUTS, out + 3, scratch);
}

#endif
