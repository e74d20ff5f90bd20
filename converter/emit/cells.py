"""LSTM, GRU and RNN, unrolled over time: the inputs' products in one FULLY_CONNECTED, then a cell for every step.

``converter/loops.py`` makes a loop of the steps when all passes are done and the graph is quantised. ``sequence.py``
has the LSTMs that TFLite's own operator computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from twinfer.converter.emit.emitter import Emitter, Operand, constant, rows_of
from twinfer.converter.emit.products import fully_connected
from twinfer.converter.passes.constant_folding import BEGINS
from twinfer.runtime.graph import Tensor

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
Activation = Callable[[Emitter, Tensor], Tensor]

#: Weights of a cell: an array, a constant that remembers integers, or a tensor that is computed at run time.
Weights = Floats | Tensor


def sigmoid(g: Emitter, x: Tensor) -> Tensor:
    return g.unary("LOGISTIC", x)


def tanh(g: Emitter, x: Tensor) -> Tensor:
    return g.unary("TANH", x)


@dataclass(frozen=True)
class Cell:
    """One direction: w [gates * hidden, depth] for the inputs with bias, r [gates * hidden, hidden] for the state.

    ``bias_r`` [hidden]: the GRU's reset gate acts on the state's product and this bias; if None, on the state itself.
    ``peepholes`` [3 * hidden] are in the order i, o, f. ``coupled``: the LSTM's forget gate is 1 - the input gate.
    """

    g: Emitter
    w: Weights
    bias: Weights
    r: Weights
    activations: Sequence[Activation]
    bias_r: Weights | None = None
    peepholes: Weights | None = None
    clip: float = math.inf
    coupled: bool = False

    @property
    def hidden(self) -> int:
        return int(self.r.shape[1])

    def gates(self, x: Tensor, *count: int) -> tuple[Tensor, ...]:
        """Parts of [batch, gates * hidden] with so many gates each."""
        return self.g.split(x, [n * self.hidden for n in count], 1)

    def product(self, h: Tensor, first: int, last: int, bias: Tensor | None = None) -> Tensor:
        """What gates ``first`` up to ``last`` see of the state."""
        return fully_connected(self.g, h, self.rows(self.r, first, last), bias)

    def rows(self, weights: Weights, first: int, last: int) -> Tensor:
        """Rows of gates ``first`` up to ``last``."""
        begin, size = first * self.hidden, (last - first) * self.hidden
        if isinstance(weights, Tensor) and weights.data is not None:
            return rows_of(weights, begin, size)
        if isinstance(weights, Tensor):
            rest = weights.shape[1:]
            return self.g.part(weights, (begin, *[0] * len(rest)), (size, *rest))
        return constant(np.ascontiguousarray(weights[begin : begin + size]))

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return self.g.binary("ADD", x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        return self.g.binary("MUL", x, y)

    def rest(self, share: Tensor) -> Tensor:
        return self.g.binary("SUB", np.array(1, np.float32), share)

    def run(self, i: int, x: Tensor) -> Tensor:
        """Activation ``i`` of x, which ``clip`` cuts first."""
        if self.clip != math.inf:
            x = self.g.binary("MAXIMUM", x, np.array(-self.clip, np.float32))
            x = self.g.binary("MINIMUM", x, np.array(self.clip, np.float32))
        return self.activations[i](self.g, x)

    def peep(self, i: int, x: Tensor, state: Tensor) -> Tensor:
        """The gate with what peephole ``i`` sees of the state."""
        if self.peepholes is None:
            return x
        return self.add(x, self.mul(state, self.rows(self.peepholes, i, i + 1)))


#: (cell, what its gates see of the input, states) -> the states after the step; the first is the output.
Step = Callable[[Cell, Tensor, Sequence[Tensor]], list[Tensor]]


def lstm_step(cell: Cell, x: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
    """Gates in ONNX's order i, o, f, c. ``clip`` is for them alone, as in ONNX Runtime."""
    h, c = states
    i, o, f, new = cell.gates(cell.add(x, cell.product(h, 0, 4)), 1, 1, 1, 1)
    i = cell.run(0, cell.peep(0, i, c))
    f = cell.rest(i) if cell.coupled else cell.run(0, cell.peep(2, f, c))
    c = cell.add(cell.mul(f, c), cell.mul(i, cell.run(1, new)))
    o = cell.run(0, cell.peep(1, o, c))
    return [cell.mul(o, cell.activations[2](cell.g, c)), c]


def gru_step(cell: Cell, x: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
    """Gates in the order z, r, h."""
    (h,) = states
    both, last = cell.gates(x, 2, 1)
    z, r = cell.gates(cell.run(0, cell.add(both, cell.product(h, 0, 2))), 1, 1)
    if cell.bias_r is not None:
        seen = cell.mul(r, cell.product(h, 2, 3, operand(cell.bias_r)))
    else:
        seen = cell.product(cell.mul(r, h), 2, 3)
    new = cell.run(1, cell.add(last, seen))
    return [cell.add(new, cell.mul(z, cell.g.binary("SUB", h, new)))]  # (1 - z) * new + z * h


def rnn_step(cell: Cell, x: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
    return [cell.run(0, cell.add(x, cell.product(states[0], 0, 1)))]


def operand(weights: Weights) -> Tensor:
    return weights if isinstance(weights, Tensor) else constant(weights)


def unroll(
    cell: Cell,
    step: Step,
    x: Tensor,
    states: Sequence[Tensor],
    backwards: bool = False,
    valid: Tensor | None = None,
    rest: str = "state",
) -> tuple[list[Tensor], list[Tensor]]:
    """The outputs [batch, hidden] of all steps in order of time, for inputs x [time, batch, depth], and the last
    states. ``valid`` and ``rest``: see ``over_time``."""
    if backwards and valid is not None:  # a loop goes through all that it reads in one direction
        outputs, states = unroll(cell, step, cell.g.flip(x, 0), states, False, flipped(cell.g, valid), rest)
        return outputs[::-1], states
    time, batch, _ = x.shape
    flat = cell.g.reshape(x, (time * batch, x.shape[2]))  # FULLY_CONNECTED then takes x in any shape
    seen = fully_connected(cell.g, flat, operand(cell.w), operand(cell.bias))
    width = seen.shape[1]
    rows = cell.g.reshape(seen, (time, batch * width))

    def advance(t: int, states: Sequence[Tensor]) -> tuple[Tensor, Sequence[Tensor]]:
        row = cell.g.reshape(cell.g.part(rows, (t, 0), (1, batch * width)), (batch, width))
        new = step(cell, row, states)
        return new[0], new

    return over_time(cell.g, range(time)[:: -1 if backwards else 1], states, advance, valid, rest)


#: A step, and the states before it -> its output, and the states after it.
Advance = Callable[[int, Sequence[Tensor]], tuple[Tensor, Sequence[Tensor]]]


def over_time(
    g: Emitter,
    order: range,
    states: Sequence[Tensor],
    advance: Advance,
    valid: Tensor | None = None,
    rest: str = "state",
) -> tuple[list[Tensor], list[Tensor]]:
    """The outputs of all steps in order of time, and the last states.

    ``valid`` [time, batch]: which sequences reach a step; the states of the others stay as they were. None: all.
    ``rest``: what their output is: the "state", which is the first one, "zeros", or that of the step "before".
    """
    states = [begun(g, state) for state in states]
    outputs: dict[int, Tensor] = {}
    shown: Tensor | None = None
    for t in order:
        y, new = advance(t, states)
        if valid is not None:
            reach = _row(g, valid, t)
            new = [select(g, reach, *pair) for pair in zip(new, states, strict=True)]
            if shown is None:
                shown = begun(g, constant(np.zeros(y.shape, np.float32)))
            y = new[0] if rest == "state" else select(g, reach, y, shown)
            shown = y if rest == "before" else shown
        outputs[t], states = y, list(new)
    return [outputs[t] for t in sorted(outputs)], states


def begun(g: Emitter, state: Tensor) -> Tensor:
    """The state before the first step; zeros as an operator's result that stays until loops are made, so that the first
    step is like all others. So does the RESHAPE that makes a state."""
    marked = MappingProxyType({BEGINS: True})
    if state.data is None:
        nodes = g.builder.nodes
        nodes[:] = [replace(n, extra=marked) if n.op == "RESHAPE" and n.output is state else n for n in nodes]
    if state.data is None or state.data.any():
        return state
    one = np.zeros([1] * len(state.shape), np.float32)
    state = g.emit("BROADCAST_TO", [one, np.array(state.shape, np.int32)], state.shape)
    g.builder.nodes[-1] = replace(g.builder.nodes[-1], extra=marked)
    return state


def select(g: Emitter, where: Tensor, x: Operand, y: Tensor) -> Tensor:
    """Of [batch, hidden] the rows of x where [batch, 1] says so, elsewhere those of y."""
    if where.data is not None and where.data.all() and isinstance(x, Tensor):
        return x
    return g.emit("SELECT_V2", [where, x, y], y.shape, y.type)


def _row(g: Emitter, valid: Tensor, t: int) -> Tensor:
    """Row t of [time, batch] as [batch, 1]."""
    if valid.data is not None:
        return constant(np.ascontiguousarray(valid.data[t][:, None]))
    return g.reshape(g.part(valid, (t, 0), (1, valid.shape[1])), (valid.shape[1], 1))


def flipped(g: Emitter, valid: Tensor) -> Tensor:
    return g.flip(valid, 0) if valid.data is None else constant(np.ascontiguousarray(valid.data[::-1]))


def valid_steps(g: Emitter, lengths: Tensor, time: int) -> Tensor:
    """Which sequences reach a step [time, batch], for lengths [batch]."""
    steps = np.arange(time, dtype=np.int32)[:, None]
    if lengths.data is not None:
        return constant(steps < lengths.data.reshape(1, -1))
    return g.binary("GREATER", g.reshape(g.cast(lengths, "INT32"), (1, lengths.size)), steps, "BOOL")


def stack(g: Emitter, states: Sequence[Tensor]) -> Tensor:
    """States [batch, hidden] one after the other: [states, batch, hidden]."""
    return g.reshape(g.concat(states, 0), (len(states), *states[0].shape))
