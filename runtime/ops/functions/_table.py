"""A node whose output is a table of its input's bytes: what operators over one value become together
(runtime/passes/stacking.py). No file has such nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need
from twinfer.runtime.ops.core.unsigned import STACKED
from twinfer.runtime.ops.functions._unary import by_bytes
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


@dataclass(frozen=True, eq=False)
class Stacked:
    """``table`` uint8 [256]: the byte of the output for every byte of the input. ``others`` are the indices of the
    operators that it stands for beside the node's own."""

    table: Array
    others: tuple[int, ...]


def stacked_of(node: Node) -> Stacked | None:
    """What the node stands for, None if it is an operator as the file has it."""
    value = node.options.get(STACKED)
    return value if isinstance(value, Stacked) else None


def _table(node: Node) -> Array:
    stacked = stacked_of(node)
    if stacked is None:
        raise RuntimeError(f"{node} is no table")
    return stacked.table


def _infer(node: Node) -> list[Shape]:
    need(len(node.inputs) == len(node.outputs) == 1, node, "it needs one input and one output")
    need(node.input(0).dtype.itemsize == node.output.dtype.itemsize == 1, node, "it needs bytes")
    return [node.input(0).shape]


def _reference(node: Node, inputs: list[Any]) -> list[Array]:
    return [_table(node)[inputs[0].view(np.uint8)].view(node.output.dtype)]


def _lower(node: Node, target: Target) -> Call:
    return by_bytes(node, _table(node), target)


def _cases(rng: np.random.Generator) -> Iterator[Case]:
    yield from ()


#: What every such node is, whatever operator it was.
OP = Op("table", _infer, _reference, _lower, _cases)
