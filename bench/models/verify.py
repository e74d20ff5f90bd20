"""The twin proof: compares every tensor of a model as numpy, interpreter, compiled code and peers compute it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from twinfer.aot.build.compiled import CompiledModel
from twinfer.bench.models.observe import Values, initial_state, observe, run_whole
from twinfer.bench.models.source import Source
from twinfer.bench.models.zero_division import divided_by_zero
from twinfer.bench.peers.engines import isolate, peers, trusted
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Array, Graph, Node, Tensor
from twinfer.runtime.op import TOLERANCE
from twinfer.runtime.options import USUAL, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.registry import operator
from twinfer.runtime.run.inputs import random_inputs, special_inputs
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.poison import POISONS

#: Our own engines that the interpreter is compared with, which runs layer by layer. rows: the same by rows.
OWN = ("numpy", "rows", "compiled")


@dataclass(frozen=True)
class Samples:
    """The samples of a proof: ``count`` random inputs, the first from ``seed``."""

    count: int = 1
    seed: int = 0

    def inputs(self, graph: Graph) -> list[list[Array]]:
        """The graph's inputs, once for each sample."""
        return [random_inputs(graph, self.seed + i) for i in range(self.count)]


#: The number of samples that are special values.
SPECIAL = -1

#: One sample of seed 0.
ONE = Samples()


@dataclass
class Line:
    """One tensor: the node that writes it and, per engine that computes it, the worst difference (None: the same
    bits)."""

    tensor: Tensor
    node: Node | None
    differences: dict[str, Difference | None] = field(default_factory=dict)

    def add(self, engine: str, difference: Difference | None) -> None:
        old = self.differences.get(engine)
        if old is None or (difference is not None and difference.badness > old.badness):
            self.differences[engine] = difference


@dataclass
class Proof:
    """The matrix of a model: ``others`` against the interpreter. ``notes``: why one of them gave no outputs, or
    none that count.

    ``special``: whether special values were tried beside the samples, and ``unheld``: why they were not held against a
    peer.

    ``by_zero``: output of an integer DIV -> the number of its elements divided by 0. No engine decides about these:
    LiteRT aborts, TFLM forbids it.
    """

    model: str
    graph: Graph
    lines: list[Line]
    samples: int
    notes: dict[str, str] = field(default_factory=dict)
    others: Sequence[str] = field(default_factory=lambda: (*OWN, *trusted()))
    by_zero: Counter[Tensor] = field(default_factory=Counter)
    special: bool = False
    unheld: dict[str, str] = field(default_factory=dict)

    @property
    def judges(self) -> list[str]:
        """The engines that decide: our own, and the most trusted peer of those that ran the model.

        Peers legitimately differ from one another.
        """
        ran = [peer for peer in trusted() if any(peer in line.differences for line in self.lines)]
        return [*(engine for engine in self.others if engine not in trusted()), *ran[:1]]

    def faults(self) -> Iterator[tuple[Line, str, Difference]]:
        """The differences that are faults, in execution order."""
        for line in self.lines:
            for engine in self.judges:
                difference = line.differences.get(engine)
                if difference is not None and not difference.within:
                    yield line, engine, difference

    @property
    def unrun(self) -> list[str]:
        """Targets that could not run the model. Peers that could not do not count."""
        return [engine for engine in self.notes if engine not in peers()]

    @property
    def proven(self) -> bool:
        return next(self.faults(), None) is None and not self.by_zero


def verify(
    source: Source,
    against: Sequence[str] = (),
    options: Options = USUAL,
    samples: Samples = ONE,
    progress: Callable[[float], None] = lambda share: None,
) -> Proof:
    """Compares all engines, with the peers in ``against``, on every sample from fresh state.

    numpy computes every operator by its ``reference`` from the inputs that it has in the interpreter, so that an error
    shows at its own operator only. Interpreter and compiled code run the plan that users run, step by step and then in
    one call, both times over rubbish; the plan by rows runs in one call, for its outputs. With ``guard`` every step is
    watched, and GuardError names a wrong one; then nothing runs by rows. All other ``options`` are for compiled code.
    Beside the samples it tries special values (``special_inputs``), unless the model branches, loops or has variables
    with names: such a model is compared in its outputs alone, without numpy, because its tensors have no single value.
    Errors of planning and compiling are raised.
    """
    twins = _twins(make_plan(source.graph).graph, options)
    graph = twins.interpreted.plan.graph
    stepwise = twins.interpreted.plan.stepwise
    others = (*(OWN if stepwise else OWN[1:]), *trusted())
    proof = Proof(source.name, graph, lines_of(graph, outputs_alone=not stepwise), samples.count, others=others)
    proof.special = stepwise and bool(graph.inputs)
    runs = list(enumerate(samples.inputs(graph)))
    runs += [(SPECIAL, inputs) for inputs in special_inputs(graph)] if proof.special else []
    wanted: list[Values] = []
    for sample, inputs in runs:
        wanted.append(_prove_sample(proof, sample, inputs, twins))
        progress(len(wanted) / (len(runs) + len(against)))
    for k, peer in enumerate(against):
        _hold(proof, peer, source, runs, wanted)
        progress((len(runs) + k + 1) / (len(runs) + len(against)))
    return proof


def _hold(
    proof: Proof, peer: str, source: Source, runs: Sequence[tuple[int, list[Array]]], wanted: Sequence[Values]
) -> None:
    """Adds a peer's results of all runs, but for special values that it is known to treat otherwise, or refuses.

    If the samples meet a known fault of the peer and its results differ, a note takes their place.
    """
    from twinfer.bench.known.faults import known_faults

    held, why = list(zip(runs, wanted, strict=True)), {True: "", False: ""}  # of special values, of samples
    for (sample, inputs), values in held:
        known, special = {**dict(zip(proof.graph.inputs, inputs, strict=True)), **values}, sample == SPECIAL
        why[special] = why[special] or next(known_faults(proof.graph, peer, known), "")
    if why[True]:
        proof.unheld[peer] = why[True]
    usual = [each for each in held if each[0][0] != SPECIAL]
    held = usual if peer in proof.unheld else held
    answer = _asked(peer, source, [inputs for (_, inputs), _ in held])
    if isinstance(answer, str) and len(held) > len(usual):
        refusal, answer = answer, _asked(peer, source, [inputs for (_, inputs), _ in usual])
        if not isinstance(answer, str):
            proof.unheld[peer], held = refusal, usual
    if isinstance(answer, str):
        proof.notes[peer] = answer
        return
    results = [
        (tensor, compare(i, want[tensor], value, TOLERANCE))
        for outputs, ((i, _), want) in zip(answer, held, strict=True)
        for tensor, value in zip(proof.graph.outputs, outputs, strict=True)
    ]
    if why[False] and any(difference is not None and not difference.within for _, difference in results):
        proof.notes[peer] = f"its outputs differ by a known fault: {why[False]}"
        return
    lines = {line.tensor: line for line in proof.lines}
    for tensor, difference in results:
        lines[tensor].add(peer, difference)


@dataclass(frozen=True)
class _Twins:
    """The interpreter and its twins, all ready to run."""

    interpreted: Interpreter
    by_rows: Interpreter
    compiled: CompiledModel


def _twins(graph: Graph, options: Options) -> _Twins:
    """The interpreter layer by layer and by rows, and compiled code."""
    usual = Options(guard=options.guard, floats=options.floats)
    layers, rows = replace(usual, memory="layers"), replace(usual, memory="rows")
    interpreted, by_rows = Interpreter.from_graph(graph, layers), Interpreter.from_graph(graph, rows)
    compiled = CompiledModel.from_graph(graph, replace(options, memory="layers"))
    for twin in (interpreted, by_rows, compiled):
        twin.allocate_tensors()
    return _Twins(interpreted, by_rows, compiled)


def lines_of(graph: Graph, outputs_alone: bool = False) -> list[Line]:
    """One line per tensor that a node writes and per output that none writes; or one per output only."""
    makers = {tensor: node for node in graph.nodes for tensor in node.outputs}
    tensors = graph.outputs if outputs_alone else dict.fromkeys((*makers, *graph.outputs))
    return [Line(tensor, makers.get(tensor)) for tensor in tensors]


def _prove_sample(proof: Proof, i: int, sample: list[Array], twins: _Twins) -> Values:
    """Adds the results of our own engines for sample ``i``; returns the interpreter's values."""
    interpreted = twins.interpreted
    graph, lines = proof.graph, {line.tensor: line for line in proof.lines}
    state, stepwise = initial_state(interpreted), interpreted.plan.stepwise
    want = run_whole(interpreted, sample, POISONS[0])
    if stepwise:
        want = {**observe(interpreted, sample), **want}
        proof.by_zero.update(divided_by_zero(graph, want) if i != SPECIAL else ())
    runs = [("compiled", observe(twins.compiled, sample))] if stepwise else []
    runs += [("compiled", run_whole(twins.compiled, sample, byte)) for byte in POISONS]
    runs += [("rows", run_whole(twins.by_rows, sample, byte)) for byte in POISONS]
    for engine, values in runs:
        for tensor in lines.keys() & values.keys():
            lines[tensor].add(engine, compare(i, want[tensor], values[tensor], 0.0))
    known = {**state, **dict(zip(graph.inputs, sample, strict=True)), **want}
    for node in graph.nodes if stepwise else ():  # numpy: every operator by its reference
        operands = [None if t is None else t.data if t.data is not None else known[t] for t in node.inputs]
        with np.errstate(all="ignore"):
            outputs = operator(node).reference(node, operands)
        for tensor, value in zip(node.outputs, outputs, strict=True):
            lines[tensor].add("numpy", compare(i, want[tensor], value, TOLERANCE))
    return want


def _asked(peer: str, source: Source, inputs: Sequence[list[Array]]) -> Sequence[list[Array]] | str:
    """A peer's outputs for every sample, computed in a process of its own, because it may crash; or why it refuses."""
    try:
        return isolate(peer, source.content, inputs, len(source.graph.outputs))
    except ToolError as error:
        return str(error)


# -- differences -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """The first element in which an engine differs from the interpreter, and the largest difference in the tensor."""

    sample: int
    element: tuple[int, ...]
    interpreted: float
    other: float
    largest: float
    within: bool  # of the tolerance

    @property
    def badness(self) -> tuple[bool, float]:
        return not self.within, self.largest


def compare(sample: int, ours: Array, other: Array, tolerance: float) -> Difference | None:
    """None for the same bits; else where and by how much two values of a tensor differ."""
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
    """The elements as unsigned integers, which tell 0.0 from -0.0."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def _nan(array: Array) -> Array:
    return np.isnan(array) if array.dtype.kind in "fc" else np.zeros(array.shape, bool)
