"""DEPTHWISE_CONV_2D of int16 and int8 on computers: Helium's kernel, whose stand-ins of instructions become vectors."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    from twinfer.runtime.ops.depthwise import depthwise_conv2d_mve_s16  # few models need it

    return depthwise_conv2d_mve_s16.lower(node, target)


VARIANT = Variant("wide", ("DEPTHWISE_CONV_2D",), frozenset({"simd"}), lower, ("INT16",))
