"""UNIDIRECTIONAL_SEQUENCE_LSTM on Helium: kernels_c/recurrent/lstm_mve*.h."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.runtime.constant import per_channel, weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.core.packing import ENDS, FOURS, padded
from twinfer.runtime.ops.isa.mve import BLOCK_S16, FOUR, fours
from twinfer.runtime.ops.isa.short import need_words, top
from twinfer.runtime.ops.recurrent._lstm_s8 import call_of
from twinfer.runtime.ops.recurrent._lstm_short import gates_of
from twinfer.runtime.program import Argument, Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower_s8(node: Node, target: Target) -> Call:
    lstm, gates = gates_of(node)
    units = lstm.units
    first = np.minimum(np.arange(0, units, FOUR), max(units - FOUR, 0))
    each = np.minimum(first[:, None] + np.arange(FOUR), units - 1)
    inputs: list[Argument] = []
    for gate in gates:
        ends = np.concatenate([gate.bias[each], gate.start[each]], 1).astype(np.int32)
        inputs += [weights(gate.weights), weights(gate.recurrent), per_channel(ends, ENDS)]
    return call_of(lstm, "tw_lstm_mve_s8", inputs, 8 * units)


def lower_s16(node: Node, target: Target) -> Call:
    lstm, gates = gates_of(node)
    inputs: list[Argument] = []
    for gate in gates:
        for w, starts in ((gate.weights, gate.bias), (gate.recurrent, gate.start)):
            need_words(w, starts)
            inputs.append(weights(_packed(w, starts), FOURS))
    call = call_of(lstm, "tw_lstm_mve_s16", inputs, 8 * lstm.units)
    params: Any = dict(call.params)
    for mult, shift in (("mult", "shift"), ("hidden_mult", "hidden_shift")):
        params[mult] = [top(*pair) for pair in zip(params[mult], params[shift], strict=True)]
    return replace(call, params=params)


def _packed(w: Array, starts: Array) -> Array:
    """Per four units what their sums begin with and their weights, int32 [units / 4, words]."""
    heads = padded(starts, FOUR).reshape(-1, FOUR)
    return np.concatenate([heads, fours(w, BLOCK_S16)], 1).astype(np.int32)


VARIANTS = (
    Variant("mve", ("UNIDIRECTIONAL_SEQUENCE_LSTM",), frozenset({"mve"}), lower_s8, ("INT8",)),
    Variant("mve", ("UNIDIRECTIONAL_SEQUENCE_LSTM",), frozenset({"mve"}), lower_s16, ("INT16",)),
)
