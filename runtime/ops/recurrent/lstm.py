"""UNIDIRECTIONAL_SEQUENCE_LSTM with four gates, float32 or int8; no peepholes, projection or layer normalisation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.runtime.constant import table
from twinfer.runtime.fixed_point import quantize_multiplier, requantize, wrap32
from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor, unsupported
from twinfer.runtime.ops.core.quantized import need_quant
from twinfer.runtime.ops.elementwise import _sigmoid
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

#: Positions of inputs: weights, recurrent weights and bias per gate (forget, input, cell, output).
GATES = ((2, 6, 13), (1, 5, 12), (3, 7, 14), (4, 8, 15))
HIDDEN, CELL = 18, 19

#: Positions of inputs that no kernel takes.
OTHERS = {"peepholes": (9, 10, 11), "a projection": (16, 17), "layer normalisation": (20, 21, 22, 23)}

#: Scales of sums (12 fractional bits) and of gates' outputs (15).
_SUM, _GATE = 2.0**-12, 2.0**-15


def infer(node: Node) -> list[Shape]:
    need(len(node.inputs) in (20, 24), node, f"it has {len(node.inputs)} inputs, not 20 or 24")
    for what, positions in OTHERS.items():
        if any(node.optional(i) is not None for i in positions):
            raise unsupported(node, f"an LSTM with {what} has no kernel")
    for i in (0, *(i for gate in GATES for i in gate), HIDDEN, CELL):
        if node.optional(i) is None:
            raise unsupported(node, f"input {i} is absent: only LSTMs with four gates and biases have a kernel")
    if node.options.get("fused_activation_function", "TANH") != "TANH":
        raise unsupported(node, "the activation of an LSTM must be TANH")
    _check_types(node)
    return [_check_shapes(node)]


def _check_types(node: Node) -> None:
    x, hidden, cell, y = node.input(0), node.input(HIDDEN), node.input(CELL), node.output
    need_type(node, x, "FLOAT32", "INT8")
    real = x.type == "FLOAT32"
    need(hidden.variable and cell.variable, node, f"{hidden} and {cell} must be variables")
    need_type(node, hidden, x.type)
    need_type(node, y, x.type)
    need_type(node, cell, "FLOAT32" if real else "INT16")
    for w, r, b in GATES:
        need_type(node, node.input(w), x.type)
        need_type(node, node.input(r), x.type)
        need_type(node, node.input(b), "FLOAT32" if real else "INT32")
    need(float(node.options.get("cell_clip", 0.0)) >= 0, node, "cell_clip must not be negative")
    if real:
        return
    weights = [node.input(i) for w, r, _ in GATES for i in (w, r)]
    need_quant(node, x, hidden, cell, y, *weights)
    need(not any(w.zero for w in weights) and cell.zero == 0, node, "weights and cell must have zero points of 0")
    need((hidden.scale, hidden.zero) == (y.scale, y.zero), node, f"{hidden} and {y} must be quantised alike")
    if math.frexp(cell.scale)[0] != 0.5 or not _SUM <= cell.scale <= 2.0**-4:
        raise unsupported(node, f"{cell} must have a power of 2 from 2**-12 to 2**-4 as its scale")


def _sizes(node: Node) -> tuple[int, int, int, int]:
    """Batches, steps, values of an input, units."""
    first, second, size = node.input(0).shape
    batches, steps = (second, first) if node.options.get("time_major") else (first, second)
    return batches, steps, size, node.input(GATES[0][1]).shape[0]


def _check_shapes(node: Node) -> Shape:
    x = node.input(0)
    need(len(x.shape) == 3, node, f"{x} must have three dimensions")
    batches, _, size, units = _sizes(node)
    for w, r, b in GATES:
        fits = [node.input(i).shape for i in (w, r, b)] == [(units, size), (units, units), (units,)]
        need(
            fits,
            node,
            f"{node.input(w)}, {node.input(r)} and {node.input(b)} do not fit a gate of {units} units over {x}",
        )
    for state in (node.input(HIDDEN), node.input(CELL)):
        need(state.size == batches * units, node, f"{state} must have {batches * units} elements")
    return (*x.shape[:2], units)


def _clip(node: Node) -> float:
    clip = float(node.options.get("cell_clip", 0.0))
    return clip if node.input(0).type == "FLOAT32" else int(min(clip / node.input(CELL).scale, 32767.0))


def _clamp16(x: Array) -> Array:
    return np.clip(x, -(1 << 15), (1 << 15) - 1)


def _products(node: Node) -> dict[str, tuple[int, int]]:
    """Multipliers of the three products. Source: TFLM lstm_eval_common.cc, PrepareGateParametersInteger."""
    cell, hidden = node.input(CELL).scale, node.input(HIDDEN).scale
    reals = {"keep": _GATE * cell / cell, "add": _GATE * _GATE / cell, "give": _GATE * _GATE / hidden}
    return {name: quantize_multiplier(real) for name, real in reals.items()}


def _left(node: Node) -> int:
    """How far to shift cells left so that they have the 12 fractional bits that tanh takes."""
    return 12 + math.frexp(node.input(CELL).scale)[1] - 1


def _step_int8(node: Node, x: Array, hidden: Array, cell: Array, inputs: list[Any]) -> tuple[Array, Array]:
    """Hidden state and cell after one step of all batches. Source: TFLM lstm_eval.h, LstmStep."""
    gates = []
    for (w, r, b), (of_x, of_h) in zip(GATES, _multipliers(node), strict=True):
        sums = (x - node.input(0).zero) @ inputs[w].astype(np.int64).T + inputs[b]
        more = (hidden - node.input(HIDDEN).zero) @ inputs[r].astype(np.int64).T
        gates.append(_clamp16(_clamp16(requantize(wrap32(sums), *of_x)) + _clamp16(requantize(wrap32(more), *of_h))))
    forget, take, give = (_sigmoid.logistic(3 * gates[i]) for i in (0, 1, 3))
    by = _products(node)
    kept = _clamp16(requantize(forget * cell, *by["keep"]))
    added = _clamp16(requantize(take * _sigmoid.tanh(3 * gates[2]), *by["add"]))
    cell, clip = _clamp16(kept + added), _clip(node)
    cell = np.clip(cell, -clip, clip) if clip > 0 else cell
    shown = requantize(_sigmoid.tanh(cell * (3 << _left(node))) * give, *by["give"]) + node.input(HIDDEN).zero
    return np.clip(shown, -128, 127), cell


def _step_float(node: Node, x: Array, hidden: Array, cell: Array, inputs: list[Any]) -> tuple[Array, Array]:
    forget, take, new, give = (x @ inputs[w].T + inputs[b] + hidden @ inputs[r].T for w, r, b in GATES)
    cell = cell / (1 + np.exp(-forget)) + np.tanh(new) / (1 + np.exp(-take))
    clip = _clip(node)
    cell = np.clip(cell, -clip, clip) if clip > 0 else cell
    return np.tanh(cell) / (1 + np.exp(-give)), cell


def _run(node: Node, inputs: list[Any]) -> Iterator[tuple[Array, Array]]:
    """Hidden state and cell, [batches, units], after every step; the first step starts from ``inputs``."""
    batches, _, _, units = _sizes(node)
    real = inputs[0].dtype == np.float32
    wide = np.float64 if real else np.int64
    x = inputs[0].astype(wide)
    hidden, cell = (inputs[i].reshape(batches, units).astype(wide) for i in (HIDDEN, CELL))
    for values in x if node.options.get("time_major") else x.swapaxes(0, 1):
        hidden, cell = (_step_float if real else _step_int8)(node, values, hidden, cell, inputs)
        yield hidden, cell


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """The outputs; the first step starts from the states in ``inputs``."""
    shown = np.array([hidden for hidden, _ in _run(node, inputs)]).astype(inputs[0].dtype)
    return [shown if node.options.get("time_major") else np.ascontiguousarray(shown.swapaxes(0, 1))]


def cells(node: Node, x: Array) -> Array:
    """The cells after every step over the input x, float32 [steps, batches, units]; states start at 0."""
    inputs: list[Any] = [
        None if t is None else np.zeros(t.shape, t.dtype) if t.variable else t.data for t in node.inputs
    ]
    inputs[0] = x
    return np.array([cell for _, cell in _run(node, inputs)], np.float32)


def _multipliers(node: Node) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Multipliers of every gate's sums over the input and over the hidden state."""
    x, hidden = node.input(0), node.input(HIDDEN)
    return [
        (
            quantize_multiplier(x.scale * node.input(w).scale / _SUM),
            quantize_multiplier(hidden.scale * node.input(r).scale / _SUM),
        )
        for w, r, _ in GATES
    ]


def lower(node: Node, target: Target) -> Call:
    batches, steps, size, units = _sizes(node)
    params: dict[str, Param] = {"batches": batches, "steps": steps, "size": size, "units": units, "clip": _clip(node)}
    for name, n in (("x", size), ("y", units)):
        outer = (n, batches * n) if node.options.get("time_major") else (steps * n, n)
        params |= {f"{name}_batch": outer[0], f"{name}_step": outer[1]}
    inputs = (node.input(0), *(node.input(i) for gate in GATES for i in gate))
    outputs = (node.output, node.input(HIDDEN), node.input(CELL))
    macs = 4 * batches * steps * units * (size + units)
    if node.input(0).type == "FLOAT32":
        return Call("tw_lstm_f32", params, inputs, outputs, 16 * units, macs=macs)
    multipliers = _multipliers(node)
    params |= {"mult": [x[0] for x, _ in multipliers], "shift": [x[1] for x, _ in multipliers]}
    params |= {"hidden_mult": [h[0] for _, h in multipliers], "hidden_shift": [h[1] for _, h in multipliers]}
    params |= {"x_zero": node.input(0).zero, "hidden_zero": node.input(HIDDEN).zero, "cell": _left(node)}
    for name, (mult, shift) in _products(node).items():
        params |= {f"{name}_mult": mult, f"{name}_shift": shift}
    return Call("tw_lstm_s8", params, (*inputs, table(_sigmoid.table())), outputs, 8 * units, macs=macs)


def _case(rng: np.random.Generator, kind: str, sizes: tuple[int, int, int, int], clip: float, **options: Any) -> Case:
    batches, steps, size, units = sizes
    real = kind == "FLOAT32"
    inputs: list[Tensor | None] = [None] * 24

    def weights(shape: Shape) -> Tensor:
        if real:
            return tensor(shape, data=rng.standard_normal(shape) / shape[-1] ** 0.5, name="w")
        return tensor(shape, kind, float(rng.uniform(0.002, 0.02)), data=rng.integers(-127, 128, shape), name="w")

    shape = (steps, batches) if options.get("time_major") else (batches, steps)
    x = tensor((*shape, size), kind, None if real else 0.02, 0 if real else -5, name="x")
    inputs[0] = x
    for w, r, b in GATES:
        inputs[w], inputs[r] = weights((units, size)), weights((units, units))
        values = rng.standard_normal(units) if real else rng.integers(-2000, 2000, units)
        inputs[b] = tensor((units,), "FLOAT32" if real else "INT32", None if real else 1e-4, data=values, name="b")
    scale, zero = (None, 0) if real else (1 / 128, 3)
    hidden = tensor((batches, units), kind, scale, zero, name="h")
    cell = tensor((batches, units), "FLOAT32" if real else "INT16", None if real else 2.0**-11, name="c")
    inputs[HIDDEN], inputs[CELL] = replace(hidden, variable=True), replace(cell, variable=True)
    y = tensor((*shape, units), kind, scale, zero, name="y")
    settings = {"fused_activation_function": "TANH", "cell_clip": clip, "proj_clip": 0.0, **options}
    return Case(Node("UNIDIRECTIONAL_SEQUENCE_LSTM", tuple(inputs), (y,), settings), tolerance=2e-6 if real else 0.0)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for kind in ("FLOAT32", "INT8"):
        yield _case(rng, kind, (1, 1, 1, 1), 10.0)
        yield _case(rng, kind, (1, 7, 5, 3), 0.0)
        yield _case(rng, kind, (2, 5, 9, 6), 1.0, time_major=True)
        yield _case(rng, kind, (3, 4, 33, 20), 10.0, time_major=False)
        yield _case(rng, kind, (1, 3, 4, 2), 1e9)


OP = Op("UNIDIRECTIONAL_SEQUENCE_LSTM", infer, reference, lower, cases)
