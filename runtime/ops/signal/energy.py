"""SignalEnergy: squared magnitudes of a part of a spectrum. Source: TFLM signal/src/energy.cc."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, tensor
from twinfer.runtime.ops.signal._custom import arity, custom, length, whole
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

UNWRITTEN = "TFLM leaves what was in memory outside of start_index..end_index; here it is 0"


def infer(node: Node) -> list[Shape]:
    arity(node, 1)
    x, size = node.input(0), length(node, node.output, "UINT32")
    start, end = _range(node)
    need(start <= end <= size, node, f"indices {start} to {end} are not in {node.output}")
    need(2 * end <= length(node, x, "INT16"), node, f"{x} has no {end} complex values")
    return [(size,)]


def leaves_some(node: Node) -> bool:
    """Whether some outputs are outside of start_index..end_index."""
    return _range(node) != (0, node.output.size)


def _range(node: Node) -> tuple[int, int]:
    return whole(node, "start_index", 0), whole(node, "end_index", 0)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    start, end = _range(node)
    y = np.zeros(node.output.shape, np.uint32)
    y[start:end] = (inputs[0][: 2 * end].astype(np.int64).reshape(-1, 2)[start:] ** 2).sum(axis=1)
    return [y]


def lower(node: Node, target: Target) -> Call:
    start, end = _range(node)
    params = {"start": start, "end": end, "size": node.output.size}
    return Call("tw_energy", params, node.inputs, node.outputs)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    def one(values: Array, start: int, end: int, size: int) -> Case:
        x, y = tensor((len(values),), "INT16", name="x"), tensor((size,), "UINT32", name="y")
        node = Node("CUSTOM:SignalEnergy", (x,), (y,), extra=custom(start_index=start, end_index=end))
        whole = (start, end) == (0, size)
        return Case(node, (values.astype(np.int16),), "tflm" if whole else "none", "" if whole else UNWRITTEN)

    for size in (1, 7, 257):
        yield one(rng.integers(-32768, 32768, 2 * size), 0, size, size)
    yield one(np.full(6, -32768), 0, 3, 3)
    yield one(np.full(9, -32768), 0, 3, 3)  # half a complex value and more is left over
    yield one(rng.integers(-32768, 32768, 514), 5, 241, 257)
    yield one(rng.integers(-32768, 32768, 14), 3, 3, 9)


OP = Op("CUSTOM:SignalEnergy", infer, reference, lower, cases)
