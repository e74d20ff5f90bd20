"""What the fuzzer tries: a node with the values it is fed (``Trial``), and a whole model with its runs (``Model``)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Graph, Node, Tensor
from twinfer.runtime.op import Case
from twinfer.runtime.passes.unsigned import make_signed
from twinfer.runtime.plan.first_values import first_value
from twinfer.runtime.registry import keeps_state, operators

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


def numpy_values(graph: Graph, inputs: Sequence[Array]) -> tuple[Graph, dict[Tensor, Array]]:
    """Every value of the first run by the operators' references, with the graph of int8 that these are of."""
    graph = make_signed(graph)
    known = dict(zip(graph.inputs, inputs, strict=True))
    for t in graph.tensors:
        if t.data is not None:
            known[t] = t.data
        elif t.variable:
            known[t] = np.full(t.nbytes, first_value(t), np.uint8).view(t.dtype).reshape(t.shape)
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        for node in graph.nodes:
            values = [None if t is None else known[t] for t in node.inputs]
            known.update(zip(node.outputs, operators()[node.op].reference(node, values), strict=True))
    return graph, known


@dataclass(frozen=True)
class Trial:
    """A node on its way from a case to a random node. ``given`` are the inputs whose values matter (indices, say)."""

    node: Node
    given: Mapping[Tensor, Array] = field(default_factory=dict)
    oracle: str = "tflm"
    tolerance: float = 0.0

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Inputs, intermediates and outputs, each once."""
        listed = (*self.node.inputs, *self.node.extra.get("intermediates", ()), *self.node.outputs)
        return tuple(dict.fromkeys(t for t in listed if t is not None))

    @property
    def graph(self) -> Graph:
        """The node alone as a model."""
        tensors = [t for t in self.tensors if t not in self.node.outputs]
        inputs = tuple(t for t in tensors if t in self.node.inputs and t.data is None and not t.variable)
        others = tuple(t for t in tensors if t not in inputs)
        return Graph("case", (*inputs, *others, *self.node.outputs), (self.node,), inputs, self.node.outputs)

    def swap(self, new: Mapping[Tensor, Tensor]) -> Trial:
        """The trial with other tensors; values follow them into their new shapes and types."""

        def over(tensors: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(None if t is None else new.get(t, t) for t in tensors)

        node, extra = self.node, self.node.extra
        if "intermediates" in extra:
            extra = {**extra, "intermediates": over(extra["intermediates"])}
        node = replace(node, inputs=over(node.inputs), outputs=over(node.outputs), extra=extra)
        given = {new.get(t, t): fit(v, new.get(t, t)) for t, v in self.given.items() if new.get(t, t).data is None}
        return replace(self, node=node, given=given)


def trial_of(case: Case) -> Trial:
    """The case as it is."""
    trial = Trial(case.node, {}, case.oracle, case.tolerance)
    return (
        trial if case.inputs is None else replace(trial, given=dict(zip(trial.graph.inputs, case.inputs, strict=True)))
    )


def fit(value: Array, tensor: Tensor) -> Array:
    """A value in the shape and type of a tensor: repeated or cut, and kept within the type."""
    shaped = np.resize(value, tensor.shape) if value.size else np.zeros(tensor.shape, value.dtype)
    if tensor.dtype.kind in "iu" and shaped.dtype.kind in "iuf":
        info = np.iinfo(tensor.dtype)
        shaped = np.clip(np.nan_to_num(shaped) if shaped.dtype.kind == "f" else shaped, info.min, info.max)
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(shaped.astype(tensor.dtype)).reshape(tensor.shape)


def random_value(rng: Rng, tensor: Tensor) -> Array:
    """A value for a tensor: of its whole range, a small one, or one of few values that are mostly the ends."""
    if tensor.dtype.kind == "b":
        return np.asarray(rng.random(tensor.shape) < rng.choice([0.1, 0.5, 0.9]))
    if tensor.dtype.kind in "fc":
        normal = rng.standard_normal(tensor.shape) * rng.choice([0.01, 1.0, 3.0, 3.0, 30.0])
        if rng.random() < 0.25:
            normal = np.round(normal * 2) / 2  # halves, zeros of both signs, and equal values
        return np.asarray(normal).astype(tensor.dtype)
    info, kind = np.iinfo(tensor.dtype), int(rng.integers(5))
    if kind == 0:
        ends = np.array([info.min, info.max, 0, info.max - 1], tensor.dtype)
        return rng.choice(ends, tensor.shape).astype(tensor.dtype)
    if kind == 1:
        return rng.integers(0 if info.min == 0 else -5, 6, tensor.shape).astype(tensor.dtype)
    return rng.integers(info.min, info.max, tensor.shape, tensor.dtype, endpoint=True)


def runs(rng: Rng, graph: Graph, given: Mapping[Tensor, Array]) -> tuple[tuple[Array, ...], ...]:
    """Inputs of one run, or of three if the graph keeps a state; ``given`` values are the same in all of them."""
    stateful = any(t.variable for t in graph.tensors) or any(map(keeps_state, graph.nodes))
    count = 3 if stateful else 1
    return tuple(tuple(given[t] if t in given else random_value(rng, t) for t in graph.inputs) for _ in range(count))
