"""LSTMs of int8 and int16 with constant weights, as kernels of packed weights read them."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.core.channels import fold_zero
from twinfer.runtime.ops.core.requantize import EITHER
from twinfer.runtime.ops.recurrent._lstm import Lstm
from twinfer.runtime.ops.recurrent._lstm_s8 import GATES, HIDDEN, is_plain, params_of
from twinfer.runtime.ops.recurrent.lstm import lstm_of
from twinfer.runtime.variant import accept, present


class Gate(NamedTuple):
    """Weights int8 [units, size] over the input, [units, units] over the hidden state, and what the sums over each
    begin with, int32 [units], zero points folded in; of int16 LSTMs int64 [units], and zeros."""

    weights: Array
    recurrent: Array
    bias: Array
    start: Array


def gates_of(node: Node) -> tuple[Lstm, list[Gate]]:
    """As ``constant_gates``; Declined where a product needs a shift that the short requantisation has not."""
    lstm, gates = constant_gates(node)
    params = params_of(lstm)
    for name in ("keep", "add", "give"):
        shift = cast(int, params[f"{name}_shift"])
        accept(EITHER <= shift < 0, f"a product's shift is {shift}, not in {EITHER}..-1")
    return lstm, gates


def constant_gates(node: Node) -> tuple[Lstm, list[Gate]]:
    """The LSTM and its gates in the kernels' order; Declined unless all of it is constant, with four gates alone."""
    lstm = lstm_of(node)
    accept(is_plain(lstm), "it has more than four gates")
    return lstm, [_gate(node, *gate) for gate in GATES]


def _gate(node: Node, w: int, r: int, b: int) -> Gate:
    why = "weights or a bias are computed at run time"
    weights, recurrent, bias = (present(node.input(i).data, why) for i in (w, r, b))
    if node.input(0).type == "INT16":
        return Gate(weights, recurrent, bias, np.zeros_like(bias))
    bias = fold_zero(weights, bias, node.input(0).zero)
    return Gate(weights, recurrent, bias, fold_zero(recurrent, np.zeros_like(bias), node.input(HIDDEN).zero))
