"""Checks that the operators of the audio front end share."""

from __future__ import annotations

from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.op import Shape, need, need_type

#: Elements that a state or an output may have at most: they and their bytes are counted in int32.
LARGEST = 1 << 28


def arity(node: Node, inputs: int, outputs: int = 1) -> None:
    """ModelError unless the node has so many inputs and outputs."""
    counts = len(node.inputs), len(node.outputs)
    need(
        counts == (inputs, outputs),
        node,
        f"it has {counts[0]} inputs and {counts[1]} outputs, not {inputs} and {outputs}",
    )


def typed(node: Node, tensor: Tensor, type: str, rank: int | None = None) -> Shape:
    """The tensor's shape; an error unless it has the type and, if given, the rank."""
    need_type(node, tensor, type)
    need(rank is None or len(tensor.shape) == rank, node, f"{tensor} must have {rank} dimensions")
    return tensor.shape


def length(node: Node, tensor: Tensor, type: str) -> int:
    """The length of a vector of the type; ModelError for another rank and for an empty one."""
    shape = typed(node, tensor, type, 1)
    need(shape[0] > 0, node, f"{tensor} is empty")
    return shape[0]


def rows(node: Node, tensor: Tensor, type: str) -> tuple[int, int]:
    """How many rows the tensor has along its last dimension, and how long they are; ModelError if there are none."""
    shape = typed(node, tensor, type)
    need(len(shape) > 0 and tensor.size > 0, node, f"{tensor} must have rows of values")
    return tensor.size // shape[-1], shape[-1]
