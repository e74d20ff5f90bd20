"""Operators that turn integers into what ONNX has in their place, floats or uint8, and back."""

from __future__ import annotations

from dataclasses import replace

from twinfer.converter.passes._rewrite import View
from twinfer.runtime.graph import EMPTY, Node, Tensor


def leaves(node: Node) -> bool:
    """Whether the node turns int8 into what ONNX has in its place: floats, or the same numbers as uint8."""
    to_bytes = node.op == "QUANTIZE" and (node.input(0).type, node.output.type) == ("INT8", "UINT8")
    return node.op == "DEQUANTIZE" or (to_bytes and alike(node.input(0), node.output, 128))


def enters(node: Node) -> bool:
    """Whether the node turns floats into integers, or uint8 into the same numbers as int8."""
    if node.op != "QUANTIZE":
        return False
    from_bytes = (node.input(0).type, node.output.type) == ("UINT8", "INT8")
    return node.input(0).type == "FLOAT32" or (from_bytes and alike(node.input(0), node.output, -128))


def only_entry(view: View, node: Node) -> Node | None:
    """The entering node that alone reads the node's only result; None if there is none."""
    if len(node.outputs) != 1 or node.output in view.public:
        return None
    readers = list(view.consumers.get(node.output, ()))
    return readers[0] if len(readers) == 1 and enters(readers[0]) else None


def alike(x: Tensor, y: Tensor, offset: int) -> bool:
    """Whether both have one scale, and zero points that differ by the offset."""
    if x.quant is None or y.quant is None or x.quant.per_channel or y.quant.per_channel:
        return False
    return x.scale == y.scale and y.zero - x.zero == offset


def stored(tensor: Tensor) -> Tensor | None:
    """The integers of a dequantised constant; None of others."""
    data = tensor.extra.get("stored")
    if data is None or tensor.quant is None:
        return None
    kind = {1: "INT8", 2: "INT16"}.get(data.dtype.itemsize, "INT32")
    return replace(tensor, type=kind, data=data, extra=EMPTY, name=f"{tensor.name}_quantized")
