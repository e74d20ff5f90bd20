"""DEQUANTIZE: integers and float16 to float32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.constant import requantize
from twinfer.runtime.graph import Array, Node, Quant, Tensor
from twinfer.runtime.op import SUFFIX, Case, Op, Shape, along, need, need_type, tensor, unsupported
from twinfer.runtime.ops.core.axis import one_axis
from twinfer.runtime.ops.core.quantized import need_quant
from twinfer.runtime.program import Call
from twinfer.runtime.rows import ELEMENTS
from twinfer.runtime.target import Target


def infer(node: Node) -> list[Shape]:
    need(len(node.inputs) == 1 and len(node.outputs) == 1, node, "it needs one input and one output")
    x, y = node.input(0), node.output
    need_type(node, x, "INT8", "UINT8", "INT16", "FLOAT16")
    need_type(node, y, "FLOAT32")
    if _channels(x) is not None:
        _check_channels(node)
    elif x.type != "FLOAT16":
        need_quant(node, x)
    return [x.shape]


def _channels(x: Tensor) -> Quant | None:
    """The quantisation of ``x`` if it is per channel."""
    return x.quant if x.type != "FLOAT16" and x.quant is not None and x.quant.per_channel else None


def _check_channels(node: Node) -> None:
    x = node.input(0)
    quant = _channels(x)
    if quant is None or x.type != "INT8":
        raise unsupported(node, f"{x} is quantised per channel, which twinfer supports for INT8 only")
    need(0 <= quant.axis < len(x.shape), node, f"axis {quant.axis} is outside {x}")
    need(quant.scale.size == quant.zero_point.size == x.shape[quant.axis], node, f"{x} needs one scale per channel")
    need(bool((np.isfinite(quant.scale) & (quant.scale > 0)).all()), node, f"{x} has a scale that is not positive")
    need(bool((np.abs(quant.zero_point) <= 128).all()), node, f"{x} has a zero point outside its type")


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """TFLM reference_ops::Dequantize, LiteRT's PerChannelDequantize: scale * (x - zero) in float32."""
    x, values = node.input(0), inputs[0]
    if x.type == "FLOAT16":
        return [values.astype(np.float32)]
    if (quant := _channels(x)) is not None:
        shape = [-1 if d == quant.axis else 1 for d in range(values.ndim)]
        return [quant.scale.reshape(shape) * (values - quant.zero_point.reshape(shape)).astype(np.float32)]
    scale, zero = np.float32(x.scale), np.int64(x.zero)
    return [np.asarray(scale * (values - zero).astype(np.float32))]


def lower(node: Node, target: Target) -> Call:
    x, y = node.input(0), node.output
    if (quant := _channels(x)) is None:
        scaling = {} if x.type == "FLOAT16" else {"zero": x.zero, "scale": x.scale}
        kernel = f"tw_dequantize_{SUFFIX[x.type]}"
        return Call(kernel, {"size": y.size, **scaling}, (x,), (y,), rows=ELEMENTS)
    scales = (requantize(quant.scale), requantize(quant.zero_point.astype(np.int32)))
    return Call("tw_dequantize_channels_s8", {"axis": one_axis(x.shape, quant.axis)}, (x, *scales), (y,))


def _case(x: Tensor, **more: Any) -> Case:
    return Case(Node("DEQUANTIZE", (x,), (tensor(x.shape, name="y"),)), **more)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for scale, zero in ((0.5, 0), (0.1, -128), (1e-7, 127), (3e30, 3)):
        yield _case(tensor((2, 5, 7), "INT8", scale, zero))
        yield _case(tensor((1,), "INT16", scale, zero * 256))
        yield _case(tensor((333,), "INT16", scale, zero))
        yield _case(tensor((3, 67), "UINT8", scale, zero % 256))
    for axis, shape in ((0, (5, 3, 4)), (1, (5, 3, 4)), (2, (5, 3, 19)), (0, (7,))):
        scales = rng.uniform(1e-3, 2, shape[axis]).astype(np.float32)
        yield _case(along(tensor(shape, "INT8", list(scales), [0] * len(scales)), axis), oracle="litert")
    bits = np.concatenate([np.arange(0, 65536, 37), np.arange(0x3FF, 0x402), [0x7C00, 0xFC00, 0x8000]])
    halves = bits.astype(np.uint16).view(np.float16)
    yield _case(tensor(halves.shape, "FLOAT16"), inputs=(halves,), oracle="litert")
    weights = tensor((4, 9), "FLOAT16", data=rng.standard_normal((4, 9)))
    yield _case(weights, oracle="litert")


OP = Op("DEQUANTIZE", infer, reference, lower, cases, pointwise="exact", uint8="moves")
