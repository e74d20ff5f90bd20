"""The front door: a model over windows -> a model over steps, what was won, and the proof that both give one result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from twinfer.converter.facts import Moves
from twinfer.converter.passes._rewrite import touches_state
from twinfer.converter.stream.build import StreamBuilder
from twinfer.converter.stream.plan import plan_rows
from twinfer.converter.table import row_of
from twinfer.runtime.check import check, need_graph
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Array, Graph, Node, consumers, walk
from twinfer.runtime.metadata import without_plan
from twinfer.runtime.rows import row_axis
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.stream import METADATA
from twinfer.runtime.shapes import infer_shapes


@dataclass(frozen=True)
class Streaming:
    """A streaming model and how it came about.

    ``graph`` takes ``hop`` new rows a step. From step ``steps`` on, when a whole window has come in, its outputs are
    those of the window model for the last ``rows`` rows, bit for bit; of an output that has rows itself, the new ones.
    ``whole`` are the operators of the window model that need all rows in every step, each with the reason.
    """

    graph: Graph
    axis: int
    rows: int
    hop: int
    whole: Mapping[Node, str]

    @property
    def steps(self) -> int:
        """Steps until a window is full."""
        return -(-self.rows // self.hop)


def stream(graph: Graph, *, axis: int | None = None, hop: int | None = None) -> Streaming:
    """Turn a model over a sliding window into one over its new rows.

    Time is dimension ``axis`` of the model's only input: by default the first with more than one element. ``hop`` is
    the number of new rows per step: by default the least that fits all strides. Raises InvalidArgumentError for a model
    that has no rows, has several inputs or signatures, branches, or keeps a state already.
    """
    need_graph(graph)
    _check(graph)
    graph = _reshaped_first(infer_shapes(graph, keep_half=True))
    inputs = [tensor for tensor in graph.inputs if tensor.data is None]
    if len(inputs) != 1:
        raise InvalidArgumentError(f"{graph.name!r} has {len(inputs)} inputs: only a model with one can be streamed")
    (source,) = inputs
    along = row_axis(source) if axis is None else axis
    if 0 <= along < len(source.shape) and source.shape[along] > 1 and prod(source.shape[:along]) > 1:
        raise InvalidArgumentError(f"{source}: its rows along axis {along} do not lie one after the other")
    plan = plan_rows(graph, source, along, hop)
    built = StreamBuilder(graph, plan).build()
    about = {"axis": along, "rows": plan.timed.rows, "hop": plan.timed.hop}
    metadata = {**without_plan(graph).metadata, METADATA: json.dumps(about).encode()}
    built = replace(built, name=f"{graph.name}_streaming", metadata=metadata)
    check(built)
    return Streaming(built, along, plan.timed.rows, plan.timed.hop, plan.whole)


def _check(graph: Graph) -> None:
    """InvalidArgumentError with the reason why a model is no model over windows."""
    if METADATA in graph.metadata:
        raise InvalidArgumentError(f"{graph.name!r} is a stream already: twinfer stream has written it")
    for node in (node for each in walk(graph) for node in each.nodes):
        if touches_state(node):
            raise InvalidArgumentError(
                f"{graph.name!r} is a stream already: {node} belongs to a state, so that every run goes on where the "
                "last one ended; feed it new rows only"
            )
    if len({signature.subgraph for signature in graph.signatures}) > 1:
        keys = ", ".join(signature.key for signature in graph.signatures)
        raise InvalidArgumentError(f"{graph.name!r} has several signatures ({keys}): name one, as FILE#KEY")
    if graph.subgraphs:
        raise InvalidArgumentError(
            f"{graph.name!r} has subgraphs: only a model without control flow can be streamed "
            "(twinfer convert --no-loops writes the steps of recurrent layers out)"
        )


def _reshaped_first(graph: Graph) -> Graph:
    """The graph whose input has the shape that its first operator gives it, if that only gives it rows."""
    if len(graph.inputs) != 1:
        return graph
    (source,) = graph.inputs
    readers = consumers(graph).get(source, [])
    flat = len([extent for extent in source.shape if extent > 1]) <= 1
    if len(readers) != 1 or row_of(readers[0]).moves is not Moves.RESHAPES or not flat:
        return graph
    shaped = replace(source, shape=readers[0].output.shape, shape_signature=())
    if prod(shaped.shape) != source.size or readers[0].output in graph.outputs:
        return graph
    nodes = tuple(
        replace(node, inputs=tuple(shaped if t is readers[0].output else t for t in node.inputs))
        for node in graph.nodes
        if node is not readers[0]
    )
    tensors = tuple(shaped if t is source else t for t in graph.tensors if t is not readers[0].output)
    return replace(graph, tensors=tensors, nodes=nodes, inputs=(shaped,), signatures=())


@dataclass(frozen=True)
class Proof:
    """How many full windows were compared, and in how many any output differed."""

    windows: int
    different: int


def prove(graph: Graph, streaming: Streaming, windows: int = 3, seed: int = 0) -> Proof:
    """Compare over random rows: at least ``windows`` windows that have no row in common, and all those between."""
    steps = streaming.steps * (windows + 1)
    row = streaming.graph.inputs[0].size // streaming.hop
    full = -(-steps * streaming.hop // streaming.rows)
    parts = [random_inputs(graph, seed + i)[0].reshape(-1, row) for i in range(full)]
    rows = np.concatenate(parts)[: steps * streaming.hop]
    stepwise, whole = Interpreter.from_graph(streaming.graph), Interpreter.from_graph(graph)
    stepwise.allocate_tensors()
    whole.allocate_tensors()
    different = count = 0
    for i, outputs in enumerate(stepwise.stream([rows]), streaming.steps):
        end = i * streaming.hop
        want = _outputs(whole, rows[end - streaming.rows : end])
        different += any(not _same(got, value) for got, value in zip(outputs, want, strict=True))
        count += 1
    return Proof(count, different)


def _outputs(model: Interpreter, rows: Array) -> list[Array]:
    details = model.get_input_details()[0]
    model.set_tensor(details["index"], rows.reshape(details["shape"]))
    model.invoke()
    return [model.get_tensor(details["index"]) for details in model.get_output_details()]


def _same(got: Array, want: Array) -> bool:
    """Whether the new rows are the last ones of the window's output, along whichever dimension it has fewer."""
    last = tuple(slice(b - a, None) for a, b in zip(got.shape, want.shape, strict=True))
    return got.tobytes() == want[last].tobytes()
