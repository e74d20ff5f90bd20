"""Two operators one behind the other: a case of each, joined by operators that fit size, shape and quantisation.

An operator's pairs depend on it and on ``COMMON``: a new operator changes no pair of another one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from cases import COMMON, cases_of, fed, graph_of

from twinfer.runtime.graph import Array, Graph, Node, Tensor
from twinfer.runtime.op import Case

#: Types that join cases; others differ in what their operators may do.
_TYPES = ("FLOAT32", "INT8", "INT16", "INT32", "INT64", "BOOL")


@cache
def _small(op: str) -> list[Case]:
    """The operator's cases of few elements. They are kept, as every other operator's pairs draw from them, too."""
    return [c for c in cases_of(op).values() if sum(t.size for t in (*c.node.inputs, *c.node.outputs) if t) < 600]


def pairs(op: str, count: int) -> Iterator[Graph]:
    """So many models of a case of ``op`` and one of a common operator behind it or before it."""
    rng, others = np.random.default_rng(zlib.crc32(op.encode())), [other for other in COMMON if _small(other)]
    made = 0
    for _ in range(100 * count):
        names = [op, str(rng.choice(others))][:: 1 if rng.integers(2) else -1]
        first, second = (_small(name)[rng.integers(len(_small(name)))].node for name in names)
        ends = [t for t in first.outputs if t.type in _TYPES and t.size]
        fits = [(y, t) for t in fed(second) if t.size for y in ends if _fit(y, t)]
        if fits:
            end, begin = fits[rng.integers(len(fits))]
            yield joined(first, end, second, begin, bool(rng.integers(4)))
            made += 1
        if made == count:
            return


def _fit(end: Tensor, begin: Tensor) -> bool:
    """Whether QUANTIZE can make of one what the other has: both have a scale, or neither."""
    return end.type == begin.type and (end.quant is None) == (begin.quant is None)


def _with_tensors(node: Node, new: Callable[[Tensor], Tensor]) -> Node:
    """The node with other tensors in place of its own."""

    def changed(side: Iterable[Tensor | None]) -> tuple[Any, ...]:
        return tuple(None if t is None else new(t) for t in side)

    extra = {
        **node.extra,
        **({"intermediates": changed(node.extra["intermediates"])} if "intermediates" in node.extra else {}),
    }
    return replace(node, inputs=changed(node.inputs), outputs=changed(node.outputs), extra=extra)


def joined(first: Node, end: Tensor, second: Node, begin: Tensor, hidden: bool) -> Graph:
    """The second node reads ``end`` in the place of ``begin``. ``hidden``: only the outputs of the second are given."""
    nodes, x = [first], end

    def then(op: str, shape: Sequence[int], *more: Array, **changes: Any) -> Tensor:
        constants = [Tensor("", m.dtype.name.upper(), m.shape, data=m) for m in more]
        nodes.append(Node(op, (x, *constants), (replace(x, shape=tuple(shape), variable=False, **changes),)))
        return nodes[-1].output

    if x.quant != begin.quant:
        x = then("QUANTIZE", x.shape, quant=begin.quant)
    if x.size != begin.size:
        x = then("RESHAPE", [x.size], np.array([x.size], np.int32))
        if x.size > begin.size:
            x = then("SLICE", [begin.size], np.zeros(1, np.int32), np.array([begin.size], np.int32))
        else:
            x = then("PAD", [begin.size], np.array([[0, begin.size - x.size]], np.int32))
    if x.shape != begin.shape:
        x = then("RESHAPE", begin.shape, np.array(begin.shape, np.int32).reshape(-1))
    own = {t: replace(t) for t in graph_of(second).tensors}
    nodes.append(_with_tensors(second, lambda t: x if t is begin else own[t]))
    tensors = dict.fromkeys(t for node in nodes for t in graph_of(node).tensors)
    named = {t: replace(t, name=f"t{i}") for i, t in enumerate(tensors)}
    given = [*fed(first), *(own[t] for t in fed(second) if t is not begin)]
    results = [*([] if hidden else [end]), *nodes[-1].outputs]
    return Graph(
        "pair", tuple(named.values()), tuple(_with_tensors(node, named.__getitem__) for node in nodes),
        tuple(named[t] for t in given), tuple(named[t] for t in dict.fromkeys(results)),
    )  # fmt: skip
