"""UNIDIRECTIONAL_SEQUENCE_LSTM of int8 for computers: kernels_c/recurrent/lstm_wide.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import bias, table, weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.core.packing import LANES, LANES_S8, pack_s8, padded
from twinfer.runtime.ops.functions import _sigmoid
from twinfer.runtime.ops.recurrent._lstm_s8 import call_of
from twinfer.runtime.ops.recurrent._lstm_short import constant_gates
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant

#: Rows of bytes in the scratch memory begin at multiples of it.
ROW = 64


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    lstm, gates = constant_gates(node)
    over = [[padded(gate.weights) for gate in gates], [padded(gate.recurrent) for gate in gates]]
    starts = [[gate.bias for gate in gates], [gate.start for gate in gates]]
    folded = np.stack([[_start(s, w) for s, w in zip(*both, strict=True)] for both in zip(starts, over, strict=True)])
    packed = [weights(pack_s8(np.concatenate(rows)), LANES_S8) for rows in over]
    rows = sum(-(-n // ROW) * ROW for n in (lstm.x.shape[-1], lstm.units))
    inputs = (*packed, bias(folded))
    return call_of(lstm, "tw_lstm_wide_s8", inputs, rows + 4 * folded.size, table(_pairs()))


def _start(start: Array, w: Array) -> Array:
    """What sums over x + 128 begin with, int32, for as many lanes as there are rows of weights."""
    return np.asarray(padded(start, LANES) - 128 * w.sum(axis=1, dtype=np.int32), np.int32)


def _pairs() -> Array:
    """The table of the logistic function, and in the upper halves how far each entry is from the next one."""
    entries = _sigmoid.table().astype(np.int32)
    return np.asarray(entries + (np.append(np.diff(entries), 0) << 16), np.int32)


VARIANT = Variant("wide", ("UNIDIRECTIONAL_SEQUENCE_LSTM",), frozenset({"simd"}), lower, ("INT8",))
