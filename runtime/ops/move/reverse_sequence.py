"""REVERSE_SEQUENCE: the first elements along one dimension backwards. Source: LiteRT kernels/reverse_sequence.cc."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor
from twinfer.runtime.ops.move._move import case, example, index, mover
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def _axes(node: Node) -> tuple[int, int]:
    """The dimension of the sequences and that of the batches."""
    rank = len(node.input(0).shape)
    sequence, batch = (int(node.options.get(key, 0)) for key in ("seq_dim", "batch_dim"))
    fits = 0 <= sequence < rank and 0 <= batch < rank and sequence != batch
    need(fits, node, f"seq_dim {sequence} and batch_dim {batch} must be two dimensions of {node.input(0)}")
    return sequence, batch


def infer(node: Node) -> list[Shape]:
    x, lengths = mover(node, 2, alike=True), node.input(1)
    sequence, batch = _axes(node)
    need_type(node, lengths, "INT32", "INT64")
    need(lengths.shape == (x.shape[batch],), node, f"{lengths} must have {x.shape[batch]} elements")
    if lengths.data is not None:
        fits = bool(((lengths.data >= 0) & (lengths.data <= x.shape[sequence])).all())
        need(fits, node, f"{lengths} has lengths outside 0..{x.shape[sequence]}")
    return [x.shape]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Lengths outside are brought inside; LiteRT reads what lies beyond."""
    x, lengths = inputs
    sequence, batch = _axes(node)
    y = np.moveaxis(x.copy(), (batch, sequence), (0, 1))
    for row, length in zip(y, np.clip(lengths, 0, x.shape[sequence]), strict=True):
        row[:length] = row[:length][::-1].copy()
    return [np.ascontiguousarray(np.moveaxis(y, (0, 1), (batch, sequence)))]


def lower(node: Node, target: Target) -> Call:
    x, lengths = node.input(0), node.input(1)
    sequence, batch = _axes(node)
    low, high = sorted((sequence, batch))
    params: dict[str, Param] = {
        "outer": math.prod(x.shape[:low]), "a": x.shape[low], "mid": math.prod(x.shape[low + 1 : high]),
        "b": x.shape[high], "run": math.prod(x.shape[high + 1 :]) * x.dtype.itemsize,
        "wide": lengths.dtype.itemsize, "first": int(sequence == low),
    }  # fmt: skip
    return Call("tw_reverse_sequence", params, (x, lengths), (node.output,))


def cases(rng: np.random.Generator) -> Iterator[Case]:
    forms: tuple[tuple[Shape, int, int], ...] = (
        ((4, 3), 0, 1), ((3, 7), 1, 0), ((2, 5, 3), 1, 0), ((5, 2, 3), 0, 1), ((2, 3, 4, 5), 3, 1), ((2, 3, 4, 5), 0, 2)
    )  # fmt: skip
    for i, (shape, sequence, batch) in enumerate(forms):
        for type in ("FLOAT32", ("UINT8", "INT16", "INT32", "INT64")[i % 4]):
            x = example(type, shape)
            lengths = rng.integers(0, shape[sequence] + 1, shape[batch])
            fed = tensor(lengths.shape, ("INT32", "INT64")[i % 2], name="lengths")
            values = rng.integers(0, 99, shape).astype(x.dtype)
            made = case("REVERSE_SEQUENCE", (x, fed), [shape], seq_dim=sequence, batch_dim=batch)
            yield Case(made.node, (values, lengths.astype(fed.dtype)), "litert")
    constant = case("REVERSE_SEQUENCE", (example("INT8", (2, 5)), index((5, 2))), [(2, 5)], seq_dim=1, batch_dim=0)
    yield Case(constant.node, None, "none", "LiteRT takes no int8")
    wild = case(
        "REVERSE_SEQUENCE",
        (example("FLOAT32", (2, 5)), tensor((2,), "INT32", name="at")),
        [(2, 5)],
        seq_dim=1,
        batch_dim=0,
    )
    yield Case(wild.node, None, "none", "LiteRT reads beyond sequences that are too long")


OP = Op("REVERSE_SEQUENCE", infer, reference, lower, cases)
