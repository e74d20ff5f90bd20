"""LSTM's basic kernel: five inputs, four outputs. Source: LiteRT lstm.cc, basic::Eval; reference_ops::LstmCell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.runtime.fixed_point import multiply_high, quantize_multiplier, round_shift, wrap32
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Shape, need, need_type, tensor, unsupported
from twinfer.runtime.ops.core.activation import FLOAT_MAX
from twinfer.runtime.ops.core.gemmlowp16 import logistic, tanh
from twinfer.runtime.ops.core.quantized import need_fixed_quant, need_quant
from twinfer.runtime.ops.recurrent._sequences import need_shape, need_state, products
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call

#: Types of x, hidden state, weights, bias and cell, and of the outputs, for both kinds.
_INPUTS = {"FLOAT32": ("FLOAT32",) * 5, "UINT8": ("UINT8", "UINT8", "UINT8", "INT32", "INT16")}
_OUTPUTS = {"FLOAT32": ("FLOAT32",) * 4, "UINT8": ("UINT8", "INT16", "UINT8", "INT16")}


def infer(node: Node) -> list[Shape]:
    """Shapes of the hidden state, the cell, the joined values and the gates' sums."""
    x, hidden, weights, bias, cell = (node.input(i) for i in range(5))
    need(len(node.inputs) == 5 and len(node.outputs) == 4, node, "a basic LSTM has 5 inputs and 4 outputs")
    need(len(x.shape) == len(hidden.shape) == 2, node, f"{x} and {hidden} must have two dimensions")
    need_type(node, x, *_INPUTS)
    types = (*_INPUTS[x.type], *_OUTPUTS[x.type])
    for value, type in zip((x, hidden, weights, bias, cell, *node.outputs), types, strict=True):
        need_type(node, value, type)
    (batches, size), units = x.shape, hidden.shape[1]
    need_shape(node, hidden, batches, units)
    need_shape(node, weights, 4 * units, size + units)
    need_shape(node, bias, 4 * units)
    need_shape(node, cell, batches, units)
    need_state(node, hidden, batches * units)
    need_state(node, cell, batches * units)
    if x.type == "UINT8":
        _check_quant(node)
    return [hidden.shape, cell.shape, (batches, size + units), (batches, 4 * units)]


def _check_quant(node: Node) -> None:
    """The kernel has fixed scales for all values; only weights are free."""
    x, hidden, weights, bias, cell = (node.input(i) for i in range(5))
    for value in (x, hidden, node.outputs[0]):
        need_fixed_quant(node, value, 128, 128)
    for value in (cell, node.outputs[1]):
        need_fixed_quant(node, value, 2048, 0)
    need_quant(node, weights, bias)
    if 4096 * bias.scale >= 2.0**30:
        raise unsupported(node, f"{bias} has a scale that no multiplier reaches")


def _step_float(node: Node, joined: Array, cell: Array, inputs: list[Any]) -> tuple[Array, Array, Array]:
    sums = (products(joined, inputs[2]) + inputs[3]).clip(-FLOAT_MAX, FLOAT_MAX)
    take, new, forget, give = np.split(sums, 4, axis=1)
    with np.errstate(over="ignore"):
        take, forget, give = (1 / (1 + np.exp(-gate)) for gate in (take, forget, give))
    cell = np.tanh(new) * take + cell * forget
    return np.tanh(cell) * give, cell, sums


def _times(a: Array, b: Array) -> Array:
    return np.asarray((a * b + (1 << 14)) >> 15)


def _step_uint8(node: Node, joined: Array, cell: Array, inputs: list[Any]) -> tuple[Array, Array, Array]:
    weights = inputs[2].astype(np.int64) - node.input(2).zero
    sums = wrap32((joined.astype(np.int64) - 128) @ weights.T + inputs[3])
    sums = _requantize(sums, *_scale(node)).clip(-32768, 32767)
    take, new, forget, give = np.split(sums, 4, axis=1)
    added = round_shift(_times(logistic(take, 3), tanh(new, 3)), 4)
    cell = (added + _times(logistic(forget, 3), cell.astype(np.int64))).clip(-32768, 32767)
    seen = tanh((2 * cell).clip(-32768, 32767), 3)
    shown = round_shift(_times(logistic(give, 3), seen), 8).clip(-128, 127) + 128
    return shown, cell, sums


def _requantize(x: Array, mult: int, shift: int) -> Array:
    """x * mult * 2**(shift - 31), rounded twice, both times half up: ruy's way, where gemmlowp's is half away."""
    left, right = max(shift, 0), max(-shift, 0)
    return np.asarray((multiply_high(wrap32(x << left), mult) + (1 << right >> 1)) >> right)


def _scale(node: Node) -> tuple[int, int]:
    return quantize_multiplier(4096 * node.input(3).scale)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    joined = np.concatenate([inputs[0], inputs[1]], axis=1)
    step = _step_float if node.input(0).type == "FLOAT32" else _step_uint8
    hidden, cell, sums = step(node, joined, inputs[4], inputs)
    return [value.astype(y.dtype) for value, y in zip((hidden, cell, joined, sums), node.outputs, strict=True)]


def lower(node: Node) -> Call:
    x, hidden = node.input(0), node.input(1)
    params: dict[str, Param] = {"batches": x.shape[0], "size": x.shape[1], "units": hidden.shape[1]}
    inputs, outputs = (x, node.input(2), node.input(3)), (*node.outputs, hidden, node.input(4))
    macs = x.shape[0] * node.input(2).size
    if x.type == "FLOAT32":
        return Call("tw_lstm_basic_f32", params, inputs, outputs, macs=macs)
    mult, shift = _scale(node)
    params |= {"weights_zero": node.input(2).zero, "mult": mult, "shift": shift}
    return Call("tw_lstm_basic_u8", params, inputs, outputs, macs=macs)


def _case(rng: np.random.Generator, kind: str, batches: int, size: int, units: int) -> Case:
    real, shape = kind == "FLOAT32", (4 * units, size + units)
    value: dict[str, Any] = {"type": kind} if real else {"type": kind, "scale": 1 / 128, "zero": 128}
    cell: dict[str, Any] = {"type": kind} if real else {"type": "INT16", "scale": 2.0**-11}
    w = rng.standard_normal(shape) if real else rng.integers(0, 256, shape)
    weights = tensor(shape, kind, None if real else 0.01, 0 if real else 120, data=w, name="w")
    b = rng.standard_normal(4 * units) if real else rng.integers(-9000, 9000, 4 * units)
    of_bias: dict[str, Any] = {} if real else {"type": "INT32", "scale": 0.01 / 128}
    bias = tensor((4 * units,), **of_bias, data=b, name="b")
    ins = (
        tensor((batches, size), **value, name="x"),
        replace(tensor((batches, units), **value, name="h"), variable=True),
        weights,
        bias,
        replace(tensor((batches, units), **cell, name="c"), variable=True),
    )
    sums: dict[str, Any] = {} if real else {"type": "INT16", "scale": 2.0**-12}
    outs = (
        tensor((batches, units), **value, name="y"),
        tensor((batches, units), **cell, name="state"),
        tensor((batches, size + units), **value, name="joined"),
        tensor((batches, 4 * units), **sums, name="sums"),
    )
    options = {"fused_activation_function": "TANH", "cell_clip": 0.0, "proj_clip": 0.0, "kernel_type": "BASIC"}
    return Case(Node("LSTM", ins, outs, options), oracle="litert", tolerance=1e-5 if real else 0.0)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for kind in _INPUTS:
        yield _case(rng, kind, 1, 3, 4)
        yield _case(rng, kind, 3, 9, 7)
