"""UNIDIRECTIONAL_SEQUENCE_LSTM of int8 and float32 for computers: kernels_c/recurrent/lstm_wide.h, lstm_wide_f32.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import bias, table, weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.core.packing import LANES, LANES_F32, LANES_S8, pack_f32, pack_s8, padded
from twinfer.runtime.ops.functions import _sigmoid
from twinfer.runtime.ops.recurrent._lstm_float import params
from twinfer.runtime.ops.recurrent._lstm_s8 import call_of
from twinfer.runtime.ops.recurrent._lstm_short import constant_gates
from twinfer.runtime.ops.recurrent.lstm import lstm_of
from twinfer.runtime.params import Param
from twinfer.runtime.program import Argument, Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept, present

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


def lower_f32(node: Node, target: Target) -> Call:
    """The call for constant weights and four gates alone."""
    lstm = lstm_of(node)
    more = lstm.coupled or lstm.peephole or lstm.norm or lstm.projected or lstm.other is not None
    accept(lstm.kind == "float", "its weights are no floats")
    accept(not more, "it has more or fewer parts than four gates")
    parts = (("weights", 2), ("recurrent", 2), ("bias", 1))
    over_x, over_hidden, first = (
        np.concatenate([padded(_constant(node, getattr(gate, name), rank)) for gate in lstm.gates])
        for name, rank in parts
    )
    packed = [weights(pack_f32(w), LANES_F32) for w in (over_x, over_hidden)]
    values: dict[str, Param] = {"lstm": params(lstm, lstm.layout.place(lstm.outputs))}
    outputs = (node.output, node.input(lstm.hidden), node.input(lstm.cell))
    inputs: tuple[Argument, ...] = (lstm.x, *packed, bias(first))
    return Call("tw_lstm_wide_f32", values, inputs, outputs, scratch=4 * len(first), macs=lstm.macs)


def _constant(node: Node, position: int, rank: int) -> Array:
    value = present(node.input(position).data, "weights or a bias are computed at run time")
    accept(value.ndim == rank, "its recurrent weights are a diagonal")
    return value


SERVED, SIMD = ("UNIDIRECTIONAL_SEQUENCE_LSTM",), frozenset({"simd"})

VARIANTS = (Variant("wide", SERVED, SIMD, lower, ("INT8",)), Variant("wide", SERVED, SIMD, lower_f32, ("FLOAT32",)))
