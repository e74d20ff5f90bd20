"""UNIDIRECTIONAL_SEQUENCE_LSTM of float32 for computers: kernels_c/recurrent/lstm_wide_f32.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import bias, weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.core.packing import LANES_F32, pack_f32, padded
from twinfer.runtime.ops.recurrent._lstm_float import params
from twinfer.runtime.ops.recurrent.lstm import lstm_of
from twinfer.runtime.params import Param
from twinfer.runtime.program import Argument, Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept, present


def lower(node: Node, target: Target) -> Call:
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


VARIANT = Variant("wide", ("UNIDIRECTIONAL_SEQUENCE_LSTM",), frozenset({"simd"}), lower, ("FLOAT32",))
