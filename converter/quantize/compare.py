"""How far a quantised graph is from its float graph: tensor by tensor, and which layer costs most."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.compress.layers import Footprint, footprints
from twinfer.converter.quantize.affine import LIMITS, real, to_stored
from twinfer.converter.quantize.calibrate import Progress, run, streams
from twinfer.converter.quantize.masks import FAR
from twinfer.converter.quantize.observed import Calibration, Observed
from twinfer.converter.quantize.samples import Sample, Samples, count_of, need_to_last, samples_of
from twinfer.converter.quantize.walk import graph_of
from twinfer.runtime.affine import dequantize
from twinfer.runtime.graph import Array, Graph, Node, Tensor
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.session import Session

#: Bars of a tensor's histogram.
BARS = 32

#: The signal-to-noise ratio of tensors that are equal; JSON has no infinity.
PERFECT_DB = 300.0


def decibels(signal: float, noise: float) -> float:
    """The ratio of two energies in dB, from -``PERFECT_DB`` to ``PERFECT_DB``. The least one if there is noise
    but no signal, or if the noise is infinite or NaN."""
    if noise == 0:
        return PERFECT_DB
    if signal == 0 or not math.isfinite(noise):
        return -PERFECT_DB
    return min(PERFECT_DB, max(-PERFECT_DB, 10 * (math.log10(signal) - math.log10(noise))))


#: The least range that an error is a share of: results of an input of zeros may be no more than what rounding leaves.
LEAST_RANGE = 1e-2


def share_of_range(got: Array, want: Array) -> float:
    """The largest error of floats as a share of the range from the least wanted value, or 0, to the greatest. Where
    infinity or NaN is wanted nothing is compared."""
    finite = np.isfinite(want)
    got, want = got[finite].astype(np.float64), want[finite].astype(np.float64)
    span = max(float(want.max(initial=0) - want.min(initial=0)), LEAST_RANGE)
    return float(np.nan_to_num(np.abs(got - want), nan=np.inf).max(initial=0)) / span


def in_words(snr_db: float) -> str:
    """A ratio in dB; the least one is explained."""
    return f"{snr_db:.1f} dB" if snr_db > -PERFECT_DB else f"{snr_db:.0f} dB (all of it is noise)"


@dataclass(frozen=True)
class TensorReport:
    """One tensor over all samples: the float graph's values beside the real values of the quantised graph's integers.

    ``snr_db``: ratio of the energies of values and differences. ``cosine`` of the angle between both. ``saturated``:
    share of the float values outside the integers' range. ``edges`` and ``counts``: histogram of the float values;
    ``quantized_counts``: of the quantised ones.
    """

    name: str
    operator: str
    type: str
    scale: float
    zero_point: int
    snr_db: float
    cosine: float
    saturated: float
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    quantized_counts: tuple[int, ...]

    @property
    def reach(self) -> tuple[float, float]:
        """The least and the greatest value that the tensor's integers stand for."""
        if self.type not in LIMITS:
            return -math.inf, math.inf
        low, high = ((limit - self.zero_point) * self.scale for limit in LIMITS[self.type])
        return low, high


@dataclass(frozen=True)
class OutputReport:
    """One output's signal-to-noise ratio."""

    name: str
    snr_db: float


def worst_first(ratios: Iterable[tuple[str, float]]) -> tuple[OutputReport, ...]:
    return tuple(sorted((OutputReport(*ratio) for ratio in ratios), key=lambda output: output.snr_db))


@dataclass(frozen=True)
class Sensitivity:
    """The signal-to-noise ratio of the output that suffers most if this node alone is quantised."""

    name: str
    operator: str
    snr_db: float


@dataclass(frozen=True)
class Report:
    """The reports of all tensors and layers, in the order of the graph; of the ``outputs``, the worst first.
    ``compression``: the weights of every layer of the quantised graph."""

    samples: int = 0
    outputs: tuple[OutputReport, ...] = ()
    tensors: tuple[TensorReport, ...] = ()
    sensitivity: tuple[Sensitivity, ...] = ()
    compression: tuple[Footprint, ...] = ()

    @property
    def outputs_snr_db(self) -> float | None:
        """The ratio of the worst output; None if none were compared."""
        return self.outputs[0].snr_db if self.outputs else None

    def json(self) -> dict[str, Any]:
        return {**asdict(self), "outputs_snr_db": self.outputs_snr_db}


def _dot(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """The sum of products. On a busy computer the threads of BLAS wait for each other: 3 ms for 15,000 elements."""
    return float(np.einsum("i,i", x, y))


class Sums:
    """Running sums over a tensor's wanted and actual values."""

    def __init__(self) -> None:
        self.signal = self.noise = self.other = self.cross = 0.0
        self.count = 0

    def add(self, real: Array, near: NDArray[np.float64]) -> None:
        x, y = real.astype(np.float64).reshape(-1), near.reshape(-1)
        with np.errstate(invalid="ignore", over="ignore"):  # float operators may divide by a quantised 0
            self.signal += _dot(x, x)
            self.other += _dot(y, y)
            self.cross += _dot(x, y)
            self.noise += _dot(x - y, x - y)
        self.count += x.size

    @property
    def snr_db(self) -> float:
        return decibels(self.signal, self.noise)

    @property
    def cosine(self) -> float:
        if self.signal == 0 or self.other == 0 or not math.isfinite(self.other):
            return 1.0 if self.signal == self.other else 0.0
        return min(1.0, self.cross / math.sqrt(self.signal) / math.sqrt(self.other))


def compare(
    graph: Graph, quantized: Graph, samples: Samples, seen: Calibration, progress: Progress | None = None
) -> Report:
    """Runs both graphs on every sample and compares the tensors that have the same name in both.

    ``seen`` (of ``calibrate``) gives the ranges of the histograms. Errors as those of ``calibrate``.
    """
    both = Both(graph, quantized)
    order = dict.fromkeys((*graph.inputs, *(t for node in graph.nodes for t in node.outputs)))
    pairs = [(t, both.twins[t.name]) for t in order if t in seen and t.name in both.twins]
    tallies = {t: _Tally(t, twin, seen[t]) for t, twin in pairs}
    count = 0
    total = count_of(graph, samples) if progress else None
    for sample in samples_of(graph, samples):
        both.run(sample)
        for tensor, tally in tallies.items():
            tally.add(both.float.view(tensor), both.quantized.view(tally.twin))
        count += 1
        if progress is not None:
            progress(count, total)
    makers = {t: node.op for node in graph.nodes for t in node.outputs}
    outputs = worst_first((t.name, tallies[t].sums.snr_db) for t in dict.fromkeys(graph.outputs) if t in tallies)
    tensors = tuple(tally.report(makers.get(t, "INPUT")) for t, tally in tallies.items())
    return Report(count, outputs, tensors, compression=footprints(quantized))


def feed(session: Session, sample: Sample) -> None:
    inputs = zip(sample.values(), session.plan.graph.inputs, strict=True)
    run(session, {tensor: to_stored(value, tensor) for value, tensor in inputs})


def outputs_of(graph: Graph, samples: Iterable[Sample]) -> Iterator[list[NDArray[np.float64]]]:
    """The real values of the outputs for each sample."""
    session = Session(make_plan(graph))
    for sample in samples:
        feed(session, sample)
        yield [real(*each) for each in zip(session.outputs(), session.plan.graph.outputs, strict=True)]


class Both:
    """A float graph and its quantised twin, run on the same samples; ``twins``: the twin's tensors by name."""

    def __init__(self, graph: Graph, quantized: Graph) -> None:
        self.float = Session(make_plan(graph, options=Options(preserve_all=True)))
        self.quantized = Session(make_plan(quantized, options=Options(preserve_all=True)))
        plan = self.quantized.plan
        self.twins = {t.name: t for t in plan.graph.tensors if t in plan.offsets and t.type in ("FLOAT32", *LIMITS)}

    def run(self, sample: Sample) -> None:
        feed(self.float, sample)
        feed(self.quantized, sample)


def _reach(tensor: Tensor) -> tuple[float, float]:
    """The values that round to an integer of the tensor's type."""
    if tensor.quant is None or tensor.type not in LIMITS:
        return -math.inf, math.inf
    low, high = dequantize(np.array(LIMITS[tensor.type]), tensor.quant)
    return float(low) - tensor.scale / 2, float(high) + tensor.scale / 2


class _Tally:
    """What is counted of one tensor while the samples run."""

    def __init__(self, tensor: Tensor, twin: Tensor, seen: Observed) -> None:
        low, high = seen.low, seen.high
        self.tensor, self.twin = tensor, twin
        self.sums = Sums()
        self.clipped = 0
        self.reach, self.masked = _reach(twin), any(seen.far)
        self.edges = np.linspace(low, high if high > low else low + 1, BARS + 1)
        self.counts = np.zeros((2, BARS), np.int64)

    def add(self, value: Array, q: Array) -> None:
        meant = real(q, self.twin)
        if self.masked:  # beyond, SOFTMAX sees no difference
            reach = max(self.reach[0], -FAR), min(self.reach[1], FAR)
            value, meant = np.clip(value, *reach), np.clip(meant, *reach)
        self.sums.add(value, meant)
        self.clipped += int(((value < self.reach[0]) | (value > self.reach[1])).sum())
        for row, values in zip(self.counts, (value, meant), strict=True):
            inside = np.clip(values.reshape(-1), self.edges[0], self.edges[-1])
            row += np.histogram(inside, self.edges)[0]

    def report(self, operator: str) -> TensorReport:
        twin, sums = self.twin, self.sums
        known = twin.quant is not None
        return TensorReport(
            self.tensor.name,
            operator,
            twin.type,
            twin.scale if known else 0.0,
            twin.zero if known else 0,
            sums.snr_db,
            sums.cosine,
            self.clipped / max(1, sums.count),
            tuple(self.edges.tolist()),
            tuple(self.counts[0].tolist()),
            tuple(self.counts[1].tolist()),
        )


#: The most runs, counted as nodes times samples; one sample always runs. So the time grows with the graph, not its
#: square.
MOST_RUNS = 10_000


def sensitivity(
    graph: Graph, quantized: Graph, samples: Samples, progress: Progress | None = None, runs: int | None = None
) -> tuple[Sensitivity, ...]:
    """The worst output's signal-to-noise ratio if one node alone is quantised; the costliest node comes first.

    Nodes that stay float are left out. The float graph runs once per sample. Then every quantised node runs alone on
    the values that its float twin saw, and the nodes after it run again. At most ``runs`` (MOST_RUNS) such runs take
    place: with many nodes only the first samples count. Errors as those of ``calibrate``; InvalidArgumentError for an
    iterator, because calibration has used it up.
    """
    layers = alone(graph, quantized, samples, progress, runs)
    ratios = ((node, min((total.snr_db for total in sums), default=PERFECT_DB)) for node, sums in layers)
    return tuple(sorted((Sensitivity(n.output.name, n.op, ratio) for n, ratio in ratios), key=lambda s: s.snr_db))


def alone(
    graph: Graph, quantized: Graph, samples: Samples, progress: Progress | None = None, runs: int | None = None
) -> list[tuple[Node, Sequence[Sums]]]:
    """Every node of ``graph`` that is quantised, with the sums over each float output if it alone is; as
    ``sensitivity``, in the order of the graph."""
    need_to_last(samples)
    bench = _Bench(graph, [quantized])
    most = max(1, (runs or MOST_RUNS) // max(1, len(bench.twins)))
    total = min(most, count_of(graph, samples) or most)
    for i, sample in enumerate(islice(samples_of(graph, samples), most)):
        bench.add(sample)
        if progress is not None:
            progress(i + 1, total)
    return [(twin.node, twin.sums) for twin in bench.twins]


#: The noise of outputs, as a share of their energy, up to which it counts as growing with that of the layer.
LINEAR = 0.01


def noises(graph: Graph, quantized: Sequence[Graph], samples: Sequence[Sample], runs: int) -> list[dict[Node, float]]:
    """For every graph of ``quantized`` the noise of each node that it alone quantises: the sum over the float outputs
    of their noise as a share of their energy.

    The nodes behind a quantised one run for the first of the graphs that quantises it. Where they are off by little,
    the noise of the others is as much less or more as at the node itself. At most ``runs`` such runs take place, but
    every node has one.
    """
    bench = _Bench(graph, quantized)
    for sample in samples[: max(1, runs // max(1, len({twin.position for twin in bench.twins})))]:
        bench.add(sample, LINEAR)
    found: list[dict[Node, float]] = [{} for _ in quantized]
    for twin in bench.twins:
        shares = (min(total.noise / max(total.signal, 1e-30), 1e6) for total in twin.sums)
        found[twin.which][twin.node] = sum(shares)
    return found


class _Twin:
    """A node of the float graph, the quantised one on its own, and how far the outputs are off by it."""

    def __init__(self, which: int, position: int, node: Node, quantized: Node) -> None:
        self.which, self.position, self.node = which, position, node
        self.sums: list[Sums] = []
        self.session, self.quantized = Session(make_plan(graph_of(quantized))), quantized
        self.states: Sequence[Array] = ()

    def run(self, floats: Session, stream: bool, wanted: Sequence[Array]) -> float:
        """Runs on the values in the float graph, and replaces the node's results, which are ``wanted``, by its own.
        Returns the energy of the difference.

        ``stream``: the whole graph's samples are parts of one, so that the node keeps its state, too.
        """
        pairs = zip(self.node.inputs, self.quantized.inputs, strict=False)  # inputs added at the end are constant
        if not stream:
            self.session.reset_variables()
        for t, twin in pairs:
            if t and twin in self.session.plan.graph.inputs:
                self.session.view(twin)[...] = to_stored(floats.view(t), twin)
        self.session.run()
        noise = 0.0
        for tensor, twin, want in zip(self.node.outputs, self.quantized.outputs, wanted, strict=True):
            got = real(self.session.view(twin), twin)
            noise += float(np.square(got - want, dtype=np.float64).sum())
            floats.view(tensor)[...] = got
        return noise


class _Bench:
    """The float graph, ready to be run from any step on, and the twins of its nodes in several quantised graphs."""

    def __init__(self, graph: Graph, quantized: Sequence[Graph]) -> None:
        self.session = Session(make_plan(graph, options=Options(preserve_all=True)))
        self.variables = self.session.plan.variables
        names = [{t.name: node for node in each.nodes for t in node.outputs} for each in quantized]
        steps = [(i, step.node) for i, step in enumerate(self.session.plan.steps)]
        found = ((w, i, n, by_name.get(n.output.name)) for i, n in steps for w, by_name in enumerate(names))
        self.twins = [_Twin(w, i, n, twin) for w, i, n, twin in found if twin and _types(n) != _types(twin)]
        self.stream = streams(graph)
        for twin in self.twins:
            twin.states = self._states()
        self.outputs = [t for t in self.session.plan.graph.outputs if t.type == "FLOAT32" and t.data is None]
        for twin in self.twins:
            twin.sums = [Sums() for _ in self.outputs]

    def add(self, sample: Sample, linear: float = 0.0) -> None:
        """One more sample. The last node comes first, so that nothing is overwritten that an earlier node reads.

        ``linear``: the share up to which a node's noise is taken from that of its first twin, without running what is
        behind it.
        """
        feed(self.session, sample)
        after, wanted = self._states(), [self.session.view(t).copy() for t in self.outputs]
        energies = [float(np.square(value, dtype=np.float64).sum()) for value in wanted]
        for _, group in groupby(reversed(self.twins), key=lambda twin: twin.position):
            twins = list(group)[::-1]
            values = [self.session.view(t).copy() for t in twins[0].node.outputs]
            base, before = 0.0, [math.inf]
            for twin in twins:
                self._restore(twin.states)
                own = twin.run(self.session, self.stream, values)
                if base and not self.stream and all(n <= linear * e for n, e in zip(before, energies, strict=True)):
                    for total, noise, energy in zip(twin.sums, before, energies, strict=True):
                        total.noise, total.signal = total.noise + noise * own / base, total.signal + energy
                    continue
                self.session.run_from(twin.position + 1)
                twin.states = self._states() if self.stream else twin.states
                gone = [total.noise for total in twin.sums]
                for tensor, value, total in zip(self.outputs, wanted, twin.sums, strict=True):
                    total.add(value, real(self.session.view(tensor), tensor))
                base, before = own, [t.noise - n for t, n in zip(twin.sums, gone, strict=True)]
        self._restore(after)

    def _states(self) -> list[Array]:
        return [self.session.view(t).copy() for t in self.variables]

    def _restore(self, states: Sequence[Array]) -> None:
        for tensor, value in zip(self.variables, states, strict=True):
            self.session.view(tensor)[...] = value


def _types(node: Node) -> list[str]:
    return [t.type for t in (*node.inputs, *node.outputs) if t is not None]
