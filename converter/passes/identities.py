"""Operators that pass their input on unchanged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.facts import Moves
from twinfer.converter.passes._rewrite import Change, View, bypass, rewrite, scalar, works
from twinfer.converter.table import row_of
from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.registry import operator
from twinfer.runtime.shapes import is_open

#: Where the pipeline runs the pass (``passes/__init__.py``).
PLACES = (30, 140)

#: All int8 and int16 values, in order.
_8_BITS = np.arange(-128, 128).astype(np.int8)
_16_BITS = np.arange(-(1 << 15), 1 << 15).astype(np.int16)


def identities(graph: Graph) -> Graph:
    """Leaves out operators that change nothing: moves that move nothing, CAST to the same type, x * 1, x + 0, and
    DEQUANTIZE with QUANTIZE behind it if the integers stay the same.

    Quantised element-wise operators go where all values of the type come out as they went in.
    """
    return rewrite(graph, _pass_on)


def _pass_on(view: View, node: Node) -> Change | None:
    if len(node.outputs) != 1 or any(t is not None and is_open(t) for t in (*node.inputs, *node.outputs)):
        return None
    for source in dict.fromkeys(t for t in node.inputs if t is not None):
        unlike = source.type != node.output.type or source.shape != node.output.shape
        if not unlike and same_steps(source, node.output) and _unchanged(node, node.inputs.index(source)):
            return bypass(view, node, source, node.output)
    return _there_and_back(view, node)


def same_steps(a: Tensor, b: Tensor) -> bool:
    """Whether the same integers stand for the same numbers."""
    return a.quant == b.quant or (a.dtype.kind not in "iu" and not (a.quant or b.quant))


def _unchanged(node: Node, i: int) -> bool:
    if node.options.get("fused_activation_function", "NONE") != "NONE" and node.output.type != "INT8":
        return False
    if node.op == "TRANSPOSE":
        order = node.input(1).data
        return i == 0 and order is not None and bool((order.reshape(-1) == np.arange(order.size)).all())
    if node.op == "STRIDED_SLICE":  # of the input's shape: all of it, unless it runs backwards or renames dimensions
        steps = node.input(3).data
        masks = ("new_axis_mask", "shrink_axis_mask", "ellipsis_mask", "offset")
        plain = steps is not None and bool((steps == 1).all()) and not any(node.options.get(mask) for mask in masks)
        return i == 0 and plain
    row = row_of(node)
    if row.moves in (Moves.RESHAPES, Moves.KEEPS_PLACES) or node.op == "CAST":
        known = all(t is None or t.data is not None for j, t in enumerate(node.inputs) if j != i)
        return row.first == i and known
    if row.elementwise and node.output.type == "INT8":
        table = _steps_table(node, i)
        return table is not None and bool((table == _8_BITS).all())
    # x + 0, 0 + x, x - 0, x * 1, 1 * x, x / 1 without quantisation.
    number = scalar(node.optional(1 - i)) if len(node.inputs) == 2 and node.output.quant is None else None
    either, first = {"ADD": 0.0, "MUL": 1.0}, {"SUB": 0.0, "DIV": 1.0}
    return number is not None and number in (either.get(node.op), first.get(node.op) if i == 0 else None)


def _steps_table(node: Node, of: int = 0) -> NDArray[Any] | None:
    """The outputs of an element-wise int8 operator for every value of input ``of``, by its reference: int8 [256].

    None where it is no such operator, or another input is not one constant number. This proves rules for int8.
    """
    x, y = node.input(of), node.output
    if (x.type, y.type) != ("INT8", "INT8"):
        return None
    inputs = [replace(x, shape=(256,), data=None)] * len(node.inputs)
    for i, tensor in enumerate(node.inputs):
        if i != of:
            if tensor is None or scalar(tensor) is None:
                return None
            inputs[i] = replace(tensor, shape=(1,), data=np.asarray(tensor.data).reshape(-1)[:1])
    single = replace(node, inputs=tuple(inputs), outputs=(replace(y, shape=(256,)),))
    if not works(single):
        return None
    values = [_8_BITS if t.data is None else t.data for t in inputs]
    table: NDArray[Any] = operator(single).reference(single, values)[0]
    return table


def _there_and_back(view: View, node: Node) -> Change | None:
    """QUANTIZE(DEQUANTIZE(q)) where every integer comes back."""
    back = view.producer(node.input(0), "DEQUANTIZE") if node.op == "QUANTIZE" else None
    if back is None:
        return None
    source, target = back.input(0), node.output
    every = {"INT8": _8_BITS, "INT16": _16_BITS}.get(source.type)
    if every is None or source.type != target.type or source.quant != target.quant or source.variable:
        return None
    if source.quant is None or source.quant.per_channel:
        return None
    real = operator(back).reference(back, [every])[0]
    same = (operator(node).reference(node, [real])[0] == every).all()
    return bypass(view, node, source, target) if same else None
