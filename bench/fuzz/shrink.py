"""Makes a model in which engines differ as small as it will get: fewer nodes, smaller shapes, more zeros."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from twinfer.bench.fuzz.changes import reshaped
from twinfer.bench.fuzz.engines import QUICK
from twinfer.bench.fuzz.judge import Court, Finding
from twinfer.bench.fuzz.mutate import agreed
from twinfer.bench.known.meaning import Meaning
from twinfer.bench.known.model import Model, Trial, graph_of, tensors_of
from twinfer.runtime.control import CONTROL
from twinfer.runtime.graph import DTYPES, Array, Graph, Node, Tensor

#: The most models that are tried for a finding, and the most seconds.
MOST_TRIED, PATIENCE = 300, 60.0

#: Models that are tried together.
TOGETHER = 12


def shrunk(court: Court, finding: Finding) -> Finding:
    """The smallest model that was seen in which the same engine still differs."""
    best, tried, until = finding, 0, time.monotonic() + PATIENCE
    smaller = True
    while smaller:
        smaller = False
        models = islice(_smaller(best.model), MOST_TRIED - tried)
        while not smaller and (batch := list(islice(models, TOGETHER))):
            tried += len(batch)
            if time.monotonic() > until:
                return best
            if again := _again(court, batch, best.engine):
                best, smaller = again, True
    return best


def _again(court: Court, models: Sequence[Model], engine: str) -> Finding | None:
    """The finding of the same engine in the first of other models where it is."""
    kind = engine.partition(",")[0]
    verdicts = court.judged(models, QUICK if kind == "compiled" else "")
    findings = (finding for verdict in verdicts for finding in verdict.findings)
    return next((f for f in findings if f.engine.partition(",")[0] == kind), None)


def _smaller(model: Model) -> Iterator[Model]:
    """Models that are a little smaller, the smallest first."""
    if len(model.graph.nodes) > 1:
        yield from _with_fewer_nodes(model)
    if len(model.runs) > 1:
        yield from (replace(model, runs=model.runs[:k]) for k in (1, len(model.runs) - 1))
    if len(model.graph.nodes) == 1 and not model.graph.subgraphs:
        yield from _with_smaller_shapes(model)
    yield from _with_zeros(model)


# -- nodes -------------------------------------------------------------------------------------------------------------


def _with_fewer_nodes(model: Model) -> Iterator[Model]:
    """A node alone; the nodes that one value needs; and the nodes behind a value, which becomes an input."""
    graph, known = model.graph, _known(model)
    yield from _alone(model, known)
    values = [t for node in graph.nodes for t in node.outputs if t.type in DTYPES and not t.variable]
    for tensor in values:
        if graph.outputs != (tensor,):
            yield _pruned(model, graph, (tensor,))
    for node in graph.nodes:
        if not node.outputs:
            yield _pruned(model, replace(graph, nodes=tuple(n for n in graph.nodes if n is not node)), graph.outputs)
    for tensor in reversed(values):
        if tensor not in graph.outputs and known and all(tensor in each for each in known):
            yield _cut(model, tensor, [each[tensor] for each in known])


def _known(model: Model) -> list[dict[Tensor, Array]]:
    """Every value of every run as numpy has it; empty where numpy fails."""
    meaning = Meaning(model.graph)
    try:
        return [meaning.values(inputs) for inputs in model.runs]
    except Exception:
        return []


def _alone(model: Model, known: Sequence[Mapping[Tensor, Array]]) -> Iterator[Model]:
    """Each node that computes, as a model of its own."""
    for node in model.graph.nodes:
        small = graph_of(node)
        if known and node.op not in CONTROL and all(t in each for each in known for t in small.inputs):
            runs = tuple(tuple(each[t] for t in small.inputs) for each in known)
            yield replace(model, graph=small, runs=runs)


def _cut(model: Model, tensor: Tensor, values: Sequence[Array]) -> Model:
    """The model with a value as an input."""
    graph = model.graph
    nodes = tuple(n for n in graph.nodes if tensor not in n.outputs or len(n.outputs) > 1)
    inputs = (*graph.inputs, replace(tensor, name="cut"))
    nodes = tuple(_reading(n, tensor, inputs[-1]) for n in nodes)
    runs = tuple((*run, value) for run, value in zip(model.runs, values, strict=True))
    cut = replace(graph, tensors=(*graph.tensors, inputs[-1]), nodes=nodes, inputs=inputs)
    return _pruned(replace(model, runs=runs), cut, graph.outputs)


def _reading(node: Node, tensor: Tensor, other: Tensor) -> Node:
    return replace(node, inputs=tuple(other if t is tensor else t for t in node.inputs))


def _pruned(model: Model, graph: Graph, outputs: tuple[Tensor, ...]) -> Model:
    """Only what the outputs need, and nodes without outputs, which write variables."""
    needed = set(outputs)
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        if not node.outputs or any(t in needed or t.variable for t in node.outputs):
            needed.update(tensors_of(node))
            nodes.insert(0, node)
    places = [i for i, t in enumerate(graph.inputs) if t in needed]
    inputs = tuple(graph.inputs[i] for i in places)
    tensors = tuple(t for t in graph.tensors if t in needed)
    runs = tuple(tuple(run[i] for i in places) for run in model.runs)
    small = replace(graph, tensors=tensors, nodes=tuple(nodes), inputs=inputs, outputs=outputs)
    return replace(model, graph=small, runs=runs)


# -- shapes and values -------------------------------------------------------------------------------------------------


def _with_smaller_shapes(model: Model) -> Iterator[Model]:
    """One extent, wherever it occurs, is 1, half or one less; values from the beginning or from the end."""
    fed = [t for t in model.graph.tensors if t not in model.graph.outputs and t.type in DTYPES]
    for old in sorted({d for t in fed for d in t.shape if d > 1}, reverse=True):
        for new in dict.fromkeys((1, old // 2, old - 1)):
            swap = {t: reshaped(t, tuple(new if d == old else d for d in t.shape)) for t in fed if old in t.shape}
            yield from (smaller for step in (1, -1) if (smaller := _swapped(model, swap, step)))


def _swapped(model: Model, swap: dict[Tensor, Tensor], step: int) -> Model | None:
    """The model with other tensors, and values in their order or (-1) backwards; None if the operator refuses them."""
    trials = [agreed(trial.swapped(swap)) for trial in _trials(model, step)]
    known = [trial for trial in trials if trial is not None]
    if not known or len(known) < len(trials):
        return None
    return replace(model, graph=graph_of(known[0].node), runs=tuple(tuple(trial.given.values()) for trial in known))


def _trials(model: Model, step: int) -> Iterator[Trial]:
    """The node with the values of each run, in their order or (-1) backwards."""
    for run in model.runs:
        turned = [value.reshape(-1)[::step].reshape(value.shape) for value in run]
        yield Trial(model.graph.nodes[0], dict(zip(model.graph.inputs, turned, strict=True)))


def _with_zeros(model: Model) -> Iterator[Model]:
    """An input is 0: all of it, or half."""
    places = [(run, i) for run, inputs in enumerate(model.runs) for i in range(len(inputs))]
    for run, i in places:
        inputs = model.runs[run]
        for part in (slice(None), slice(0, inputs[i].size // 2), slice(inputs[i].size // 2, None)):
            flat = inputs[i].reshape(-1).copy()
            if np.any(flat[part]):
                flat[part] = 0
                changed = (*inputs[:i], flat.reshape(inputs[i].shape), *inputs[i + 1 :])
                yield replace(model, runs=(*model.runs[:run], changed, *model.runs[run + 1 :]))
