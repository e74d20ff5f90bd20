"""Small LSTMs with any of their options, for the cases of operators that have one with 24 inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.op import Case, Shape, tensor
from twinfer.runtime.ops.recurrent._lstm import Gate, Lstm, Places
from twinfer.runtime.ops.recurrent._sequences import Layout

#: Largest difference of float outputs to the reference: those of neighbours, a few units in the last place per step.
#: LiteRT quantises hidden states anew at every step, and its logistic function is another.
TOLERANCE = {"FLOAT32": 2e-6, "HYBRID": 1e-5, "INT8": 0.0, "INT16": 0.0}

#: Quantisation of x and of the output.
_VALUES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "INT8": ({"type": "INT8", "scale": 0.02, "zero": -5}, {"type": "INT8", "scale": 1 / 128, "zero": 3}),
    "INT16": ({"type": "INT16", "scale": 8e-5}, {"type": "INT16", "scale": 2.0**-15}),
}

PEEPHOLE_FAULT = "LiteRT takes cells by the number of outputs: it reads the wrong ones, or beyond them"


@dataclass(frozen=True)
class Form:
    """``kind``: FLOAT32, HYBRID, INT8 or INT16. ``sizes``: batches, steps, values of an input, units.

    ``outputs``: of a projection, 0 for none. ``flags``: "coupled", "peephole", "norm", "diagonal", "no_bias" (of the
    projection). ``power``: the exponent of the scale of an int16 cell.
    """

    kind: str
    sizes: tuple[int, int, int, int]
    clip: float = 10.0
    outputs: int = 0
    flags: frozenset[str] = frozenset()
    op: str = "UNIDIRECTIONAL_SEQUENCE_LSTM"
    options: dict[str, Any] = field(default_factory=dict)
    power: int = -11

    @property
    def plain(self) -> bool:
        """Whether TFLM takes it."""
        return self.op != "LSTM" and self.kind != "HYBRID" and not self.outputs and not self.flags


class _Tensors:
    """Random tensors of a form."""

    def __init__(self, rng: np.random.Generator, form: Form) -> None:
        self.rng, self.form, self.kind = rng, form, form.kind

    def weights(self, shape: Shape) -> Tensor:
        if self.kind == "FLOAT32":
            return tensor(shape, data=self.rng.standard_normal(shape) / shape[-1] ** 0.5, name="w")
        scale = float(self.rng.uniform(0.002, 0.02)) * (1 if self.form.plain else 0.3)
        return tensor(shape, "INT8", scale, data=self.rng.integers(-127, 128, shape), name="w")

    def bias(self, size: int, bound: int = 2000) -> Tensor:
        if self.kind in ("FLOAT32", "HYBRID"):
            return tensor((size,), data=self.rng.standard_normal(size), name="b")
        if self.kind == "INT16":
            return tensor((size,), "INT64", 1e-6, data=self.rng.integers(-bound, bound, size) * 256, name="b")
        return tensor((size,), "INT32", 1e-4, data=self.rng.integers(-bound, bound, size), name="b")

    def peephole(self, size: int) -> Tensor:
        if self.kind != "INT8":
            return self.weights((size,))
        return tensor((size,), "INT16", 2.0**-17, data=self.rng.integers(-32767, 32768, size), name="p")

    def norm(self, size: int) -> Tensor:
        if self.kind != "INT8":
            return tensor((size,), data=self.rng.standard_normal(size), name="n")
        return tensor((size,), "INT16", 5e-5, data=self.rng.integers(-32767, 32768, size), name="n")

    def state(self, shape: Shape, name: str) -> Tensor:
        if self.kind in ("FLOAT32", "HYBRID"):
            return replace(tensor(shape, name=name), variable=True)
        if self.kind == "INT16":
            scale = 2.0**-15 if name == "h" else 2.0**self.form.power
            return replace(tensor(shape, "INT16", scale, name=name), variable=True)
        quant = (1 / 128, 3) if name == "h" else (2.0**self.form.power, 0)
        return replace(tensor(shape, "INT8" if name == "h" else "INT16", *quant, name=name), variable=True)

    def intermediates(self) -> tuple[Tensor, ...]:
        sums = (tensor((0,), "INT16", 2.0**-12 * (1 + i / 8), name=f"i{i}") for i in range(4))
        return (*sums, tensor((0,), "INT8", 1 / 100, 5, name="i4"))


def _fill(inputs: list[Tensor | None], gate: Gate, form: Form, tensors: _Tensors) -> None:
    size, units = form.sizes[2:]
    outputs = form.outputs or units
    inputs[gate.weights] = tensors.weights((units, size))
    inputs[gate.recurrent] = tensors.weights((units,) if "diagonal" in form.flags else (units, outputs))
    inputs[gate.bias] = tensors.bias(units, 2_000_000 if "norm" in form.flags else 2000)
    if "peephole" in form.flags and gate.peephole is not None:
        inputs[gate.peephole] = tensors.peephole(units)
    if "norm" in form.flags and gate.norm is not None:
        inputs[gate.norm] = tensors.norm(units)


def case(rng: np.random.Generator, form: Form) -> Case:
    batches, steps, size, units = form.sizes
    tensors, outputs = _Tensors(rng, form), form.outputs or units
    layout = Layout(batches, steps, bool(form.options.get("time_major")), flat=form.op == "LSTM")
    inputs: list[Tensor | None] = [None] * 24
    of_x, of_y = _VALUES.get(form.kind, ({}, {}))
    x = tensor(layout.shape(size), **of_x, name="x")
    inputs[0] = x
    for i, gate in enumerate(Lstm(Node(form.op, (x,), ()), Places(norm=20), layout).gates):
        if i != 1 or "coupled" not in form.flags:
            _fill(inputs, gate, form, tensors)
    if form.outputs:
        inputs[16] = tensors.weights((outputs, units))
        inputs[17] = None if "no_bias" in form.flags else tensors.bias(outputs)
    inputs[18], inputs[19] = tensors.state((batches, outputs), "h"), tensors.state((batches, units), "c")
    y = tensor(layout.shape(outputs), **of_y, name="y")
    settings = {"fused_activation_function": "TANH", "cell_clip": form.clip, "proj_clip": 0.0, **form.options}
    if form.op == "LSTM":
        settings["kernel_type"] = "FULL"
    real = form.kind != "INT8"
    extra = {} if real or form.plain else {"intermediates": tensors.intermediates()}
    node = Node(form.op, tuple(inputs), (y,), settings, extra=extra)
    if {"peephole"} <= form.flags and not real and form.outputs not in (0, units):
        return Case(node, oracle="none", why=PEEPHOLE_FAULT)
    return Case(node, oracle="tflm" if form.plain else "litert", tolerance=TOLERANCE[form.kind])


#: Options of LSTMs that LiteRT alone takes: outputs of a projection, flags, options.
OPTIONS: tuple[tuple[int, str, dict[str, Any]], ...] = (
    (4, "", {}),
    (9, "no_bias", {"proj_clip": 0.25}),
    (0, "coupled", {"asymmetric_quantize_inputs": True}),
    (0, "peephole", {"cell_clip": 0.5}),
    (0, "norm", {"asymmetric_quantize_inputs": True}),
    (6, "coupled peephole norm", {"proj_clip": 0.5}),
    (5, "peephole norm", {"asymmetric_quantize_inputs": True}),
)


def forms(op: str, steps: int) -> Iterator[Form]:
    """Every kind with every option, batch by batch and, where there is time, in turn."""
    for kind in ("FLOAT32", "HYBRID", "INT8"):
        for i, (outputs, flags, options) in enumerate(OPTIONS):
            turned = {} if op == "LSTM" else {"time_major": i % 2 == 1}
            yield Form(kind, (1 + i % 3, steps, 5, 6), 0.0, outputs, frozenset(flags.split()), op, options | turned)
