"""LSTM, GRU and RNN, unrolled over time: the inputs' products in one FULLY_CONNECTED, then a cell for every step.

ONNX starts every run from its initial states, where TFLite's sequence operators keep theirs between runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from twinfer.converter.onnx.emitter import Emitter, constant
from twinfer.converter.onnx.node import OnnxNode
from twinfer.converter.onnx.ops.activation import hard_sigmoid_of
from twinfer.converter.onnx.ops.dense import fully_connected
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import Tensor

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]

ACTIVATIONS: dict[str, Callable[[Emitter, Tensor], Tensor]] = {
    "sigmoid": lambda g, x: g.unary("LOGISTIC", x),
    "tanh": lambda g, x: g.unary("TANH", x),
    "relu": lambda g, x: g.unary("RELU", x),
    "hardsigmoid": lambda g, x: hard_sigmoid_of(g, x, 0.2, 0.5),
}


@dataclass(frozen=True)
class Cell:
    """One direction: r [gates * hidden, hidden], b of it [gates * hidden], peepholes [3 * hidden] or none."""

    g: Emitter
    node: OnnxNode
    hidden: int
    r: Floats
    bias: Floats
    peepholes: Floats | None
    activations: Sequence[str]

    def gate(self, x: Tensor, i: int) -> Tensor:
        """Gate ``i`` of [batch, gates * hidden]."""
        return self.g.part(x, (0, i * self.hidden), (x.shape[0], self.hidden))

    def product(self, h: Tensor, first: int, last: int, bias: Tensor | None = None) -> Tensor:
        """What gates ``first`` up to ``last`` see of the state."""
        rows = np.ascontiguousarray(self.r[first * self.hidden : last * self.hidden])
        return fully_connected(self.g, h, constant(rows), bias)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return self.g.binary("ADD", x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        return self.g.binary("MUL", x, y)

    def rest(self, share: Tensor) -> Tensor:
        return self.g.binary("SUB", np.array(1, np.float32), share)

    def run(self, i: int, x: Tensor) -> Tensor:
        """Activation ``i`` of x, which the attribute ``clip`` cuts first."""
        limit = self.node.attribute("clip", None)
        if limit is not None:
            x = self.g.binary("MAXIMUM", x, np.array(-limit, np.float32))
            x = self.g.binary("MINIMUM", x, np.array(limit, np.float32))
        return ACTIVATIONS[self.activations[i]](self.g, x)

    def peep(self, i: int, x: Tensor, state: Tensor) -> Tensor:
        """The gate with what peephole ``i`` sees of the state."""
        if self.peepholes is None:
            return x
        weights = self.peepholes[i * self.hidden : (i + 1) * self.hidden]
        return self.add(x, self.g.binary("MUL", state, weights))


Step = Callable[[Cell, Tensor, Sequence[Tensor]], list[Tensor]]


def _lstm_step(cell: Cell, x: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
    """Gates in ONNX's order i, o, f, c; peepholes i, o, f."""
    h, c = states
    gates = cell.add(x, cell.product(h, 0, 4))
    i = cell.run(0, cell.peep(0, cell.gate(gates, 0), c))
    coupled = bool(cell.node.attribute("input_forget", 0))
    f = cell.rest(i) if coupled else cell.run(0, cell.peep(2, cell.gate(gates, 2), c))
    c = cell.add(cell.mul(f, c), cell.mul(i, cell.run(1, cell.gate(gates, 3))))
    o = cell.run(0, cell.peep(1, cell.gate(gates, 1), c))
    return [cell.mul(o, cell.run(2, c)), c]


def _gru_step(cell: Cell, x: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
    """Gates in ONNX's order z, r, h; the reset gate acts on h, or on its product when linear_before_reset is set."""
    (h,) = states
    both = cell.g.part(x, (0, 0), (x.shape[0], 2 * cell.hidden))
    gates = cell.run(0, cell.add(both, cell.product(h, 0, 2)))
    z, r = cell.gate(gates, 0), cell.gate(gates, 1)
    if cell.node.attribute("linear_before_reset", 0):
        seen = cell.mul(r, cell.product(h, 2, 3, constant(cell.bias[2 * cell.hidden :])))
    else:
        seen = cell.product(cell.mul(r, h), 2, 3)
    new = cell.run(1, cell.add(cell.gate(x, 2), seen))
    return [cell.add(cell.mul(cell.rest(z), new), cell.mul(z, h))]


def _rnn_step(cell: Cell, x: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
    return [cell.run(0, cell.add(x, cell.product(states[0], 0, 1)))]


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
        _check_lengths(node, x.shape[0])
        directions = _directions(node)
        runs = [self._unrolled(g, node, x, d, backwards) for d, backwards in enumerate(directions)]
        steps = [_stacked(g, [run[t][0] for run in runs]) for t in range(x.shape[0])]
        y = g.reshape(_concat(g, steps), (x.shape[0], *steps[0].shape))
        ends = [0 if backwards else -1 for backwards in directions]
        last = [
            _stacked(g, [run[end][k] for run, end in zip(runs, ends, strict=True)]) for k in range(len(self.initial))
        ]
        if node.attribute("layout", 0):
            return [g.transpose(y, (2, 0, 1, 3)), *(g.transpose(state, (1, 0, 2)) for state in last)]
        return [y, *last]

    def _unrolled(self, g: Emitter, node: OnnxNode, x: Tensor, d: int, backwards: bool) -> list[list[Tensor]]:
        """The states after every step, in order of time."""
        cell, w, bias = self._cell(g, node, d)
        time, batch, _ = x.shape
        seen = fully_connected(g, x, w, bias)
        rows = g.reshape(seen, (time * batch, seen.shape[2]))
        states = [_initial(g, node, i, d, (batch, cell.hidden)) for i in self.initial]
        made = []
        for t in reversed(range(time)) if backwards else range(time):
            states = self.step(cell, g.part(rows, (t * batch, 0), (batch, rows.shape[1])), states)
            made.append(states)
        return made[::-1] if backwards else made

    def _cell(self, g: Emitter, node: OnnxNode, d: int) -> tuple[Cell, Tensor, Tensor]:
        """The cell of direction ``d``, and weights and bias of its inputs."""
        w, r, b = (node.constant(i) for i in (1, 2, 3))
        if w is None or r is None:
            raise ModelError(f"{node}: weights are missing")
        hidden, rows = r.shape[2], self.gates * r.shape[2]
        both = np.zeros(2 * rows, np.float32) if b is None else b[d]
        bias_w, bias_r = both[:rows].copy(), both[rows:]
        kept = 2 * hidden if node.op == "GRU" and node.attribute("linear_before_reset", 0) else rows
        bias_w[:kept] += bias_r[:kept]  # the rest is added before the reset gate acts
        peepholes = node.constant(7) if node.op == "LSTM" else None
        p = None if peepholes is None else peepholes[d]
        cell = Cell(g, node, hidden, r[d], bias_r, p, self._activations(node, d))
        return cell, constant(np.ascontiguousarray(w[d])), constant(bias_w)

    def _activations(self, node: OnnxNode, d: int) -> list[str]:
        count = len(self.activations)
        names = [name.lower() for name in node.attribute("activations", self.activations * 2)]
        chosen = names[d * count : (d + 1) * count]
        unknown = [name for name in chosen if name not in ACTIVATIONS]
        node.need(not unknown, f"activations {', '.join(unknown)}; there are: {', '.join(ACTIVATIONS)}")
        given = "activation_alpha" in node.attributes or "activation_beta" in node.attributes
        node.need(not given, "activation_alpha and activation_beta; use the defaults")
        return chosen


def _directions(node: OnnxNode) -> tuple[bool, ...]:
    """Whether each direction runs backwards."""
    ways = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    direction = node.attribute("direction", "forward")
    if direction not in ways:
        raise ModelError(f"{node}: direction {direction!r} does not exist")
    return ways[direction]


def _check_lengths(node: OnnxNode, time: int) -> None:
    lengths = node.optional(4)
    full = lengths is None or (lengths.data is not None and bool((lengths.data == time).all()))
    if not full:
        raise UnsupportedOperatorError("sequence_lens; export the model for sequences of full length")


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


def _stacked(g: Emitter, states: Sequence[Tensor]) -> Tensor:
    """States [batch, hidden] of all directions as [directions, batch, hidden]."""
    return g.reshape(_concat(g, states), (len(states), *states[0].shape))


def _concat(g: Emitter, parts: Sequence[Tensor]) -> Tensor:
    """Along the first axis."""
    if len(parts) == 1:
        return parts[0]
    shape = (sum(part.shape[0] for part in parts), *parts[0].shape[1:])
    return g.emit("CONCATENATION", parts, shape, axis=0)


IMPORTERS = {
    "GRU": Kind(3, ("sigmoid", "tanh"), (5,), _gru_step),
    "LSTM": Kind(4, ("sigmoid", "tanh", "tanh"), (5, 6), _lstm_step),
    "RNN": Kind(1, ("tanh",), (5,), _rnn_step),
}
