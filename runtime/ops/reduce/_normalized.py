"""What the operators that normalise rows of the last dimension check alike."""

from __future__ import annotations

from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.op import need, need_type


def normalized(node: Node, *types: str, wide: bool = False) -> tuple[Tensor, Tensor]:
    """The input and the output, of one type of ``types``; ModelError without exactly one input and a last dimension.

    ``wide``: the output of int8 may also be int16.
    """
    need(len(node.inputs) == 1, node, f"it has {len(node.inputs)} inputs, not 1")
    x, y = node.input(0), node.output
    need_type(node, x, *types)
    need_type(node, y, x.type, *(("INT16",) if wide and x.type == "INT8" else ()))
    need(len(x.shape) >= 1 and x.shape[-1] >= 1, node, f"{x} has no last dimension to normalise")
    return x, y
