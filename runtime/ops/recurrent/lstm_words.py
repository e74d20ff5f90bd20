"""UNIDIRECTIONAL_SEQUENCE_LSTM of int8 for cores without SMLAD: kernels_c/recurrent/lstm_words.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import per_channel, weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.packing import ENDS, FOURS
from twinfer.runtime.ops.recurrent._lstm_s8 import call_of
from twinfer.runtime.ops.recurrent._lstm_short import constant_gates
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    lstm, gates = constant_gates(node)
    over_x, over_h = (np.stack(w, 1) for w in zip(*((gate.weights, gate.recurrent) for gate in gates), strict=True))
    starts = np.stack([gate.bias for gate in gates] + [gate.start for gate in gates], 1).astype(np.int32)
    inputs = (weights(over_x, FOURS), weights(over_h, FOURS), per_channel(starts, ENDS))
    return call_of(lstm, "tw_lstm_words_s8", inputs, lstm.units)


VARIANT = Variant("words", ("UNIDIRECTIONAL_SEQUENCE_LSTM",), frozenset({"words"}), lower, ("INT8",))
