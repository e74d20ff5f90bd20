"""UNIDIRECTIONAL_SEQUENCE_LSTM of int8 on Helium: kernels_c/recurrent/lstm_mve.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import per_channel, weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.packing import ENDS
from twinfer.runtime.ops.isa.mve import FOUR
from twinfer.runtime.ops.recurrent._lstm_s8 import call_of
from twinfer.runtime.ops.recurrent._lstm_short import gates_of
from twinfer.runtime.program import Argument, Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target) -> Call:
    lstm, gates = gates_of(node)
    units = lstm.units
    first = np.minimum(np.arange(0, units, FOUR), max(units - FOUR, 0))
    each = np.minimum(first[:, None] + np.arange(FOUR), units - 1)
    inputs: list[Argument] = []
    for gate in gates:
        ends = np.concatenate([gate.bias[each], gate.start[each]], 1).astype(np.int32)
        inputs += [weights(gate.weights), weights(gate.recurrent), per_channel(ends, ENDS)]
    return call_of(lstm, "tw_lstm_mve_s8", inputs, 8 * units)


VARIANT = Variant("mve", ("UNIDIRECTIONAL_SEQUENCE_LSTM",), frozenset({"mve"}), lower, ("INT8",))
