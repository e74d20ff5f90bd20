"""LSTMs of float values, with float or int8 weights: their meaning, and the parts of a call.

Source: LiteRT lstm_eval.cc, LstmStepFloat and LstmStepHybrid.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime import constant
from twinfer.runtime.constant import Constant
from twinfer.runtime.graph import Array, Tensor
from twinfer.runtime.ops.recurrent import _sequences
from twinfer.runtime.ops.recurrent._lstm import MODULATION, Gate, Lstm
from twinfer.runtime.ops.recurrent._sequences import clipped, times
from twinfer.runtime.params import Param
from twinfer.runtime.program import Argument, Call


class _Step:
    """One step of all batches; ``inputs`` are the node's values by position."""

    def __init__(self, lstm: Lstm, inputs: list[Any]) -> None:
        self.lstm, self.inputs, self.node = lstm, inputs, lstm.node
        self.clip, self.proj_clip = (float(self.node.options.get(f"{n}_clip", 0.0)) for n in ("cell", "proj"))

    def _times(self, values: Array, position: int) -> Array:
        w = self.inputs[position]
        return times(self.node, values, np.diag(w) if w.ndim == 1 else w, self.node.input(position))

    def _gate(self, i: int, values: tuple[Array, Array | None, Array], cell: Array) -> Array:
        """Gate ``i`` for x, the other input and the hidden state."""
        gate, (x, other, hidden) = self.lstm.gates[i], values
        bias = self.inputs[gate.bias]
        sums = self._times(x, gate.weights) + (0 if self.lstm.norm else bias)
        if other is not None and gate.other is not None:
            sums = sums + self._times(other, gate.other)
        sums = (sums + self._times(hidden, gate.recurrent)).astype(cell.dtype)
        if self.lstm.peephole and gate.peephole is not None:
            w = np.asarray(self.inputs[gate.peephole])
            w = np.float32(self.node.input(gate.peephole).scale) * w.astype(np.float32) if w.dtype == np.int8 else w
            sums = sums + w.astype(cell.dtype) * cell
        if self.lstm.norm and gate.norm is not None:
            sums = _normalized(sums) * self.inputs[gate.norm] + bias
        return _sequences.activate(self.node, sums) if i == MODULATION else _logistic(sums)

    def run(self, values: tuple[Array, Array | None], hidden: Array, cell: Array) -> tuple[Array, Array]:
        """Hidden state and cell after a step with x and the other input."""
        seen = (*values, hidden)
        forget, new = self._gate(0, seen, cell), self._gate(2, seen, cell)
        take = 1 - forget if self.lstm.coupled else self._gate(1, seen, cell)
        cell = clipped(forget * cell + take * new, self.clip)
        shown = _sequences.activate(self.node, cell) * self._gate(3, seen, cell)
        if not self.lstm.projected:
            return shown, cell
        bias = self.lstm.tensor(self.lstm.projection_bias)
        start = 0 if bias is None else self.inputs[self.lstm.projection_bias]
        projected = (start + self._times(shown, self.lstm.projection)).astype(cell.dtype)
        return clipped(projected, self.proj_clip), cell


def _logistic(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)))


def _normalized(x: Array) -> Array:
    """Rows less their mean, over their standard deviation. Source: LiteRT's MeanStddevNormalization."""
    centred = x - x.mean(axis=1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + x.dtype.type(1e-8)))


def run(lstm: Lstm, inputs: list[Any], *, backwards: bool = False) -> Iterator[tuple[Array, Array]]:
    """Hidden state [batches, outputs] and cell [batches, units] after every step, from the states in ``inputs``.

    All in float32, as kernels do: what is beyond it becomes infinite in the same place.
    """
    real = np.float32
    step, batches = _Step(lstm, inputs), lstm.layout.batches
    hidden = inputs[lstm.hidden].reshape(batches, lstm.outputs).astype(real)
    cell = inputs[lstm.cell].reshape(batches, lstm.units).astype(real)
    x = lstm.layout.stepwise(inputs[lstm.places.x].astype(real))
    others = None
    if lstm.other is not None and lstm.places.other is not None:
        others = lstm.layout.stepwise(inputs[lstm.places.other].astype(real))
    for t in reversed(range(len(x))) if backwards else range(len(x)):
        hidden, cell = step.run((x[t], None if others is None else others[t]), hidden, cell)
        yield hidden, cell


def reference(lstm: Lstm, inputs: list[Any], *, backwards: bool = False) -> Array:
    steps = [hidden for hidden, _ in run(lstm, inputs, backwards=backwards)]
    return lstm.layout.joined(steps[::-1] if backwards else steps).astype(np.float32)


def params(lstm: Lstm, y: dict[str, int], *, backwards: bool = False) -> dict[str, Param]:
    """``tw_lstm``; ``y`` is where the output lies."""
    node = lstm.node
    flags = {name: int(getattr(lstm, name)) for name in ("coupled", "peephole", "norm")}
    return {
        "cell": cell(lstm, y, backwards=backwards),
        "activation": _sequences.activation(node),
        **flags,
        "project": int(lstm.projected),
        "clip": float(node.options.get("cell_clip", 0.0)),
        "proj_clip": float(node.options.get("proj_clip", 0.0)),
    }


def cell(lstm: Lstm, y: dict[str, int], *, backwards: bool = False) -> dict[str, Param]:
    """``tw_cell``."""
    layout, size = lstm.layout, lstm.x.shape[-1]
    extra = 0 if lstm.other is None else lstm.other.shape[-1]
    sizes = {"size": size, "extra": extra, "units": lstm.units, "outputs": lstm.outputs}
    places = {"x": layout.place(size, backwards=backwards), "other": layout.place(extra, backwards=backwards)}
    return {"batches": layout.batches, "steps": layout.steps, **sizes, **places, "y": y}


def scales(lstm: Lstm) -> dict[str, Param]:
    """``tw_lstm_scales``."""

    def of(position: int | None) -> float:
        tensor = lstm.tensor(position)
        return 0.0 if tensor is None or tensor.quant is None else tensor.scale

    names = {"x": "weights", "hidden": "recurrent", "peephole": "peephole", "other": "other"}
    by_gate = {name: [of(getattr(gate, field)) for gate in lstm.gates] for name, field in names.items()}
    return {**by_gate, "project": of(lstm.projection), "symmetric": int(_sequences.is_symmetric(lstm.node))}


def inputs_of(lstm: Lstm) -> tuple[Argument, ...]:
    """The inputs as kernels have them."""
    listed: list[Argument] = [lstm.x, lstm.other]
    for gate in lstm.gates:
        listed += [lstm.tensor(gate.weights), _recurrent(lstm, gate), lstm.tensor(gate.bias)]
        listed += [lstm.tensor(gate.peephole) if lstm.peephole else None, lstm.tensor(gate.norm)]
        listed.append(lstm.tensor(gate.other))
    return (*listed, lstm.tensor(lstm.projection), lstm.tensor(lstm.projection_bias))


def _recurrent(lstm: Lstm, gate: Gate) -> Tensor | Constant | None:
    """Recurrent weights; a diagonal as a matrix."""
    weights = lstm.tensor(gate.recurrent)
    if weights is None or weights.data is None or weights.data.ndim == 2:
        return weights
    return constant.weights(np.diag(weights.data), "a diagonal as a matrix")


def scratch(lstm: Lstm) -> int:
    """Bytes that a run needs."""
    extra = 0 if lstm.other is None else lstm.other.shape[-1]
    codes = lstm.x.shape[-1] + extra + lstm.outputs + lstm.units
    return 16 * lstm.units + (codes if lstm.kind == "hybrid" else 0)


def lower(lstm: Lstm) -> Call:
    """The call of one LSTM that runs forwards."""
    node, macs = lstm.node, lstm.macs
    values: dict[str, Param] = {"lstm": params(lstm, lstm.layout.place(lstm.outputs))}
    outputs = (node.output, node.input(lstm.hidden), node.input(lstm.cell))
    if lstm.kind == "float":
        return Call("tw_lstm_f32", values, inputs_of(lstm), outputs, scratch(lstm), macs=macs)
    values["scales"] = scales(lstm)
    return Call("tw_lstm_hybrid", values, inputs_of(lstm), outputs, scratch(lstm), macs=macs)
