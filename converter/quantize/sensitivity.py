"""Finds the layer that costs most: each node of a quantised graph is put alone into the float graph."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from twinfer.converter.quantize.affine import fed, real
from twinfer.converter.quantize.calibrate import Progress, streams
from twinfer.converter.quantize.samples import Sample, Samples, count_of, need_to_last, samples_of
from twinfer.converter.report import PERFECT_DB, Sensitivity, Sums, feed
from twinfer.runtime.graph import Array, Graph, Node
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.session import Session

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
    need_to_last(samples)
    bench = _Bench(graph, quantized)
    most = max(1, (runs or MOST_RUNS) // max(1, len(bench.twins)))
    total = min(most, count_of(graph, samples) or most)
    for i, sample in enumerate(islice(samples_of(graph, samples), most)):
        bench.add(sample)
        if progress is not None:
            progress(i + 1, total)
    return tuple(sorted((twin.report() for twin in bench.twins), key=lambda s: s.snr_db))


class _Twin:
    """A node of the float graph, the quantised one on its own, and how far the outputs are off by it."""

    def __init__(self, position: int, node: Node, quantized: Node) -> None:
        self.position, self.node = position, node
        self.sums: list[Sums] = []
        inputs = [t for t in quantized.inputs if t is not None and t.data is None and not t.variable]
        tensors = [t for t in (*quantized.inputs, *quantized.outputs) if t is not None]
        kept = (*dict.fromkeys([*tensors, *quantized.extra.get("intermediates", ())]),)
        alone = Graph("one node", kept, (quantized,), tuple(dict.fromkeys(inputs)), quantized.outputs)
        self.session, self.quantized = Session(make_plan(alone)), quantized
        self.states: Sequence[Array] = ()

    def run(self, floats: Session, stream: bool) -> None:
        """Runs on the values in the float graph, and replaces the node's results by its own.

        ``stream``: the whole graph's samples are parts of one, so that the node keeps its state, too.
        """
        pairs = zip(self.node.inputs, self.quantized.inputs, strict=False)  # inputs added at the end are constant
        if not stream:
            self.session.reset_variables()
        for t, twin in pairs:
            if t and twin in self.session.plan.graph.inputs:
                self.session.view(twin)[...] = fed(floats.view(t), twin)
        self.session.run()
        for tensor, twin in zip(self.node.outputs, self.quantized.outputs, strict=True):
            floats.view(tensor)[...] = real(self.session.view(twin), twin)

    def report(self) -> Sensitivity:
        ratio = min((total.snr_db for total in self.sums), default=PERFECT_DB)
        return Sensitivity(self.node.output.name, self.node.op, ratio)


class _Bench:
    """The float graph, ready to be run from any step on, and the twins of its nodes."""

    def __init__(self, graph: Graph, quantized: Graph) -> None:
        self.session = Session(make_plan(graph, options=Options(preserve_all=True)))
        self.variables = self.session.plan.variables
        by_name = {t.name: node for node in quantized.nodes for t in node.outputs}
        pairs = [(step.node, by_name.get(step.node.output.name)) for step in self.session.plan.steps]
        self.twins = [_Twin(i, n, twin) for i, (n, twin) in enumerate(pairs) if twin and _types(n) != _types(twin)]
        self.stream = streams(graph)
        for twin in self.twins:
            twin.states = self._states()
        self.outputs = [t for t in self.session.plan.graph.outputs if t.type == "FLOAT32" and t.data is None]
        for twin in self.twins:
            twin.sums = [Sums() for _ in self.outputs]

    def add(self, sample: Sample) -> None:
        """One more sample. The last node comes first, so that nothing is overwritten that an earlier node reads."""
        feed(self.session, sample)
        after, wanted = self._states(), [self.session.view(t).copy() for t in self.outputs]
        for twin in reversed(self.twins):
            self._restore(twin.states)
            twin.run(self.session, self.stream)
            self.session.run_from(twin.position + 1)
            twin.states = self._states() if self.stream else twin.states
            for tensor, value, total in zip(self.outputs, wanted, twin.sums, strict=True):
                total.add(value, real(self.session.view(tensor), tensor))
        self._restore(after)

    def _states(self) -> list[Array]:
        return [self.session.view(t).copy() for t in self.variables]

    def _restore(self, states: Sequence[Array]) -> None:
        for tensor, value in zip(self.variables, states, strict=True):
            self.session.view(tensor)[...] = value


def _types(node: Node) -> list[str]:
    return [t.type for t in (*node.inputs, *node.outputs) if t is not None]
