"""LSTM, GRU and RNN."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from twinfer.converter.emit.cells import (
    Activation,
    Cell,
    Step,
    Weights,
    gru_step,
    lstm_step,
    rnn_step,
    sigmoid,
    stack,
    tanh,
    unroll,
    valid_steps,
)
from twinfer.converter.emit.emitter import Emitter, constant
from twinfer.converter.emit.functions import elu, hard_sigmoid, number, scale_and_shift, softplus, softsign
from twinfer.converter.emit.sequence import fits, sequence_lstm
from twinfer.converter.onnx.node import OnnxNode
from twinfer.converter.quantize.hybrid import remembering
from twinfer.runtime.errors import ModelError
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
        known = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
        direction = node.attribute("direction", "forward")
        if direction not in known:
            raise ModelError(f"{node}: direction {direction!r} does not exist")
        rows, lasts = [], []
        for d, backwards in enumerate(known[direction]):
            cell = self._cell(g, node, d)
            states = [_initial(g, node, i, d, (x.shape[1], cell.hidden)) for i in self.initial]
            row, last = self._run(g, cell, x, states, node.optional(4), backwards)
            rows.append(g.reshape(row, (row.shape[0], 1, *row.shape[1:])))
            lasts.append(last)
        y = g.concat(rows, 1)
        last = [stack(g, states) for states in zip(*lasts, strict=True)]
        if node.attribute("layout", 0):
            return [g.transpose(y, (2, 0, 1, 3)), *(g.transpose(state, (1, 0, 2)) for state in last)]
        return [y, *last]

    def _run(
        self, g: Emitter, cell: Cell, x: Tensor, states: list[Tensor], lengths: Tensor | None, backwards: bool
    ) -> tuple[Tensor, list[Tensor]]:
        """The outputs [time, batch, hidden] of one direction, zero past a sequence's length, and the last states."""
        full = lengths is None or (lengths.data is not None and bool((lengths.data == x.shape[0]).all()))
        if full and fits(cell, self.step, states):
            source = _turned(g, x)
            if source is None:
                return sequence_lstm(cell, x, True, backwards)
            y, states = sequence_lstm(cell, source, False, backwards)
            return g.transpose(y, (1, 0, 2)), states
        valid = None if full or lengths is None else valid_steps(g, lengths, x.shape[0])
        outputs, states = unroll(cell, self.step, x, states, backwards, valid, "zeros")
        return stack(g, outputs), states

    def weights(self, g: Emitter, node: OnnxNode, i: int, d: int) -> Weights:
        """Input ``i`` of direction ``d``, [gates * hidden, columns]."""
        return _of_direction(g, node.input(i), d)

    def _cell(self, g: Emitter, node: OnnxNode, d: int) -> Cell:
        """The cell of direction ``d``."""
        w, r = (self.weights(g, node, i, d) for i in (1, 2))
        b, p = (None if node.optional(i) is None else _of_direction(g, node.input(i), d) for i in (3, 7))
        rows = self.gates * r.shape[1]
        linear = node.op == "GRU" and bool(node.attribute("linear_before_reset", 0))
        kept = 2 * r.shape[1] if linear else rows  # the rest of the state's bias is added before the reset gate acts
        bias, late = _bias(g, b, rows, kept)
        return Cell(
            g,
            w,
            bias,
            r,
            _activations(node, d, self.activations),
            bias_r=late if linear else None,
            peepholes=p if self.step is lstm_step else None,
            clip=float(node.attribute("clip", math.inf)),
            coupled=bool(node.attribute("input_forget", 0)),
        )


class Dynamic(Kind):
    """An operator of com.microsoft with int8 weights [directions, depth, gates * hidden]: scales are in inputs 8 and
    10, zero points in 9 and 11, one for each direction or column. It quantises its values at run time."""

    def weights(self, g: Emitter, node: OnnxNode, i: int, d: int) -> Weights:
        steps, scale, zero = (node.constant(at) for at in (i, 6 + 2 * i, 7 + 2 * i))
        if steps is None or scale is None:
            raise ModelError(f"{node}: input {i} or its scale is missing")
        columns = np.ascontiguousarray(steps[d].T)
        return remembering(constant(columns), scale[d : d + 1], None if zero is None else zero[d : d + 1], 0, False)


def _turned(g: Emitter, x: Tensor) -> Tensor | None:
    """What x [time, 1, depth] was [1, time, depth], as PyTorch's batch_first writes it; None if it was not."""
    node = next((n for n in reversed(g.builder.nodes) if x in n.outputs and n.op == "TRANSPOSE"), None)
    if node is None or x.shape[1] != 1 or np.asarray(node.input(1).data).tolist() != [1, 0, 2]:
        return None
    return node.input(0)


def _of_direction(g: Emitter, x: Tensor, d: int) -> Weights:
    """Part ``d`` of the first dimension: an array if it is constant."""
    if x.data is not None:
        return np.ascontiguousarray(x.data[d])
    return g.reshape(g.part(x, (d, *[0] * (len(x.shape) - 1)), (1, *x.shape[1:])), x.shape[1:])


def _bias(g: Emitter, both: Weights | None, rows: int, kept: int) -> tuple[Weights, Weights]:
    """Of biases [2 * rows] for input and state: the sum, up to ``kept`` only; and the state's from there on."""
    if isinstance(both, Tensor):
        of_x, of_h = (g.part(both, (begin,), (kept,)) for begin in (0, rows))
        rest = [g.part(both, (kept,), (rows - kept,))] if kept < rows else []
        late = g.part(both, (rows + kept,), (rows - kept,)) if kept < rows else both
        return g.concat([g.binary("ADD", of_x, of_h), *rest], 0), late
    values = np.zeros(2 * rows, np.float32) if both is None else both
    total = values[:rows].copy()
    total[:kept] += values[rows : rows + kept]
    return total, values[rows + kept :]


#: In the place of a number that has no default.
NEEDED = math.nan

#: Activation -> defaults of alpha and beta (None: it has none), and what it does.
ACTIVATIONS: dict[str, tuple[float | None, float | None, Callable[..., Tensor]]] = {
    "affine": (NEEDED, NEEDED, lambda g, x, a, b: scale_and_shift(g, x, number(a), number(b))),
    "elu": (1.0, None, lambda g, x, a: elu(g, x, a)),
    "hardsigmoid": (0.2, 0.5, hard_sigmoid),
    "leakyrelu": (0.01, None, lambda g, x, a: g.unary("LEAKY_RELU", x, alpha=a)),
    "relu": (None, None, lambda g, x: g.unary("RELU", x)),
    "scaledtanh": (
        NEEDED,
        NEEDED,
        lambda g, x, a, b: g.binary("MUL", tanh(g, g.binary("MUL", x, number(b))), number(a)),
    ),
    "sigmoid": (None, None, sigmoid),
    "softplus": (None, None, softplus),
    "softsign": (None, None, softsign),
    "tanh": (None, None, tanh),
    "thresholdedrelu": (1.0, None, lambda g, x, a: _thresholded(g, x, a)),
}


def _thresholded(g: Emitter, x: Tensor, alpha: float) -> Tensor:
    above = g.binary("GREATER", x, number(alpha), "BOOL")
    return g.binary("MUL", x, g.cast(above, "FLOAT32"))


def _activations(node: OnnxNode, d: int, usual: Sequence[str]) -> list[Activation]:
    """Those of direction ``d``. Activations that have an alpha or a beta take the given ones in order, as in ONNX
    Runtime."""
    names = [name.lower() for name in node.attribute("activations", [])] or [*usual] * 2
    unknown = [name for name in names if name not in ACTIVATIONS]
    node.need(not unknown, f"activations {', '.join(unknown)}; there are: {', '.join(ACTIVATIONS)}")
    alphas, betas = (iter(node.attribute(f"activation_{name}", [])) for name in ("alpha", "beta"))
    found: list[Activation] = []
    for name in names:
        alpha, beta, function = ACTIVATIONS[name]
        given = [] if alpha is None else [float(next(alphas, alpha))]
        given += [] if beta is None else [float(next(betas, beta))]
        node.need(not any(map(math.isnan, given)), f"activation {name} without activation_alpha and activation_beta")
        found.append(partial(_with, function, given) if given else function)
    return found[d * len(usual) : (d + 1) * len(usual)]


def _with(function: Callable[..., Tensor], given: Sequence[float], g: Emitter, x: Tensor) -> Tensor:
    return function(g, x, *given)


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
    "com.microsoft:DynamicQuantizeLSTM": Dynamic(4, ("sigmoid", "tanh", "tanh"), (5, 6), lstm_step),
}
