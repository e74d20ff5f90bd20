"""Layers whose weights are stored sparsely or in another type, and an encoder of the sparse format."""

from __future__ import annotations

from itertools import product
from types import MappingProxyType
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Graph, Node, Quant, Tensor
from twinfer.runtime.op import Shape, tensor

#: Traversal order, block map, block sizes, and which levels are sparse.
FORMS: tuple[tuple[Shape, Shape, Shape, Shape], ...] = (
    ((0, 1), (), (), (1,)),
    ((1, 0), (), (), (1,)),
    ((0, 1), (), (), (0, 1)),
    ((0, 1, 2), (1,), (4,), (1,)),
    ((0, 1, 2, 3), (0, 1), (2, 4), (1,)),
    ((1, 0, 3, 2), (0, 1), (2, 4), (0, 1)),
    ((1, 0, 2), (0,), (3,), (1,)),
)


def encoded(values: Array, form: tuple[Shape, Shape, Shape, Shape]) -> tuple[Array, dict[str, Any]]:
    """What is stored of an array, and its sparsity: a walk over all indices in order, as the format is defined."""
    order, blocks, sizes, sparse = form
    rank = values.ndim
    extents = [*values.shape, *sizes]
    for b, dimension in enumerate(blocks):
        extents[dimension] //= sizes[b]
    levels: list[dict[str, Any]] = [
        {"segments": [0], "indices": []} if i in sparse else {"dense": extents[d]} for i, d in enumerate(order)
    ]
    stored: list[Any] = []

    def part(index: dict[int, int]) -> Array:
        """The elements whose indices begin so."""
        axes: list[Any] = []
        for d in range(rank):
            b = blocks.index(d) if d in blocks else None
            size = 1 if b is None else sizes[b]
            outer = [index[d]] if d in index else range(extents[d])
            inner = range(size) if b is None or rank + b not in index else [index[rank + b]]
            axes.append([o * size + i for o, i in product(outer, inner)])
        return values[np.ix_(*axes)]

    def walk(level: int, index: dict[int, int]) -> None:
        if level == len(order):
            stored.append(part(index).item())
            return
        kept = [
            i
            for i in range(extents[order[level]])
            if "dense" in levels[level] or part({**index, order[level]: i}).any()
        ]
        for i in kept:
            walk(level + 1, {**index, order[level]: i})
        if "indices" in levels[level]:
            levels[level]["indices"] += kept
            levels[level]["segments"].append(len(levels[level]["indices"]))

    walk(0, {})
    metadata = tuple(
        {"format": "DENSE", "dense_size": one["dense"], "array_segments": None, "array_indices": None}
        if "dense" in one
        else {
            "format": "SPARSE_CSR", "dense_size": 0,
            "array_segments": ("Int32Vector", {"values": tuple(one["segments"])}),
            "array_indices": ("Uint8Vector", {"values": bytes(one["indices"])}),
        }
        for one in levels
    )  # fmt: skip
    return np.array(stored, values.dtype), {"traversal_order": order, "block_map": blocks, "dim_metadata": metadata}


def sparse(values: Array, type: str, form: Any, quant: Quant | None = None) -> Tensor:
    data, sparsity = encoded(values, form)
    raw = np.frombuffer(data.tobytes(), np.uint8)
    return Tensor("w", type, values.shape, quant, raw, extra=MappingProxyType({"sparsity": sparsity}))


def thinned(seed: int, shape: Shape = (12, 8)) -> Array:
    rng = np.random.default_rng(seed)
    values = rng.integers(-127, 128, shape)
    blocks = rng.random((shape[0] // 2, shape[1] // 4)) < 0.4
    return values * np.kron(blocks, np.ones((2, 4), int)) * (rng.random(shape) < 0.8)


def dense_graph(w: Tensor, *before: Node, bias: bool = True) -> Graph:
    """A FULLY_CONNECTED over the weights, behind nodes that make them."""
    weights = before[-1].output if before else w
    integer = weights.type == "INT8"
    x = tensor((3, w.shape[1]), *(("INT8", 0.05, 3) if integer else ("FLOAT32",)), name="x")
    y = tensor((3, w.shape[0]), *(("INT8", 0.4, -4) if integer else ("FLOAT32",)), name="y")
    zeros = np.zeros(w.shape[0])
    b = tensor(zeros.shape, *(("INT32", 0.0005) if integer else ("FLOAT32",)), data=zeros, name="b")
    options = {"fused_activation_function": "NONE", "weights_format": "DEFAULT", "keep_num_dims": False}
    node = Node("FULLY_CONNECTED", (x, weights, b), (y,), options, version=8 if w.extra else 4)
    between = tuple(node.output for node in before)
    return Graph("stored", (x, w, *between, b, y), (*before, node), (x,), (y,))
