"""SignalFilterBank: triangular filters over a spectrum of energies. Source: TFLM signal/src/filter_bank.cc."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, tensor
from twinfer.runtime.ops.signal._custom import arity, custom, length, typed, whole
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def infer(node: Node) -> list[Shape]:
    """Bands are constants; what they name must be there."""
    arity(node, 6)
    x, weights, others = (node.input(i) for i in range(3))
    size = length(node, x, "UINT32")
    known = min(length(node, t, "INT16") for t in (weights, others))
    typed(node, node.output, "UINT64", 1)
    bands = whole(node, "num_channels", 1, 1 << 15) + 1
    for i in (3, 4, 5):
        need(length(node, node.input(i), "INT16") >= bands, node, f"{node.input(i)} must have {bands} elements")
    energies, firsts, widths = (node.constant(i).astype(np.int64)[:bands] for i in (3, 4, 5))
    for starts, end, what in ((energies, size, x), (firsts, known, weights)):
        used = widths > 0
        fits = (starts >= 0) & (starts + widths <= end)
        need(bool(fits[used].all()), node, f"a band reaches outside of {what}")
    return [(bands - 1,)]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    x, weights, others, energies, firsts, widths = ([int(v) for v in value] for value in inputs)
    sums, carried = [], 0
    for band in range(node.output.size + 1):
        pairs = [(energies[band] + i, firsts[band] + i) for i in range(widths[band])]
        sums.append(carried + sum(weights[w] * x[e] for e, w in pairs))
        carried = sum(others[w] * x[e] for e, w in pairs)
    return [np.array([total % 2**64 for total in sums[1:]], np.uint64)]


def lower(node: Node, target: Target) -> Call:
    return Call("tw_filter_bank", {"channels": node.output.size}, node.inputs, node.outputs)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    def one(low: int, widths: Sequence[int], firsts: Sequence[int], energies: Sequence[int], size: int) -> Case:
        count = max(first + width for first, width in zip(firsts, widths, strict=True))
        values = (rng.integers(low, 32768, count), rng.integers(low, 32768, count), energies, firsts, widths)
        named = zip(("weights", "others", "energies", "firsts", "widths"), map(np.asarray, values), strict=True)
        constants = [tensor(v.shape, "INT16", data=v, name=name) for name, v in named]
        y = tensor((len(widths) - 1,), "UINT64", name="y")
        inputs = (tensor((size,), "UINT32", name="x"), *constants)
        return Case(Node("CUSTOM:SignalFilterBank", inputs, (y,), extra=custom(num_channels=len(widths) - 1)))

    yield one(0, (4, 3, 8), (0, 4, 7), (1, 5, 8), 16)
    yield one(-32768, (4, 3, 8, 5), (0, 4, 2, 10), (1, 5, 8, 0), 20)
    yield one(0, (2, 0, -3, 1), (0, 1, 2, 3), (4, 9, 9, 6), 7)
    yield one(0, (8,) * 41, range(0, 328, 8), range(0, 328, 8), 328)


OP = Op("CUSTOM:SignalFilterBank", infer, reference, lower, cases)
