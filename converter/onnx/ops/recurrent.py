"""LSTM, GRU and RNN."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from twinfer.converter.emit.cells import (
    ACTIVATIONS,
    Activation,
    Cell,
    Step,
    gru_step,
    lstm_step,
    rnn_step,
    stack,
    unroll,
)
from twinfer.converter.emit.emitter import Emitter, constant
from twinfer.converter.onnx.node import OnnxNode
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import Tensor


@dataclass(frozen=True)
class Kind:
    """An operator: gates, default activations, which inputs are the initial states, and what a step does."""

    gates: int
    activations: tuple[str, ...]
    initial: tuple[int, ...]
    step: Step

    def __call__(self, g: Emitter, node: OnnxNode) -> list[Tensor]:
        """Outputs Y, Y_h and, for LSTM, Y_c."""
        x = g.transpose(node.input(0), (1, 0, 2)) if node.attribute("layout", 0) else node.input(0)
        lengths = node.optional(4)
        if lengths is not None and (lengths.data is None or bool((lengths.data != x.shape[0]).any())):
            raise UnsupportedOperatorError("sequence_lens; export the model for sequences of full length")
        known = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
        direction = node.attribute("direction", "forward")
        if direction not in known:
            raise ModelError(f"{node}: direction {direction!r} does not exist")
        runs, directions = list[list[list[Tensor]]](), known[direction]  # whether each runs backwards
        for d, backwards in enumerate(directions):
            cell = self._cell(g, node, d)
            states = [_initial(g, node, i, d, (x.shape[1], cell.hidden)) for i in self.initial]
            runs.append(unroll(cell, self.step, x, states, backwards))
        rows = [stack(g, [states[0] for states in run]) for run in runs]
        y = g.concat([g.reshape(row, (row.shape[0], 1, *row.shape[1:])) for row in rows], 1)
        ends = [0 if backwards else -1 for backwards in directions]
        last = [stack(g, [run[end][k] for run, end in zip(runs, ends, strict=True)]) for k in range(len(self.initial))]
        if node.attribute("layout", 0):
            return [g.transpose(y, (2, 0, 1, 3)), *(g.transpose(state, (1, 0, 2)) for state in last)]
        return [y, *last]

    def _cell(self, g: Emitter, node: OnnxNode, d: int) -> Cell:
        """The cell of direction ``d``."""
        w, r, b = (node.constant(i) for i in (1, 2, 3))
        if w is None or r is None:
            raise ModelError(f"{node}: weights are missing")
        hidden, rows = r.shape[2], self.gates * r.shape[2]
        both = np.zeros(2 * rows, np.float32) if b is None else b[d]
        bias_w, bias_r = both[:rows].copy(), both[rows:]
        linear = node.op == "GRU" and bool(node.attribute("linear_before_reset", 0))
        kept = 2 * hidden if linear else rows
        bias_w[:kept] += bias_r[:kept]  # the rest is added before the reset gate acts
        peepholes = node.constant(7) if node.op == "LSTM" else None
        return Cell(
            g,
            np.ascontiguousarray(w[d]),
            bias_w,
            r[d],
            self._activations(node, d),
            bias_r=bias_r[kept:] if linear else None,
            peepholes=None if peepholes is None else peepholes[d],
            clip=float(node.attribute("clip", math.inf)),
            coupled=bool(node.attribute("input_forget", 0)),
        )

    def _activations(self, node: OnnxNode, d: int) -> list[Activation]:
        count = len(self.activations)
        names = [name.lower() for name in node.attribute("activations", self.activations * 2)]
        chosen = names[d * count : (d + 1) * count]
        unknown = [name for name in chosen if name not in ACTIVATIONS]
        node.need(not unknown, f"activations {', '.join(unknown)}; there are: {', '.join(ACTIVATIONS)}")
        given = "activation_alpha" in node.attributes or "activation_beta" in node.attributes
        node.need(not given, "activation_alpha and activation_beta; use the defaults")
        return [ACTIVATIONS[name] for name in chosen]


def _initial(g: Emitter, node: OnnxNode, i: int, d: int, shape: tuple[int, int]) -> Tensor:
    """State of direction ``d`` before the first step, [batch, hidden]."""
    given = node.optional(i)
    if given is None:
        return constant(np.zeros(shape, np.float32))
    if node.attribute("layout", 0):
        given = g.transpose(given, (1, 0, 2))
    if given.data is not None:
        return constant(given.data[d])
    return g.reshape(g.part(given, (d, 0, 0), (1, *shape)), shape)


IMPORTERS = {
    "GRU": Kind(3, ("sigmoid", "tanh"), (5,), gru_step),
    "LSTM": Kind(4, ("sigmoid", "tanh", "tanh"), (5, 6), lstm_step),
    "RNN": Kind(1, ("tanh",), (5,), rnn_step),
}
