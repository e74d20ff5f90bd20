"""Operators with a state."""

from __future__ import annotations

from twinfer.converter.facts import INT8, Row, State
from twinfer.converter.operators._versions import ASYMMETRIC, hybrid, option
from twinfer.converter.quantize.states import lstm, lstm_is_float, svdf, svdf_is_float
from twinfer.runtime.ops.recurrent.lstm import CELL, cells

#: Of an LSTM: weights, recurrent weights, peephole weights, and those of a projection.
_LSTM_WEIGHTS = (*range(1, 12), 16)
_BIDIRECTIONAL_WEIGHTS = (*range(1, 12), 16, *range(18, 29), 33, *range(40, 48))

ROWS = {
    "BIDIRECTIONAL_SEQUENCE_LSTM": Row(
        values=(0, 39),
        hybrid=_BIDIRECTIONAL_WEIGHTS,
        needs=((2, hybrid(weights=2)), (3, hybrid(weights=2, setting=ASYMMETRIC))),
    ),
    "BIDIRECTIONAL_SEQUENCE_RNN": Row(
        values=(0, 9), hybrid=(1, 2, 5, 6, 10, 11), needs=((2, hybrid()), (3, hybrid(setting=ASYMMETRIC)))
    ),
    "LSTM": Row(
        hybrid=_LSTM_WEIGHTS,
        needs=(
            (2, lambda node: node.options.get("kernel_type") == "BASIC"),
            (3, hybrid(weights=2)),
            (4, hybrid(weights=2, setting=ASYMMETRIC)),
        ),
    ),
    "RNN": Row(hybrid=(1, 2), needs=((2, hybrid()), (3, hybrid(setting=ASYMMETRIC)))),
    "SVDF": Row(
        hybrid=(1, 2),
        types=INT8,
        # Integer kernels have no activation; for RELU the least value stands for 0.
        state=State(svdf_is_float, svdf, streams=True, own_scale=True),
        versions={"INT8": 3},
        needs=((2, hybrid()), (4, hybrid(setting=ASYMMETRIC))),
    ),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Row(
        hybrid=_LSTM_WEIGHTS,
        types=INT8,
        state=State(lstm_is_float, lstm, history=(CELL, cells)),
        versions={"INT16": 5},
        needs=((2, hybrid(weights=2)), (4, option("diagonal_recurrent_tensors"))),
    ),
    "UNIDIRECTIONAL_SEQUENCE_RNN": Row(hybrid=(1, 2), needs=((2, hybrid()), (3, hybrid(setting=ASYMMETRIC)))),
}
