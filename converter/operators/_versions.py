"""Reasons why a node needs a version of its operator, for the ``needs`` of rows."""

from __future__ import annotations

from collections.abc import Callable

from twinfer.runtime.graph import Node, Tensor

Reason = Callable[[Node], bool]

ASYMMETRIC = "asymmetric_quantize_inputs"

#: int8 from version 2 on, and int16 from version 3 on: the most common case.
INT8_2_INT16_3 = {"INT8": 2, "INT16": 3}


def type_of(node: Node, i: int) -> str:
    """The type of an input; "" if it is not there."""
    tensor = node.optional(i)
    return "" if tensor is None else tensor.type


def option(key: str) -> Reason:
    return lambda node: node.options.get(key) not in (None, False, 0, "NONE", "FLOAT32", "DEFAULT")


def rank(above: int) -> Reason:
    """An input has more dimensions than this."""
    return lambda node: max((len(t.shape) for t in node.inputs if t is not None), default=0) > above


def broadcast(node: Node) -> bool:
    """Five dimensions or more, one of which is broadcast."""
    return rank(4)(node) and node.input(0).shape != node.input(1).shape


def typed(i: int, type: str) -> Reason:
    return lambda node: type_of(node, i) == type


def per_channel(tensor: Tensor) -> bool:
    return tensor.quant is not None and tensor.quant.per_channel


def hybrid(*, weights: int = 1, scale_per_channel: bool = False, setting: str = "") -> Reason:
    """Float values and int8 weights, with one scale per channel, or with this option set."""

    def needs(node: Node) -> bool:
        if (type_of(node, 0), type_of(node, weights)) != ("FLOAT32", "INT8"):
            return False
        return (not scale_per_channel or per_channel(node.input(weights))) and (not setting or option(setting)(node))

    return needs


def general_scales(node: Node) -> bool:
    """16 bits with scales that are no powers of two."""
    return type_of(node, 0) == "INT16" and not node.options.get("pot_scale_int16", True)


def plain_int16(node: Node) -> bool:
    return type_of(node, 0) == "INT16" and node.input(0).quant is None


def times_one(node: Node) -> bool:
    """A product whose rescaling is 1 or more."""
    tensors: tuple[Tensor, ...] = (node.input(0), node.input(1), node.output)
    if any(t.quant is None or t.quant.per_channel for t in tensors):
        return False
    x, y, z = (t.scale for t in tensors)
    return z > 0 and x * y / z >= 1


def either_is(type: str) -> Reason:
    return lambda node: type in (type_of(node, 0), node.output.type)
