"""Makes a quantised graph better at no cost at run time: tries ranges and corrections, and keeps what held-out samples
gain by.

First how ranges are chosen: by one method everywhere, then by another one for halves, quarters … of the tensors. Then
weights and biases are fitted (``fit``). No clock is read, so that the same samples give the same bits: at most TRIALS
graphs run on at most JUDGED samples, and on fewer where that would take more than WORK.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from re import escape

from twinfer.converter.quantize.affine import real
from twinfer.converter.quantize.compare import Sums, feed
from twinfer.converter.quantize.fit import can_fit, fitted
from twinfer.converter.quantize.observed import Calibration
from twinfer.converter.quantize.quantize import PLAIN, Options, quantize
from twinfer.converter.quantize.recipe import Recipe, Rule
from twinfer.converter.quantize.samples import Sample, Samples, need_to_last, samples_of
from twinfer.runtime.graph import Array, Graph, Tensor
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.session import Session

#: Methods that are tried beside the recipe's own.
METHODS = ("minmax", "percentile-99.99", "mse")

#: Most samples to fit weights to and to judge by; most graphs that ranges are tried with; parts of the tensors that
#: get another method.
FITTED, JUDGED, TRIALS, PARTS = 64, 32, 32, (2, 4, 8)

#: Multiplications that trials may take, and so may fits: about a minute of one core.
WORK = 300_000_000_000

#: The least gain that a change is kept for, in dB: less may be luck.
LEAST_DB = 0.1

#: Of an output, so many dB count at most.
MOST_DB = 80.0


@dataclass(frozen=True)
class Refined:
    """The graph, and what it came from: the recipe with its methods, and whether weights were fitted. ``before`` and
    ``after``: the ratio of outputs to the float graph's on the held-out samples in dB, the mean over the outputs."""

    graph: Graph
    recipe: Recipe
    fitted: bool
    before: float
    after: float


class Judge:
    """The float graph's outputs on some samples."""

    def __init__(self, graph: Graph, samples: Sequence[Sample]) -> None:
        self._samples = samples
        self._at = [i for i, t in enumerate(graph.outputs) if t.type == "FLOAT32" and t.data is None]
        self._wanted = list(self._outputs(graph))

    def _outputs(self, graph: Graph) -> Iterator[list[Array]]:
        session = Session(make_plan(graph))
        outputs = session.plan.graph.outputs
        for sample in self._samples:
            feed(session, sample)
            yield [real(session.view(outputs[i]), outputs[i]) for i in self._at]

    def db(self, quantized: Graph) -> float:
        """The mean over the outputs of their ratios to the float graph's."""
        sums = [Sums() for _ in self._at]
        for wanted, got in zip(self._wanted, self._outputs(quantized), strict=True):
            for total, want, value in zip(sums, wanted, got, strict=True):
                total.add(want, value)
        ratios = [max(-MOST_DB, min(MOST_DB, total.snr_db)) for total in sums]
        return sum(ratios) / max(1, len(ratios))


def refine(
    graph: Graph,
    seen: Calibration,
    recipe: Recipe,
    options: Options = PLAIN,
    samples: Samples = (),
    held_out: Samples | None = None,
) -> Refined:
    """The quantised twin of a float graph, refined. ``seen`` is what calibration saw of it.

    ``samples`` are what weights are fitted to, ``held_out`` what is judged by; without the latter every fourth sample
    is held out. Errors as those of ``calibrate`` and ``quantize``; InvalidArgumentError for an iterator.
    """
    need_to_last(samples)
    macs = max(1, make_plan(graph).macs)
    few = min(JUDGED, max(8, WORK // (TRIALS * macs)))
    own, held = _split(graph, samples, held_out)
    own, held = own[: max(8, WORK // (FITTED * macs))], held[:few]
    judge = Judge(graph, held)
    quantized = quantize(graph, seen, recipe, options)
    best = Refined(quantized, recipe, False, before := judge.db(quantized), before)
    if own:
        best = _with_ranges(
            graph, seen, options, judge, Judge(graph, own[: few - len(held)]), best, WORK // (few * macs)
        )
    if own and can_fit(graph):
        plain = best
        for compensate in (True, False):
            made = fitted(graph, plain.graph, own, compensate=compensate)
            if (after := judge.db(made)) >= best.after + LEAST_DB:
                best = replace(best, graph=made, fitted=True, after=after)
    return best


def _split(graph: Graph, samples: Samples, held_out: Samples | None) -> tuple[list[Sample], list[Sample]]:
    own = list(islice(samples_of(graph, samples), FITTED + JUDGED))
    if held_out is not None:
        return own[:FITTED], list(islice(samples_of(graph, held_out), JUDGED))
    held = own[3::4] or own
    return [s for i, s in enumerate(own) if i % 4 != 3 or len(own) < 4], held[:JUDGED]


def _with_ranges(
    graph: Graph, seen: Calibration, options: Options, held: Judge, others: Judge, best: Refined, most: int
) -> Refined:
    """The best of graphs whose ranges were chosen by other methods: everywhere, then for parts of the tensors. On the
    samples held out none may lose; on average over these and the others it must gain."""
    tensors = [t for t in dict.fromkeys((*graph.inputs, *(t for n in graph.nodes for t in n.outputs))) if t in seen]
    beside = others.db(best.graph)
    for names, method in islice(_changes(tensors), min(TRIALS, max(len(METHODS), most))):
        own = best.recipe
        default = own.default if names else replace(own.default, method=method)
        rules = (Rule("|".join(map(escape, names)), method=method),) if names else ()
        recipe = Recipe((*own.rules, *rules), default)
        made = quantize(graph, seen, recipe, options)
        after = held.db(made)
        if after < best.after:
            continue
        besides = others.db(made)
        if (after - best.after + besides - beside) / 2 >= LEAST_DB:
            best, beside = replace(best, graph=made, recipe=recipe, after=after), besides
    return best


def _changes(tensors: Sequence[Tensor]) -> Iterator[tuple[list[str], str]]:
    """Methods for all tensors, which no names stand for, then for parts."""
    yield from (([], method) for method in METHODS)
    for parts in PARTS:
        size = -(-len(tensors) // parts)
        for low in range(0, len(tensors), size):
            yield from (([t.name for t in tensors[low : low + size]], method) for method in METHODS)
