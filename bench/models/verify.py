"""The twin proof: every tensor of a model as numpy, interpreter, compiled code and the peers compute it, compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from twinfer.aot.build.compiled import CompiledModel
from twinfer.bench.models.observe import Values, initial_state, observed, whole
from twinfer.bench.models.source import Source
from twinfer.bench.models.zero_division import divided_by_zero
from twinfer.bench.peers.engines import isolated
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.op import TOLERANCE, Array
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.registry import operator
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.poison import POISONS
from twinfer.runtime.target import Optimize

#: What the interpreter is compared with, in the order of the columns.
OTHERS = ("numpy", "compiled", "tflm", "litert-ref")


@dataclass(frozen=True)
class Difference:
    """The first element in which an engine differs from the interpreter, and by how much the tensor does at most."""

    sample: int
    element: tuple[int, ...]
    interpreted: float
    other: float
    largest: float
    within: bool  # of the tolerance


@dataclass
class Line:
    """One tensor: what made it, and for every engine that computes it the worst difference (None: the same bits)."""

    tensor: Tensor
    node: Node | None
    found: dict[str, Difference | None] = field(default_factory=dict)

    def add(self, engine: str, difference: Difference | None) -> None:
        old = self.found.get(engine)
        if old is None or (difference is not None and old.within and not difference.within):
            self.found[engine] = difference


@dataclass
class Proof:
    """The matrix of a model: ``others`` against the interpreter. ``notes``: why one of them gave no outputs.

    ``by_zero``: of what an integer DIV made, how many elements were divided by 0. No engine's word counts for these:
    LiteRT aborts, TFLM forbids it.
    """

    model: str
    graph: Graph
    lines: list[Line]
    samples: int
    notes: dict[str, str] = field(default_factory=dict)
    others: Sequence[str] = OTHERS
    by_zero: Counter[Tensor] = field(default_factory=Counter)

    @property
    def judges(self) -> list[str]:
        """The engines whose word counts: our own, and TFLM; LiteRT's reference kernels where TFLM cannot run the model.

        They legitimately differ from TFLM (FULLY_CONNECTED), whose bits are ours.
        """
        return [e for e in self.others if e != "litert-ref" or "tflm" in self.notes]

    def faults(self) -> Iterator[tuple[Line, str, Difference]]:
        """What is wrong, in execution order."""
        for line in self.lines:
            for engine in self.judges:
                difference = line.found.get(engine)
                if difference is not None and not difference.within:
                    yield line, engine, difference

    @property
    def unrun(self) -> list[str]:
        """Targets that could not run the model; a peer that could not is no fault of the model's."""
        return [engine for engine in self.notes if engine not in OTHERS]

    @property
    def proven(self) -> bool:
        return next(self.faults(), None) is None and not self.by_zero


def verify(
    source: Source,
    peers: Sequence[str] = (),
    *,
    seed: int = 0,
    samples: int = 1,
    tolerance: float = TOLERANCE,
    guard: bool = False,
    optimize: Optimize = "balanced",
    weights: str = "file",
    decode: str = "layer",
    progress: Callable[[float], None] = lambda share: None,
) -> Proof:
    """Compare on ``samples`` seeded inputs, each from fresh state.

    numpy computes every operator by its ``reference`` from the interpreter's own inputs of it, so that an error shows
    at the operator that makes it and nowhere else. Interpreter and compiled code run the plan that users run, observed
    after every step, then again in one call, each time over rubbish. With ``guard`` every step is watched, and
    GuardError names a wrong one. ``optimize``, ``weights`` and ``decode`` are those of compiled code. Raises what
    planning and compiling raise.
    """
    graph = make_plan(source.graph).graph
    interpreted = Interpreter.from_graph(graph, guard=guard)
    compiled = CompiledModel.from_graph(graph, guard=guard)
    compiled.optimize, compiled.weights, compiled.decode = optimize, weights, decode
    interpreted.allocate_tensors()
    compiled.allocate_tensors()
    made_by = {tensor: node for node in graph.nodes for tensor in node.outputs}
    lines = {t: Line(t, made_by.get(t)) for t in (*made_by, *(t for t in graph.outputs if t not in made_by))}
    inputs = [random_inputs(graph, seed + i) for i in range(samples)]
    proof = Proof(source.name, graph, list(lines.values()), samples)
    wanted: list[Values] = []
    for i, sample in enumerate(inputs):
        state = initial_state(interpreted)
        want = {**observed(interpreted, sample), **whole(interpreted, sample, POISONS[0])}
        wanted.append(want)
        proof.by_zero.update(divided_by_zero(graph, want))
        for values in (observed(compiled, sample), *(whole(compiled, sample, byte) for byte in POISONS)):
            for tensor in lines.keys() & values.keys():
                lines[tensor].add("compiled", compare(i, want[tensor], values[tensor], 0.0))
        for tensor, value in _numpy(graph, {**state, **dict(zip(graph.inputs, sample, strict=True)), **want}):
            lines[tensor].add("numpy", compare(i, want[tensor], value, tolerance))
        progress((i + 1) / (samples + len(peers)))
    for k, peer in enumerate(peers):
        _add_peer(proof, peer, source, inputs, wanted, tolerance)
        progress((samples + k + 1) / (samples + len(peers)))
    return proof


def compare(sample: int, ours: Array, other: Array, tolerance: float) -> Difference | None:
    """None for the same bits, else where and by how much two values of a tensor differ."""
    other = np.asarray(other)
    if other.shape != ours.shape and other.size == ours.size:
        other = other.reshape(ours.shape)  # TFLM drops and adds dimensions of one
    if other.dtype != ours.dtype or other.shape != ours.shape:
        return Difference(sample, (), float("nan"), float("nan"), float("inf"), within=False)
    differs = (_bits(ours) != _bits(other)) & ~(_nan(ours) & _nan(other))
    if not differs.any():
        return None
    far = np.zeros(ours.shape)
    np.abs(np.subtract(ours, other, out=far, where=differs, dtype=np.float64), out=far)
    magnitude = float(np.max(np.abs(ours, dtype=np.float64), initial=0.0, where=np.isfinite(ours)))
    largest = float(far.max()) if np.isfinite(far).all() else float("inf")
    within = ours.dtype.kind == "f" and tolerance > 0 and largest <= tolerance * magnitude
    guilty = differs & ~(far <= tolerance * magnitude)
    first = int(np.argmax(guilty if guilty.any() else differs))
    element = tuple(int(i) for i in np.unravel_index(first, ours.shape))
    return Difference(sample, element, float(ours[element]), float(other[element]), largest, within)


def _bits(array: Array) -> Array:
    """The elements as unsigned integers: 0.0 and -0.0 are not the same."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def _nan(array: Array) -> Array:
    return np.isnan(array) if array.dtype.kind in "fc" else np.zeros(array.shape, bool)


def _numpy(graph: Graph, values: Mapping[Tensor, Array]) -> Iterator[tuple[Tensor, Array]]:
    """Every operator's outputs by its reference."""
    for node in graph.nodes:
        inputs = [None if t is None else t.data if t.data is not None else values[t] for t in node.inputs]
        with np.errstate(all="ignore"):
            outputs = operator(node).reference(node, inputs)
        yield from zip(node.outputs, outputs, strict=True)


def _add_peer(
    proof: Proof, peer: str, source: Source, inputs: list[list[Array]], wanted: list[Values], tolerance: float
) -> None:
    """A peer's outputs; it computes them in a process of its own, since it may crash."""
    outputs = proof.graph.outputs
    try:
        found = isolated(peer, source.content, inputs, len(outputs))
    except ToolError as error:
        proof.notes[peer] = str(error)
        return
    lines = {line.tensor: line for line in proof.lines}
    for i, (values, want) in enumerate(zip(found, wanted, strict=True)):
        for tensor, value in zip(outputs, values, strict=True):
            lines[tensor].add(peer, compare(i, want[tensor], value, tolerance))
