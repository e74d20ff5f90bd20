"""LSTM, GRU and RNN, unrolled over time: the inputs' products in one FULLY_CONNECTED, then a cell for every step.

ONNX and Keras start every run from initial states, where TFLite's sequence operators keep theirs between runs.
``converter/loops.py`` makes a loop of the steps when all passes are done and the graph is quantised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from twinfer.converter.emit.emitter import Emitter, constant
from twinfer.converter.emit.functions import hard_sigmoid
from twinfer.converter.emit.products import fully_connected
from twinfer.runtime.graph import Tensor

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
Activation = Callable[[Emitter, Tensor], Tensor]
ACTIVATIONS: dict[str, Activation] = {
    "sigmoid": lambda g, x: g.unary("LOGISTIC", x),
    "tanh": lambda g, x: g.unary("TANH", x),
    "relu": lambda g, x: g.unary("RELU", x),
    "hardsigmoid": lambda g, x: hard_sigmoid(g, x, 0.2, 0.5),
}


@dataclass(frozen=True)
class Cell:
    """One direction: w [gates * hidden, depth] for the inputs with bias, r [gates * hidden, hidden] for the state.

    ``bias_r`` [hidden]: the GRU's reset gate acts on the state's product and this bias; if None, on the state itself.
    ``peepholes`` [3 * hidden] are in the order i, o, f. ``coupled``: the LSTM's forget gate is 1 - the input gate.
    """

    g: Emitter
    w: Floats
    bias: Floats
    r: Floats
    activations: Sequence[Activation]
    bias_r: Floats | None = None
    peepholes: Floats | None = None
    clip: float = math.inf
    coupled: bool = False

    @property
    def hidden(self) -> int:
        return int(self.r.shape[1])

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
        """Activation ``i`` of x, which ``clip`` cuts first."""
        if self.clip != math.inf:
            x = self.g.binary("MAXIMUM", x, np.array(-self.clip, np.float32))
            x = self.g.binary("MINIMUM", x, np.array(self.clip, np.float32))
        return self.activations[i](self.g, x)

    def peep(self, i: int, x: Tensor, state: Tensor) -> Tensor:
        """The gate with what peephole ``i`` sees of the state."""
        if self.peepholes is None:
            return x
        weights = self.peepholes[i * self.hidden : (i + 1) * self.hidden]
        return self.add(x, self.g.binary("MUL", state, weights))


#: (cell, what its gates see of the input, states) -> the states after the step; the first is the output.
Step = Callable[[Cell, Tensor, Sequence[Tensor]], list[Tensor]]


def lstm_step(cell: Cell, x: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
    """Gates in ONNX's order i, o, f, c. ``clip`` is for them alone, as in ONNX Runtime."""
    h, c = states
    gates = cell.add(x, cell.product(h, 0, 4))
    i = cell.run(0, cell.peep(0, cell.gate(gates, 0), c))
    f = cell.rest(i) if cell.coupled else cell.run(0, cell.peep(2, cell.gate(gates, 2), c))
    c = cell.add(cell.mul(f, c), cell.mul(i, cell.run(1, cell.gate(gates, 3))))
    o = cell.run(0, cell.peep(1, cell.gate(gates, 1), c))
    return [cell.mul(o, cell.activations[2](cell.g, c)), c]


def gru_step(cell: Cell, x: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
    """Gates in the order z, r, h."""
    (h,) = states
    both = cell.g.part(x, (0, 0), (x.shape[0], 2 * cell.hidden))
    gates = cell.run(0, cell.add(both, cell.product(h, 0, 2)))
    z, r = cell.gate(gates, 0), cell.gate(gates, 1)
    if cell.bias_r is not None:
        seen = cell.mul(r, cell.product(h, 2, 3, constant(cell.bias_r)))
    else:
        seen = cell.product(cell.mul(r, h), 2, 3)
    new = cell.run(1, cell.add(cell.gate(x, 2), seen))
    return [cell.add(cell.mul(cell.rest(z), new), cell.mul(z, h))]


def rnn_step(cell: Cell, x: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
    return [cell.run(0, cell.add(x, cell.product(states[0], 0, 1)))]


def unroll(cell: Cell, step: Step, x: Tensor, states: list[Tensor], backwards: bool = False) -> list[list[Tensor]]:
    """The states [batch, hidden] after every step, in order of time, for inputs x [time, batch, depth]."""
    time, batch, _ = x.shape
    seen = fully_connected(cell.g, x, constant(cell.w), constant(cell.bias))
    width = seen.shape[2]
    rows = cell.g.reshape(seen, (time, batch * width))
    steps = []
    for t in reversed(range(time)) if backwards else range(time):
        row = cell.g.reshape(cell.g.part(rows, (t, 0), (1, batch * width)), (batch, width))
        states = step(cell, row, states)
        steps.append(states)
    return steps[::-1] if backwards else steps


def stack(g: Emitter, states: Sequence[Tensor]) -> Tensor:
    """States [batch, hidden] one after the other: [states, batch, hidden]."""
    return g.reshape(g.concat(states, 0), (len(states), *states[0].shape))
