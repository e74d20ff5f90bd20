"""FULLY_CONNECTED of int8 as the reference has it: nothing folded. What techniques are measured against."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.unsigned import is_unsigned
from twinfer.runtime.ops.core.weights import unpacked
from twinfer.runtime.ops.dense.fully_connected import lower_runtime
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept


def lower(node: Node, target: Target) -> Call:
    node = unpacked(node)
    accept(not is_unsigned(node), "it was uint8")
    return lower_runtime(node)


VARIANT = Variant("reference", ("FULLY_CONNECTED",), frozenset({"reference"}), lower, ("INT8",))
