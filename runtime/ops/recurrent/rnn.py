"""RNN, UNIDIRECTIONAL_SEQUENCE_RNN, BIDIRECTIONAL_SEQUENCE_RNN: float values, float or int8 weights.

Source: LiteRT kernel_utils.cc, RnnBatchStep. Faults of its BIDIRECTIONAL_SEQUENCE_RNN are not copied: with
``time_major``, int8 weights are run over the whole sequence once for every step; without, a second input that has no
weights is ignored. A second input of another width is read by the first one's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Op, Shape, need, need_type
from twinfer.runtime.ops.recurrent import _rnn_cases, _sequences
from twinfer.runtime.ops.recurrent._sequences import Layout, need_plain_weights, need_shape, need_state, times
from twinfer.runtime.params import Param
from twinfer.runtime.program import Argument, Call
from twinfer.runtime.target import Target

#: The position of BIDIRECTIONAL_SEQUENCE_RNN's second input.
OTHER = 9


class Rnn(NamedTuple):
    """One RNN of a node. Positions of x and of the weights (then come recurrent weights, bias and hidden state), and of
    the second input's weights."""

    node: Node
    layout: Layout
    x: int = 0
    weights: int = 1
    of_other: int | None = None
    backwards: bool = False

    @property
    def hidden(self) -> int:
        return self.weights + 3

    @property
    def units(self) -> int:
        return self.node.input(self.weights).shape[0]

    @property
    def other(self) -> Tensor | None:
        """The second input, if it has weights."""
        linked = self.of_other is not None and self.node.optional(self.of_other) is not None
        return self.node.optional(OTHER) if linked else None

    @property
    def extra(self) -> int:
        return 0 if self.other is None else self.other.shape[-1]

    @property
    def macs(self) -> int:
        size = self.node.input(self.x).shape[-1]
        return self.layout.batches * self.layout.steps * self.units * (size + self.extra + self.units)


def cells(node: Node) -> tuple[Rnn, ...]:
    """The RNNs of the node: one, or one forwards and one backwards."""
    layout = Layout.of(node, flat=node.op == "RNN", time_major=bool(node.options.get("time_major")))
    if node.op != "BIDIRECTIONAL_SEQUENCE_RNN":
        return (Rnn(node, layout),)
    stacked = node.optional(OTHER) is not None and node.optional(OTHER + 1) is None
    backward = Rnn(node, layout, OTHER if stacked else 0, 5, OTHER + 2, backwards=True)
    return Rnn(node, layout, of_other=OTHER + 1), backward


def infer(node: Node) -> list[Shape]:
    count = 12 if node.op == "BIDIRECTIONAL_SEQUENCE_RNN" else 5
    need(len(node.inputs) == count, node, f"it has {len(node.inputs)} inputs, not {count}")
    both = cells(node)
    for rnn in both:
        _check(rnn)
    types = {node.input(rnn.weights).type for rnn in both}
    need(len(types) == 1, node, "the weights of both directions must have the same type")
    _sequences.activation(node)
    widths = [rnn.units for rnn in both]
    return [both[0].layout.shape(n) for n in ([sum(widths)] if _merged(node) else widths)]


def _merged(node: Node) -> bool:
    return bool(node.options.get("merge_outputs", False)) and node.op == "BIDIRECTIONAL_SEQUENCE_RNN"


def _check(rnn: Rnn) -> None:
    node, units = rnn.node, rnn.units
    x, w, r, bias = (node.input(i) for i in (rnn.x, *range(rnn.weights, rnn.weights + 3)))
    of_other = None if rnn.of_other is None else node.optional(rnn.of_other)
    need_type(node, w, "FLOAT32", "INT8")
    for tensor in (x, bias, node.input(rnn.hidden), *node.outputs, *([rnn.other] if rnn.other else [])):
        need_type(node, tensor, "FLOAT32")
    for tensor in (r, *([of_other] if of_other else [])):
        need_type(node, tensor, w.type)
    if w.type == "INT8":
        need_plain_weights(node, w, r, *([of_other] if of_other else []))
    need_shape(node, x, *rnn.layout.shape(x.shape[-1]))
    need_shape(node, w, units, x.shape[-1])
    need_shape(node, r, units, units)
    need_shape(node, bias, units)
    need(of_other is None or rnn.other is not None, node, f"{of_other} weighs a second input, which is missing")
    if rnn.other is not None:
        need_shape(node, rnn.other, *rnn.layout.shape(rnn.extra))
        need_shape(node, of_other, units, rnn.extra)
    need_state(node, node.input(rnn.hidden), rnn.layout.batches * units)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """The outputs, from the states in ``inputs``."""
    both = [_run(rnn, inputs) for rnn in cells(node)]
    return [np.concatenate(both, axis=-1)] if _merged(node) else both


def _run(rnn: Rnn, inputs: list[Any]) -> Array:
    node, (w, r, bias) = rnn.node, (inputs[i] for i in range(rnn.weights, rnn.weights + 3))
    x = rnn.layout.stepwise(inputs[rnn.x])
    other = None if rnn.other is None else rnn.layout.stepwise(inputs[OTHER])
    hidden, outputs = inputs[rnn.hidden].reshape(rnn.layout.batches, rnn.units), []
    for t in range(len(x))[:: -1 if rnn.backwards else 1]:
        sums = times(node, x[t], w, node.input(rnn.weights)) + bias
        if other is not None and rnn.of_other is not None:
            sums = sums + times(node, other[t], inputs[rnn.of_other], node.input(rnn.of_other))
        sums = sums + times(node, hidden, r, node.input(rnn.weights + 1))
        hidden = _sequences.activate(node, sums)
        outputs.append(hidden)
    return rnn.layout.joined(outputs[:: -1 if rnn.backwards else 1])


def lower(node: Node, target: Target) -> Call:
    both = cells(node)
    width, first, inputs, outputs = sum(rnn.units for rnn in both) if _merged(node) else 0, 0, [], []
    params: dict[str, Param] = {}
    for rnn, y, name in zip(both, (node.outputs[0], node.outputs[-1]), ("forward", "backward"), strict=False):
        place = rnn.layout.place(width or rnn.units, first, backwards=rnn.backwards)
        params[name if len(both) == 2 else "rnn"] = _params(rnn, place)
        inputs += _inputs(rnn)
        outputs += [y, node.input(rnn.hidden)]
        first += rnn.units if width else 0
    kernel, macs = f"tw_{'bidirectional_' if len(both) == 2 else ''}rnn", sum(rnn.macs for rnn in both)
    if node.input(1).type == "FLOAT32":
        return Call(f"{kernel}_f32", params, tuple(inputs), tuple(outputs), macs=macs)
    for rnn, name in zip(both, ("forward_", "backward_"), strict=False):
        params[f"{name if len(both) == 2 else ''}scales"] = _scales(rnn)
    scratch = max(node.input(rnn.x).shape[-1] + rnn.extra + rnn.units for rnn in both)
    return Call(f"{kernel}_hybrid", params, tuple(inputs), tuple(outputs), scratch, macs=macs)


def _params(rnn: Rnn, y: dict[str, int]) -> dict[str, Param]:
    """``tw_rnn``."""
    layout, size = rnn.layout, rnn.node.input(rnn.x).shape[-1]
    sizes = {"size": size, "extra": rnn.extra, "units": rnn.units, "outputs": rnn.units}
    x, other = (layout.place(n, backwards=rnn.backwards) for n in (size, rnn.extra))
    cell = {"batches": layout.batches, "steps": layout.steps, **sizes, "x": x, "other": other, "y": y}
    return {"cell": cell, "activation": _sequences.activation(rnn.node)}


def _inputs(rnn: Rnn) -> list[Argument]:
    node = rnn.node
    of_other = None if rnn.other is None or rnn.of_other is None else node.input(rnn.of_other)
    return [node.input(rnn.x), rnn.other, *(node.input(rnn.weights + i) for i in range(3)), of_other]


def _scales(rnn: Rnn) -> dict[str, Param]:
    """``tw_rnn_scales``."""
    node = rnn.node
    other = 0.0 if rnn.other is None or rnn.of_other is None else node.input(rnn.of_other).scale
    own = {"x": node.input(rnn.weights).scale, "hidden": node.input(rnn.weights + 1).scale}
    return {**own, "other": other, "symmetric": int(_sequences.is_symmetric(node))}


OPS = tuple(
    Op(name, infer, reference, lower, _rnn_cases.cases_of(name))
    for name in ("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_RNN")
)
