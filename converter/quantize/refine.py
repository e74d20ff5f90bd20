"""Makes a quantised graph better at hardly any cost at run time: tries ranges and fits weights, and keeps what samples
gain by that neither ranges nor weights come from.

First whether last functions are floats, where outputs are, and normalisations have 16 bits inside (``chains``). Then
how ranges are chosen: by one method everywhere, then by another one for halves, quarters … of the tensors. Then weights
and biases are fitted (``fit``). Each third of the samples judges what comes from the other two; a change that gains
more than its own uncertainty is then made from all.
No clock is read, so that the same samples give the same bits: at most TRIALS graphs run on at most FITTED samples, and
on fewer where that would take more than WORK.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from re import escape

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.quantize.calibrate import calibrate, streams
from twinfer.converter.quantize.chains import chains
from twinfer.converter.quantize.compare import decibels, outputs_of
from twinfer.converter.quantize.fit import can_fit, fitted
from twinfer.converter.quantize.observed import Calibration
from twinfer.converter.quantize.quantize import PLAIN, Options, quantize
from twinfer.converter.quantize.recipe import Choice, Recipe, Rule
from twinfer.converter.quantize.samples import Sample, Samples, need_to_last, samples_of
from twinfer.converter.table import row_of
from twinfer.runtime.graph import Array, Graph, Node, Tensor, consumers
from twinfer.runtime.options import Options as PlanOptions
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.price import instructions
from twinfer.runtime.target import DSP

#: Methods that are tried beside the recipe's own.
METHODS = ("minmax", "extended", "percentile-99.99", "mse")

#: Most samples, and parts of them of which each one judges what the others were fitted to; most graphs that ranges are
#: tried with; parts of the tensors that get another method.
FITTED, FOLDS, TRIALS, PARTS = 64, 3, 16, (1, 2, 4)

#: Multiplications that trials may take, and so may fits: about twenty seconds of one core.
WORK = 100_000_000_000

#: The least gain that a change is kept for, in dB, and how many of its standard errors it must be above that.
LEAST_DB, SURE = 0.3, 1.5

#: The least gain of what chains give that is worth 16 bits in them, in dB; the most instructions and RAM that they may
#: cost, as shares of all; bytes of RAM that they may cost anyway.
LEAST_WIDE_DB, MOST_WIDE, FEW_BYTES = 1.0, 0.2, 512

#: Results of a last function that may be computed in float: an exponential each.
FEW = 64

#: How far from 0, or for SOFTMAX below the greatest value, what a function reads is judged: far beyond where it tells
#: values apart, so that samples count for which it says 0 or 1, but not to masks.
FLAT = {"LOGISTIC": 20.0, "SOFTMAX": 20.0, "TANH": 10.0}

#: Of an output, so many dB count at most.
MOST_DB = 80.0


@dataclass(frozen=True)
class Refined:
    """The graph, and what it came from: the recipe with its methods, and whether weights were fitted."""

    graph: Graph
    recipe: Recipe
    fitted: bool


class Judge:
    """The float graph's outputs on some samples. ``inner``: where an output is a function that is flat at its ends
    (FLAT), its input is judged. Of a wake word's probabilities nearly all are 0 or 1, whatever the layers before give;
    the one sample in between would decide alone."""

    def __init__(self, graph: Graph, samples: Sequence[Sample], *, inner: bool = False) -> None:
        self._samples = samples
        ends = [(i, t) for i, t in enumerate(graph.outputs) if t.type == "FLOAT32" and t.data is None]
        self._ends = [(i, _flat(graph, t) if inner else None) for i, t in ends]
        self._wanted = list(self._values(graph))
        self.signal = np.array([[np.square(wanted).sum() for wanted in each] for each in self._wanted])

    def noise(self, quantized: Graph) -> NDArray[np.float64]:
        """The squared error by sample and output, [samples, outputs]."""
        noise = []
        with np.errstate(invalid="ignore", over="ignore"):  # float operators may divide by a quantised 0
            for wanted, got in zip(self._wanted, self._values(quantized), strict=True):
                noise.append([np.square(w - g).sum() for w, g in zip(wanted, got, strict=True)])
        return np.nan_to_num(np.array(noise), nan=np.inf)

    def _values(self, graph: Graph) -> Iterator[list[NDArray[np.float64]]]:
        """What is judged of each sample; the quantised graph has tensors of the same names."""
        named = {t.name: t for node in graph.nodes for t in node.outputs}
        outputs = [graph.outputs[i] if flat is None else named[flat.input(0).name] for i, flat in self._ends]
        for values in outputs_of(replace(graph, outputs=tuple(outputs), signatures=()), self._samples):
            pairs = zip(values, self._ends, strict=True)
            yield [value if flat is None else _cut(value, flat.op) for value, (_, flat) in pairs]

    def db(self, quantized: Graph) -> float:
        """The mean over the outputs of their ratios to the float graph's."""
        return ratio(self.signal.sum(0), self.noise(quantized).sum(0))


def _flat(graph: Graph, output: Tensor) -> Node | None:
    """The function of FLAT that the output is, perhaps in another shape; None if it is none."""
    makers = {t: node for node in graph.nodes for t in node.outputs}
    node = makers.get(output)
    while node is not None and node.op == "RESHAPE":
        node = makers.get(node.input(0))
    return node if node is not None and node.op in FLAT and node.input(0) in makers else None


def _cut(value: NDArray[np.float64], op: str) -> NDArray[np.float64]:
    """The input of a function of FLAT without what is beyond."""
    if op == "SOFTMAX":
        value = value - value.max(axis=-1, keepdims=True)
    return np.asarray(np.clip(value, -FLAT[op], FLAT[op]))


def ratio(signal: NDArray[np.float64], noise: NDArray[np.float64]) -> float:
    """The mean over the outputs of the ratios of their energies in dB, [outputs]."""
    pairs = zip(signal, noise, strict=True)
    ratios = [max(-MOST_DB, min(MOST_DB, decibels(float(s), float(n)))) for s, n in pairs]
    return sum(ratios) / max(1, len(ratios))


def gain(signal: NDArray[np.float64], before: NDArray[np.float64], after: NDArray[np.float64]) -> float:
    """By how many dB the ratio has surely risen, from energies [samples, outputs]: what it gains, less SURE of the
    gain's standard error (by the jackknife: each sample left out in turn)."""
    count = len(signal)
    left = [np.arange(count) != i for i in range(count)] if count > 1 else []
    gains = [ratio(signal[at].sum(0), after[at].sum(0)) - ratio(signal[at].sum(0), before[at].sum(0)) for at in left]
    whole = ratio(signal.sum(0), after.sum(0)) - ratio(signal.sum(0), before.sum(0))
    return whole - SURE * float(np.std(gains)) * (count - 1) ** 0.5 if count > 1 else 0.0


def refine(
    graph: Graph,
    seen: Calibration,
    recipe: Recipe,
    options: Options = PLAIN,
    samples: Samples = (),
) -> Refined:
    """The quantised twin of a float graph, refined. ``seen`` is what calibration saw of it. Weights are fitted to the
    ``samples``.

    Errors as those of ``calibrate`` and ``quantize``; InvalidArgumentError for an iterator.
    """
    need_to_last(samples)
    most = min(FITTED, max(8, WORK // (TRIALS * (macs := max(1, make_plan(graph).macs)))))
    own = list(islice(samples_of(graph, samples), most))
    parts = _parts(own, streams(graph))
    judges = [Judge(graph, part, inner=True) for part in parts]
    others = [[s for part in parts if part is not judged for s in part] or own for judged in parts]
    signal = np.concatenate([judge.signal for judge in judges])

    def noise(graphs: Sequence[Graph]) -> NDArray[np.float64]:
        return np.concatenate([judge.noise(each) for judge, each in zip(judges, graphs, strict=True)])

    with warnings.catch_warnings(action="ignore"):  # calibration has warned already
        known = [calibrate(graph, [_named(s) for s in other], types=recipe.types) for other in others]

    def quantised(recipe: Recipe) -> list[Graph]:
        """By ranges of the others' samples, for each part."""
        return [quantize(graph, each, recipe, options) for each in known]

    def better(one: Graph, *others: Graph) -> bool:
        """Whether the others, one for each part or one for all, are better with the same ranges."""
        return gain(signal, noise([one] * len(parts)), noise((others * len(parts))[: len(parts)])) >= LEAST_DB

    best, plain = recipe, quantize(graph, seen, recipe, options)
    if ends := _ends(graph, recipe, options):
        tried = replace(best, rules=(*best.rules, Rule(_names(n.output for n in ends), precision="float")))
        outer = Judge(graph, own)
        best = tried if outer.db(quantize(graph, seen, tried, options)) >= outer.db(plain) else best
    now = noise(quantised(best))
    if (wide := _wide(graph, seen, best, options, own)) is not None:
        after = noise(quantised(wide))
        if ratio(signal.sum(0), after.sum(0)) >= ratio(signal.sum(0), now.sum(0)):
            best, now = wide, after
    trials = min(TRIALS, max(len(METHODS), WORK // (most * macs)))
    for rule in _rules(graph, seen):
        tried = replace(best, rules=(*best.rules, rule))
        if not trials or _choices(graph, tried) == _choices(graph, best):
            continue
        trials -= 1
        if gain(signal, now, after := noise(quantised(tried))) >= LEAST_DB:
            best, now = tried, after
    result, fits = quantize(graph, seen, best, options), False
    if can_fit(graph):
        whole, how = fitted(graph, result, own)
        fits = better(result, whole)  # else samples that it has not seen gain less
        fits = fits and better(result, *(fitted(graph, result, other, how)[0] for other in others))
        result = whole if fits else result
    return Refined(result, best, fits)


def _named(sample: Sample) -> dict[str, Array]:
    return {tensor.name: value for tensor, value in sample.items()}


def _parts(samples: Sequence[Sample], stream: bool) -> list[list[Sample]]:
    """FOLDS parts of the samples, of a stream in its order; each of at least one sample."""
    count = min(FOLDS, len(samples))
    ends = [i * len(samples) // count for i in range(count + 1)]
    return [list(samples[low:high] if stream else samples[i::count]) for i, (low, high) in enumerate(pairwise(ends))]


def _ends(graph: Graph, recipe: Recipe, options: Options) -> list[Node]:
    """Functions with few results, all of them outputs that are floats anyway: in integers their results would have the
    scale that TFLite says, 1/256 for LOGISTIC, whatever they are."""
    if options.border(recipe) != "FLOAT32":
        return []
    read = consumers(graph)
    alone = [n for n in graph.nodes if len(n.outputs) == 1 and n.output in graph.outputs and not read.get(n.output)]
    small = [n for n in alone if n.output.size <= FEW and not recipe.sets_precision(n)]
    return [n for n in small if row_of(n).scales.fixed(recipe.default.type) is not None]


def _wide(graph: Graph, seen: Calibration, recipe: Recipe, options: Options, own: Sequence[Sample]) -> Recipe | None:
    """The recipe with 16 bits in chains, if what the layers behind these read surely gains, at little cost. This is
    judged because it has many values: of a wake word's one, few samples say little. 16 bits fit to nothing, so that the
    samples may be those of the ranges."""
    inner = dict.fromkeys(t for node in chains(graph, seen, recipe) for t in node.outputs)
    behind: dict[Tensor | None, tuple[str, int]] = {t: ("", i) for i, t in enumerate(graph.outputs) if t in inner}
    for node in graph.nodes:
        if node.outputs and node.outputs[0] not in inner and node.op != "QUANTIZE":  # its twin may be gone
            behind |= {t: (node.outputs[0].name, i) for i, t in enumerate(node.inputs) if t in inner}
    if not behind:
        return None
    wide = replace(recipe, rules=(*recipe.rules, Rule(_names(inner), precision="int16x8")))
    twins = [quantize(graph, seen, each, options) for each in (recipe, wide)]
    plans = [make_plan(each, DSP, PlanOptions(memory="layers")) for each in twins]
    (fast, slow), (small, large) = [instructions(p.steps, DSP) for p in plans], [p.arena_bytes for p in plans]
    if slow > (1 + MOST_WIDE) * fast or large > (1 + MOST_WIDE) * small + FEW_BYTES:
        return None
    judge = Judge(_until(graph, behind.values()), own)
    noise = (judge.noise(_until(each, behind.values())) for each in twins)
    return wide if gain(judge.signal, *noise) >= LEAST_WIDE_DB else None


def _until(graph: Graph, ends: Iterable[tuple[str, int]]) -> Graph:
    """The graph, or its quantised twin, with these inputs of nodes as outputs. Nodes go by the names of their first
    outputs; without one it is an output of the graph."""
    named = {node.outputs[0].name: node for node in graph.nodes if node.outputs}
    outputs = (named[name].input(i) if name else graph.outputs[i] for name, i in ends)
    return replace(graph, outputs=tuple(outputs), signatures=())


def _choices(graph: Graph, recipe: Recipe) -> list[Choice]:
    return [*map(recipe.of_input, graph.inputs), *map(recipe.of_node, graph.nodes)]


def _rules(graph: Graph, seen: Calibration) -> Iterator[Rule]:
    """Rules to try: another method for all tensors, then for parts."""
    tensors = [t for t in dict.fromkeys((*graph.inputs, *(t for n in graph.nodes for t in n.outputs))) if t in seen]
    for parts in PARTS:
        size = -(-len(tensors) // parts)
        for low in range(0, len(tensors), size):
            yield from (Rule(_names(tensors[low : low + size]), method=method) for method in METHODS)


def _names(tensors: Iterable[Tensor]) -> str:
    return "|".join(escape(t.name) for t in tensors)
