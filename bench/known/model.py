"""What the fuzzer tries: a node with the values it is fed (``Trial``), and a whole model with its runs (``Model``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Graph, Node, Tensor, walk
from twinfer.runtime.op import Case
from twinfer.runtime.registry import keeps_state

Rng = np.random.Generator

#: The peers that may judge a node, by the oracle of the case that it comes from; the first that runs it does.
JUDGES: Mapping[str, tuple[str, ...]] = {"tflm": ("tflm", "litert-ref"), "litert": ("litert-ref",), "none": ()}


@dataclass(frozen=True)
class Model:
    """A model and the inputs of its runs, which follow one another from fresh state.

    ``tolerance`` is None where floats cannot be compared with numpy and peers at all: only our own bits count.
    """

    name: str
    graph: Graph
    runs: tuple[tuple[Array, ...], ...]
    judges: tuple[str, ...] = ()
    tolerance: float | None = 0.0

    @property
    def ops(self) -> tuple[str, ...]:
        """The operators of all subgraphs, each once."""
        return tuple(dict.fromkeys(node.op for graph in walk(self.graph) for node in graph.nodes))

    @property
    def stateful(self) -> bool:
        """Whether numpy knows the first run alone."""
        graphs = list(walk(self.graph))
        return any(t.variable for g in graphs for t in g.tensors) or any(
            keeps_state(n) for g in graphs for n in g.nodes
        )


@dataclass(frozen=True)
class Trial:
    """A node on its way from a case to a random node. ``given`` are the inputs whose values matter (indices, say)."""

    node: Node
    given: Mapping[Tensor, Array] = field(default_factory=dict)
    oracle: str = "tflm"
    tolerance: float = 0.0

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors of the node, each once."""
        return tensors_of(self.node)

    def swapped(self, new: Mapping[Tensor, Tensor]) -> Trial:
        """The trial with other tensors; values follow them into their new shapes and types."""
        given = {new.get(t, t): fitted(v, new.get(t, t)) for t, v in self.given.items() if new.get(t, t).data is None}
        return replace(self, node=over(self.node, new), given=given)


def trial_of(case: Case) -> Trial:
    """The case as it is."""
    inputs = graph_of(case.node).inputs
    given = {} if case.inputs is None else dict(zip(inputs, case.inputs, strict=True))
    return Trial(case.node, given, case.oracle, case.tolerance)


def tensors_of(node: Node) -> tuple[Tensor, ...]:
    """Inputs, intermediates, outputs."""
    listed = (*node.inputs, *node.extra.get("intermediates", ()), *node.outputs)
    return tuple(dict.fromkeys(t for t in listed if t is not None))


def over(node: Node, new: Mapping[Tensor, Tensor]) -> Node:
    """The node over other tensors."""

    def swap(tensors: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(None if t is None else new.get(t, t) for t in tensors)

    extra = node.extra
    if "intermediates" in extra:
        extra = {**extra, "intermediates": swap(extra["intermediates"])}
    return replace(node, inputs=swap(node.inputs), outputs=swap(node.outputs), extra=extra)


def graph_of(node: Node) -> Graph:
    """The node alone as a model."""
    tensors = [t for t in tensors_of(node) if t not in node.outputs]
    inputs = tuple(t for t in tensors if t in node.inputs and t.data is None and not t.variable)
    others = tuple(t for t in tensors if t not in inputs)
    return Graph("case", (*inputs, *others, *node.outputs), (node,), inputs, node.outputs)


def fitted(value: Array, tensor: Tensor) -> Array:
    """A value in the shape and type of a tensor: repeated or cut, and kept within the type."""
    shaped = np.resize(value, tensor.shape) if value.size else np.zeros(tensor.shape, value.dtype)
    if tensor.dtype.kind in "iu" and shaped.dtype.kind in "iuf":
        info = np.iinfo(tensor.dtype)
        shaped = np.clip(np.nan_to_num(shaped) if shaped.dtype.kind == "f" else shaped, info.min, info.max)
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(shaped.astype(tensor.dtype)).reshape(tensor.shape)
