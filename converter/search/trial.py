"""One trial: quantise by a setting, price the result, run it on the judged samples."""

from __future__ import annotations

import hashlib
import math
import operator
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from uuid import uuid4

import numpy as np

from twinfer.converter.loops import roll
from twinfer.converter.quantize.affine import real, to_stored
from twinfer.converter.quantize.calibrate import calibrate, run
from twinfer.converter.quantize.forms import precision_of
from twinfer.converter.quantize.observed import Calibration, Observed
from twinfer.converter.quantize.quantize import Options, quantize
from twinfer.converter.quantize.recipe import Choice
from twinfer.converter.quantize.rounding import grams
from twinfer.converter.search.costs import SHARES, Cost, Figures, figures, price, weights
from twinfer.converter.search.data import Arrays, Data
from twinfer.converter.search.loss import Judge, judge
from twinfer.converter.search.mix import Layers, mixes
from twinfer.converter.search.space import PRECISIONS, Setting
from twinfer.runtime.errors import InvalidArgumentError, ModelError, TwinferError
from twinfer.runtime.graph import Array, Graph, Node
from twinfer.runtime.options import USUAL, Technique
from twinfer.runtime.options import Options as PlanOptions
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.tflite import read
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import GENERIC, Target
from twinfer.runtime.write.tflite import write

#: The setting of the float model itself.
FLOAT = Setting("float", "")

#: How graphs are planned that only run here: a good order takes 0.2 s to find where 150 layers branch.
UNPLACED = frozenset[Technique]({"placement"})

#: Judged samples that say how much noise each layer adds.
NOISE_SAMPLES = 32


@dataclass(frozen=True)
class Trial:
    """The result of a setting: its cost; loss, score and outputs' signal-to-noise ratio, and the ratio that is sure
    (see ``loss.Judge``); the SHA-256 of its file; or its error. Instructions, flash and RAM on the target are estimated
    (``costs.Figures``). ``seconds``: the time that it took."""

    setting: Setting
    cost: int = 0
    loss: float = 0.0
    score: float = 0.0
    snr_db: float = 0.0
    sha256: str = ""
    error: str = ""
    instructions: int = 0
    flash: int = 0
    ram: int = 0
    sure_db: float = 0.0
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class Fold:
    """Samples that give ranges, what calibration saw of them, in the order of the model's tensors, and the samples that
    are judged by these ranges."""

    calibration: Arrays
    seen: tuple[Observed | None, ...]
    judged: Arrays

    @property
    def count(self) -> int:
        return len(next(iter(self.judged.values())))


@dataclass(frozen=True)
class Job:
    """All that a worker needs for every trial of a search. Unlike a Graph, it can be sent to one.

    ``key``: another for every job. ``model``: the optimised float graph's .tflite file. ``judge``: of what all folds
    judge. ``precisions``: those that layers may have. ``floats``: figures of the float model. ``hopeless``: a trial
    whose ratio is less in the first fold is judged by that one alone. ``options``: how trials are planned, for their
    costs. ``lost``: for integer types, names of the layers whose results they would lose (``quantize.lost``).
    """

    key: str
    model: bytes
    folds: tuple[Fold, ...]
    judge: Judge
    cost: str | Cost
    target: Target
    inference_type: str | None
    precisions: tuple[str, ...]
    floats: Figures
    hopeless: float = -math.inf
    options: PlanOptions = USUAL
    lost: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Samples that are judged."""
        return sum(fold.count for fold in self.folds)

    def result(self, setting: Setting, graph: Graph, results: Sequence[Array]) -> Trial:
        """The trial of a graph, by its price and what it gives; InvalidArgumentError if the cost is no whole number."""
        content, plan = write(graph), make_plan(graph, self.target, self.options)
        if isinstance(self.cost, str):
            cost = price(self.cost, plan, content, self.floats)
        else:
            amount = self.cost(graph, content, self.target)
            try:
                cost = operator.index(amount)
            except TypeError:
                raise InvalidArgumentError(f"a model cannot cost {amount!r}: give a whole number") from None
        judge = self.judge.first(len(results[0]))
        judged = judge.loss(results), judge.score(results), judge.snr_db(results)
        instructions, flash, ram = map(round, figures(plan))
        own = Trial(setting, cost, *judged, hashlib.sha256(content).hexdigest(), "", instructions, flash, ram)
        return replace(own, sure_db=judge.sure_db(results))

    def float_trial(self) -> Trial:
        """The trial of the float model itself, which loses nothing."""
        return self.result(FLOAT, roll(read(self.model)), self.judge.floats)


def make_job(
    model: bytes,
    data: Data,
    *,
    metric: str = "auto",
    cost: str | Cost = "flash",
    target: Target = GENERIC,
    inference_type: str | None = None,
    precisions: Sequence[str] = PRECISIONS,
    options: PlanOptions = USUAL,
    types: Collection[str] = (),
) -> Job:
    """Calibrates the float model and runs it on the judged samples. ``types``: those for which ``Job.lost`` is found.
    InvalidArgumentError for arguments that do not fit."""
    if isinstance(cost, str) and cost not in SHARES:
        raise InvalidArgumentError(f"{cost!r} is no cost; there are: {', '.join(SHARES)}")
    graph = read(model)
    if not any(precision_of(node, Choice()).precision != "float" for node in graph.nodes):
        raise InvalidArgumentError("nothing in this model can be quantised: search takes a float model")
    folds, made, lost = [], [], dict[str, tuple[str, ...]]()
    for given, judged in data.folds:
        seen = calibrate(graph, given, types=() if lost else types)
        lost = lost or {t: tuple(n.output.name for n in graph.nodes if _loses(n, seen, t)) for t in types}
        for observed in seen.values():
            observed.lost.clear()  # a search sees by itself what integers lose
        folds.append(Fold(given, tuple(seen.get(t) for t in graph.tensors), judged))
        made.append(outputs(graph, graph, judged))
    judges = judge(graph.outputs, joined(made), data.labels, metric)
    floats = figures(make_plan(roll(graph), target, options))
    about = cost, target, inference_type, tuple(precisions), floats
    return Job(uuid4().hex, model, tuple(folds), judges, *about, options=options, lost=lost)


def _loses(node: Node, seen: Calibration, type: str) -> bool:
    return any(type in seen[t].lost for t in node.outputs if t in seen)


def joined(parts: Sequence[Sequence[Array]]) -> list[Array]:
    """Outputs of one set of samples after the other."""
    return [np.concatenate(values) for values in zip(*parts, strict=True)]


def outputs(graph: Graph, floats: Graph, inputs: Arrays) -> list[Array]:
    """The values of a graph's outputs, [samples, *shape], for samples of the float graph's inputs. ModelError for a
    division of integers by 0."""
    divisions = [node for node in graph.nodes if node.op == "DIV" and node.output.quant and node.input(1).data is None]
    session = Session(make_plan(graph, options=PlanOptions(preserve_all=bool(divisions), without=UNPLACED)))
    names = [t.name for t in floats.inputs]
    values = [to_stored(inputs[name], t) for name, t in zip(names, graph.inputs, strict=True)]
    count = len(values[0])
    results = [np.empty((count, *t.shape), t.dtype) for t in graph.outputs]
    for i in range(count):
        run(session, {t: value[i] for t, value in zip(graph.inputs, values, strict=True)})
        for node in divisions:
            if (session.view(node.input(1)) == node.input(1).zero).any():
                raise ModelError(f"{node} divides by 0 on judged sample {i}, where {node.input(1)} rounds to 0")
        for t, into in zip(graph.outputs, results, strict=True):
            into[i] = session.view(t)
    return [value if t.quant is None else real(value, t) for t, value in zip(graph.outputs, results, strict=True)]


class Bench:
    """A job in a worker, with all that its trials share. ``made`` keeps their graphs, for who asks for them again."""

    def __init__(self, job: Job, made: dict[tuple[Setting, int], Graph] | None = None) -> None:
        self.job, self.made = job, made
        self.graph = read(job.model)
        pairs = (zip(self.graph.tensors, fold.seen, strict=True) for fold in job.folds)
        self.seen = [{t: observed for t, observed in each if observed is not None} for each in pairs]

    @cached_property
    def grams(self) -> list[dict[Any, Any]]:
        """Gram matrices for adaptive rounding; a worker computes them once."""
        return [dict(grams(self.graph, fold.calibration)) for fold in self.job.folds]

    def quantized(self, setting: Setting, fold: int = 0) -> Graph:
        """The float graph by the setting, with ranges of that fold; the float graph itself by "float"."""
        if self.made is not None and (setting, fold) in self.made:
            return self.made[setting, fold]
        if setting == FLOAT:
            return roll(self.graph)
        matrices = self.grams[fold] if "adaptive rounding" in setting.corrections else {}
        options = Options(self.job.inference_type, "bias correction" in setting.corrections, matrices)
        graph = roll(quantize(self.graph, self.seen[fold], setting.as_recipe(), options))
        if self.made is not None:
            self.made[setting, fold] = graph
        return graph

    def trial(self, setting: Setting) -> Trial:
        """The trial of a setting; a TwinferError becomes its ``error``."""
        start = time.perf_counter()
        try:
            first = self.quantized(setting)
            results = self._outputs(first, 0)
            for fold in range(1, len(self.job.folds)):
                if self.job.judge.first(len(results[0])).snr_db(results) >= self.job.hopeless:
                    results = joined([results, self._outputs(self.quantized(setting, fold), fold)])
            result = self.job.result(setting, first, results)
        except TwinferError as error:
            result = Trial(setting, error=str(error))
        return replace(result, seconds=time.perf_counter() - start)

    def _outputs(self, quantized: Graph, fold: int) -> list[Array]:
        """What the quantised graph gives on the fold's judged samples; ModelError if that is not finite."""
        results = outputs(quantized, self.graph, self.job.folds[fold].judged)
        for tensor, value in zip(quantized.outputs, results, strict=True):
            if not np.isfinite(value).all():  # float operators may divide by a quantised 0
                raise ModelError(f"{tensor} is not finite on every judged sample")
        return results

    def mixes(self, setting: Setting) -> list[Layers]:
        """Precisions of layers (``mix.mixes``) with the methods of the setting, by noise on judged samples."""
        job, recipe = self.job, replace(setting, layers=()).as_recipe()
        samples = {name: value[:NOISE_SAMPLES] for name, value in job.folds[0].judged.items()}
        worth = weights(job.cost if isinstance(job.cost, str) else str(job.cost), job.floats)
        return mixes(self.graph, self.seen[0], recipe, job.precisions, samples, job.target, worth)


#: In a worker, the bench of the last job that it received.
_BENCH: list[Bench] = []


def receive(job: Job) -> None:
    """Sets a worker up for the trials of a job."""
    if not _BENCH or _BENCH[0].job.key != job.key:
        _BENCH[:] = [Bench(job)]


def work(job: Job | None, what: str, setting: Setting) -> Any:
    """Runs, in a worker, the ``Bench`` method called ``what``. ``job``: None if the worker has received it before."""
    if job is not None:
        receive(job)
    return getattr(_BENCH[0], what)(setting)
