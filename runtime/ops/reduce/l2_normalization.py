"""L2_NORMALIZATION: x over the root of the sum of its squares, along the last dimension."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.fixed_point import requantize
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, tensor, unsupported
from twinfer.runtime.ops.core.axis import last_axis, normalized
from twinfer.runtime.ops.core.gemmlowp import inverse_root
from twinfer.runtime.ops.core.quantized import need_fixed_quant, need_quant
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

#: Most int8 values whose sum of squares is sure to fit int32.
_LONGEST = (1 << 31) // 255**2


def infer(node: Node) -> list[Shape]:
    x, y = normalized(node, "FLOAT32", "INT8")
    if node.options.get("fused_activation_function", "NONE") != "NONE":
        raise unsupported(node, "it has no fused activation in TFLite: take it apart")
    if x.type == "INT8":
        need_quant(node, x, y)
        need_fixed_quant(node, y, 128, 0)
        if x.shape[-1] > _LONGEST:
            raise unsupported(node, f"the squares of {x} may not fit int32: {_LONGEST} in a row are the limit")
    return [x.shape]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Source: TFLM reference L2Normalization, of floats and of int8."""
    (x,) = inputs
    if x.dtype == np.float32:
        norm = np.sqrt(np.square(x).sum(axis=-1, keepdims=True))
        return [x / np.maximum(norm, np.float32(1e-6))]
    rows = x.reshape(-1, x.shape[-1]).astype(np.int64) - node.input(0).zero
    mult, right = inverse_root(np.square(rows).sum(axis=1, keepdims=True))
    return [np.clip(requantize(rows, mult, 7 - right), -128, 127).astype(np.int8).reshape(x.shape)]


def lower(node: Node, target: Target) -> Call:
    x = node.input(0)
    params: dict[str, Param] = {"axis": last_axis(x.shape)}
    if x.type == "FLOAT32":
        return Call("tw_l2_normalization_f32", params, (x,), (node.output,), inplace=(0,))
    return Call("tw_l2_normalization_s8", params | {"zero": x.zero}, (x,), (node.output,), inplace=(0,))


def cases(rng: np.random.Generator) -> Iterator[Case]:
    options = {"fused_activation_function": "NONE"}
    for shape in ((1, 1), (3, 7), (2, 3, 4, 33), (1, 10000)):
        x, y = tensor(shape), tensor(shape, name="y")
        yield Case(Node("L2_NORMALIZATION", (x,), (y,), options), tolerance=1e-6)
        for zero in (0, -128, 3, 127):
            x, y = tensor(shape, "INT8", 0.05, zero), tensor(shape, "INT8", 1 / 128, 0, name="y")
            yield Case(Node("L2_NORMALIZATION", (x,), (y,), options))
    small = rng.integers(-2, 3, (40, 3)).astype(np.int8)
    x, y = tensor((40, 3), "INT8", 0.05, 0), tensor((40, 3), "INT8", 1 / 128, 0, name="y")
    yield Case(Node("L2_NORMALIZATION", (x,), (y,), options), (small,))
    zeros = (np.zeros((2, 3), np.float32),)
    yield Case(Node("L2_NORMALIZATION", (tensor((2, 3)),), (tensor((2, 3), name="y"),), options), zeros)


OP = Op("L2_NORMALIZATION", infer, reference, lower, cases)
