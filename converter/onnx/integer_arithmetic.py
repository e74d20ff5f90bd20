"""Operators that compute from dequantised inputs to a quantised output, in integers by the scales given."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinfer.converter.facts import Parameters
from twinfer.converter.onnx.integer_ends import alike, only_entry, stored
from twinfer.converter.passes._rewrite import Change, View
from twinfer.converter.table import row_of
from twinfer.runtime.graph import EMPTY, Node, Quant, Tensor


def arithmetic(view: View, node: Node) -> Change | None:
    """The operator on integers, with the output of the QUANTIZE that alone reads its floats."""
    row, entry = row_of(node), only_entry(view, node)
    if entry is None or entry.output.type != "INT8" or not row.scales.imported or row.moves is not None:
        return None
    parameters = row.parameters
    nodes = _plain(view, node, entry.output) if parameters is None else _layer(view, node, parameters, entry.output)
    return None if nodes is None else Change((node, entry), nodes, first=True)


def _plain(view: View, node: Node, y: Tensor) -> tuple[Node, ...] | None:
    """An operator without weights; None if a scale is missing, or if inputs differ that need the same one."""
    row = row_of(node)
    sources = {i: _source(view, t) for i, t in enumerate(node.inputs) if t is not None and t.type == "FLOAT32"}
    if any(t is None or t.type != "INT8" or t.quant is None or t.quant.per_channel for t in sources.values()):
        return None
    inputs = tuple(sources.get(i, t) for i, t in enumerate(node.inputs))
    if row.scales.fixed8 is not None:
        return _requantized(node, inputs, Quant.per_tensor(*row.scales.fixed8), y)
    if row.clamps or not row.scales.same:
        return (replace(node, inputs=inputs, outputs=(y,)),)
    first = next((t for t in sources.values() if t is not None), None)
    one_scale = first is not None and all(t is not None and alike(first, t, 0) for t in sources.values())
    return _requantized(node, inputs, first.quant, y) if first is not None and one_scale else None


def _integers(view: View, tensor: Tensor | None) -> Tensor | None:
    """The integers behind a tensor that DEQUANTIZE gives."""
    left = view.producer(tensor, "DEQUANTIZE")
    return None if left is None else left.input(0)


def _source(view: View, tensor: Tensor | None) -> Tensor | None:
    """The integers behind a float tensor or constant."""
    return None if tensor is None else _integers(view, tensor) or stored(tensor)


def _requantized(node: Node, inputs: tuple[Tensor | None, ...], quant: Quant | None, y: Tensor) -> tuple[Node, ...]:
    """The operator with the quantisation that it must have, and the result's after it."""
    if quant == y.quant:
        return (replace(node, inputs=inputs, outputs=(y,)),)
    between = replace(node.output, name=f"{node.output.name}_quantized", type="INT8", quant=quant)
    return replace(node, inputs=inputs, outputs=(between,)), Node("QUANTIZE", (between,), (y,))


def _layer(view: View, node: Node, at: Parameters, y: Tensor) -> tuple[Node, ...] | None:
    """An operator with weights and bias; None if a scale is missing, or if kernels do not take it."""
    first = row_of(node).first
    x, w = _integers(view, node.input(first)), stored(node.input(at.weights))
    if x is None or w is None or (x.type, w.type) != ("INT8", "INT8") or w.quant is None or w.quant.zero_point.any():
        return None
    if w.quant.per_channel and w.quant.axis != at.axis:
        return None
    inputs = [*node.inputs]
    inputs[first], inputs[at.weights] = x, w
    sums = Quant(np.float32(x.scale) * w.quant.scale, np.zeros(w.quant.scale.size, np.int64))
    if not _set_bias(inputs, at, sums):
        return None
    return (replace(node, inputs=tuple(inputs), outputs=(y,)),)


def _set_bias(inputs: list[Tensor | None], at: Parameters, sums: Quant) -> bool:
    """Puts an integer bias into ``inputs``, None where there is no bias; whether that could be done."""
    if at.bias is None:
        return True
    inputs += [None] * (at.bias + 1 - len(inputs))
    bias = inputs[at.bias]
    inputs[at.bias] = _integer_bias(bias, sums)
    return bias is None or inputs[at.bias] is not None


def _in_steps_of(quant: Quant | None, sums: Quant) -> bool:
    """Whether the bias is in steps of the sums, but for the rounding of the product of two scales."""
    if quant is None or quant.zero_point.any() or quant.scale.size not in (1, sums.scale.size):
        return False
    return np.allclose(quant.scale, sums.scale, rtol=1e-5, atol=0)


def _integer_bias(bias: Tensor | None, sums: Quant) -> Tensor | None:
    """The bias in steps of the sums: its own integers if they are in these steps, else rounded."""
    if bias is None or bias.data is None:
        return None
    own = stored(bias)
    if own is not None and own.type == "INT32" and _in_steps_of(own.quant, sums):
        return replace(own, quant=sums)
    steps = np.rint(bias.data.astype(np.float64) / sums.scale.astype(np.float64))
    limits = np.iinfo(np.int32)
    data = steps.clip(limits.min, limits.max).astype(np.int32)
    return replace(bias, name=f"{bias.name}_quantized", type="INT32", quant=sums, data=data, extra=EMPTY)
