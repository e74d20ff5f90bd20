"""Operators with a state."""

from __future__ import annotations

from twinfer.converter.facts import INT8, Row, State
from twinfer.converter.operators._versions import ASYMMETRIC, hybrid, option
from twinfer.converter.quantize.states import lstm, lstm_is_float, svdf, svdf_is_float
from twinfer.runtime.ops.recurrent.lstm import CELL, cells

ROWS = {
    "SVDF": Row(
        hybrid=(1, 2),
        types=INT8,
        # Integer kernels have no activation; for RELU the least value stands for 0.
        state=State(svdf_is_float, svdf, streams=True, own_scale=True),
        versions={"INT8": 3},
        needs=((2, hybrid()), (4, hybrid(setting=ASYMMETRIC))),
    ),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Row(
        hybrid=tuple(range(1, 9)),
        types=INT8,
        state=State(lstm_is_float, lstm, history=(CELL, cells)),
        versions={"INT16": 5},
        needs=((2, hybrid(weights=2)), (4, option("diagonal_recurrent_tensors"))),
    ),
}
