"""A graph as an ONNX model in QDQ form, for onnxruntime: what each operator is in ONNX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.bench.models.qdq import Value, Writer, need_types, order, other_sign
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Graph, Node
from twinfer.runtime.ops.conv import _layer
from twinfer.runtime.ops.core.activation import RANGES
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.ops.move import pad
from twinfer.runtime.ops.move._move import indices
from twinfer.runtime.ops.pool import pool_2d
from twinfer.runtime.ops.reduce._reduce import axes_of


def onnx_graph(graph: Graph) -> bytes:
    """The file of an ONNX model that computes as the graph does, but for roundings.

    Integers at its ends are 128 more than the graph's. ToolError names an operator or a type that is left out.
    """
    need_types("the model", (*graph.inputs, *graph.outputs))
    writer = Writer()
    writer.begin(graph.inputs)
    for node in graph.nodes:
        _write(writer, node)
    return writer.finish(graph)


def _write(writer: Writer, node: Node) -> None:
    if node.op not in _REAL and node.op not in _MOVED:
        raise ToolError(f"no ONNX file is made of {node}")
    operands = [node.input(i) for i in range(_OPERANDS.get(node.op, 1))]
    need_types(node, (*operands, node.output))
    if len({tensor.type for tensor in operands}) > 1:
        raise ToolError(f"no ONNX file is made of {node} over two types: {', '.join(map(str, operands))}")
    if node.op in RANGES:
        node = replace(node, options={"fused_activation_function": node.op})
    if node.op in _MOVED:
        writer.values[node.output] = _MOVED[node.op](writer, node)
    else:
        writer.store(node, _REAL[node.op](writer, node))


# -- layers over windows -----------------------------------------------------------------------------------------------


def _convolution(writer: Writer, node: Node) -> Value:
    g, x = _layer.geometry(node), writer.real(node.input(0))
    axes = (3, 0, 1, 2) if node.op == "DEPTHWISE_CONV_2D" else (0, 3, 1, 2)
    weights = node.constant(1).transpose(axes)  # [out_c, in_c / groups, k_h, k_w]
    how = _windows(g) | {"group": g.in_c // weights.shape[1], "dilations": (g.dilation_h, g.dilation_w)}
    return Value(writer.add("Conv", x.name, *writer.parameters(node, weights, 0), **how), g.shape)


def _pool(writer: Writer, node: Node) -> Value:
    g, x = pool_2d.geometry(node), writer.real(node.input(0))
    average = node.op == "AVERAGE_POOL_2D"
    if average and (g.out_h, g.out_w, g.pad_h, g.pad_w) == (1, 1, 0, 0) and (g.k_h, g.k_w) == (g.in_h, g.in_w):
        return Value(writer.add("GlobalAveragePool", x.name), g.shape)
    return Value(writer.add("AveragePool" if average else "MaxPool", x.name, **_windows(g)), g.shape)


def _windows(g: Window) -> dict[str, Any]:
    reach_h, reach_w = (g.k_h - 1) * g.dilation_h + 1, (g.k_w - 1) * g.dilation_w + 1
    behind_h = max(0, (g.out_h - 1) * g.stride_h + reach_h - g.in_h - g.pad_h)
    behind_w = max(0, (g.out_w - 1) * g.stride_w + reach_w - g.in_w - g.pad_w)
    pads = (g.pad_h, g.pad_w, behind_h, behind_w)
    return {"kernel_shape": (g.k_h, g.k_w), "strides": (g.stride_h, g.stride_w), "pads": pads}


# -- other arithmetic --------------------------------------------------------------------------------------------------


def _fully_connected(writer: Writer, node: Node) -> Value:
    weights = node.constant(1).T
    shape = (node.input(0).size // len(weights), len(weights))
    name = writer.add("Gemm", writer.real(node.input(0), shape).name, *writer.parameters(node, weights, 1))
    return Value(name, (shape[0], weights.shape[1]))


def _add(writer: Writer, node: Node) -> Value:
    """Broadcasting goes by TFLite's dimensions, so that both operands need as many as the output."""
    shape, names = node.output.shape, []
    for tensor in (node.input(0), node.input(1)):
        ones = (1,) * (len(shape) - len(tensor.shape))
        names.append(writer.real(tensor, ones + tensor.shape).name)
    return Value(writer.add("Add", *names), shape)


def _mean(writer: Writer, node: Node) -> Value:
    """onnxruntime has no ReduceMean over integers, but a pool over whole images."""
    x, axes = writer.real(node.input(0)), axes_of(node)
    shape = tuple(1 if i in axes else size for i, size in enumerate(x.shape))
    if len(shape) == 4 and axes == (1, 2):
        return Value(writer.add("GlobalAveragePool", x.name), shape)
    places = [place for place, axis in enumerate(order(len(shape))) if axis in axes]
    return Value(writer.add("ReduceMean", x.name, axes=places), shape)


def _softmax(writer: Writer, node: Node) -> Value:
    x, beta = writer.real(node.input(0)), float(node.options.get("beta", 1.0))
    rank = len(x.shape)
    name = x.name if beta == 1 else writer.add("Mul", x.name, writer.constant(np.array(beta, np.float32)))
    return Value(writer.add("Softmax", name, axis=order(rank).index(rank - 1)), x.shape)


def _same(writer: Writer, node: Node) -> Value:
    """All that happens is a change of type or quantisation, or the bounds of an activation."""
    return writer.real(node.input(0))


# -- values that move --------------------------------------------------------------------------------------------------


def _pad(writer: Writer, node: Node) -> Value:
    x, flat = writer.stored(node.input(0)), indices(node, 1)
    before, behind = ([flat[2 * axis + side] for axis in order(len(x.shape))] for side in (0, 1))
    pads = writer.constant(np.array(before + behind, np.int64))
    value = writer.constant(other_sign(pad.zero_of(node)).reshape(()))
    return Value(writer.add("Pad", x.name, pads, value), node.output.shape)


def _reshape(writer: Writer, node: Node) -> Value:
    return writer.reshaped(writer.stored(node.input(0)), node.output.shape)


_Rule = Callable[[Writer, Node], Value]

#: Operators whose result is a real number, which is then quantised where the output is.
_REAL: dict[str, _Rule] = {
    "ADD": _add,
    "AVERAGE_POOL_2D": _pool,
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _convolution,
    "DEQUANTIZE": _same,
    "FULLY_CONNECTED": _fully_connected,
    "MAX_POOL_2D": _pool,
    "MEAN": _mean,
    "QUANTIZE": _same,
    "RELU": _same,
    "RELU6": _same,
    "SOFTMAX": _softmax,
}

#: Operators that hand on what is stored.
_MOVED: dict[str, _Rule] = {"PAD": _pad, "RESHAPE": _reshape}

#: How many inputs are of the operator's type, where that is not one.
_OPERANDS = {"ADD": 2, "CONV_2D": 2, "DEPTHWISE_CONV_2D": 2, "FULLY_CONNECTED": 2}
