"""``quantize="auto"``: the cheapest precision of every layer that keeps the outputs good enough."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from uuid import uuid4

from twinfer.converter.quantize.affine import LIMITS
from twinfer.converter.quantize.calibrate import calibrate
from twinfer.converter.quantize.compare import in_words
from twinfer.converter.quantize.observed import Calibration
from twinfer.converter.quantize.quantize import Options, quantize
from twinfer.converter.quantize.recipe import Choice, Recipe, Rule
from twinfer.converter.quantize.refine import refine
from twinfer.converter.quantize.rounding import Gram, grams
from twinfer.converter.quantize.samples import Samples
from twinfer.converter.search.data import gather
from twinfer.converter.search.journal import Journal
from twinfer.converter.search.loss import MIN_SNR, Goal
from twinfer.converter.search.space import PRECISIONS, Setting, Space
from twinfer.converter.search.strategy import Ledger, correct, mix, polish
from twinfer.converter.search.trial import Bench, Job, Trial, joined, make_job, outputs
from twinfer.converter.search.workers import here
from twinfer.runtime.graph import Graph, Node
from twinfer.runtime.options import Options as PlanOptions
from twinfer.runtime.read.tflite import read
from twinfer.runtime.target import DSP, Target
from twinfer.runtime.write.tflite import write

#: Methods that are tried: they cost nothing in use.
METHODS = ("extended", "mse")

#: The most samples that outputs are judged on where no labels are given, and the most trials.
JUDGED, TRIALS = 64, 32

#: How trials are planned: plans by rows take ten times as long.
BY_LAYERS = PlanOptions(memory="layers")

#: What corrections of weights and biases may gain, in dB: a model that misses by more is not tried with them.
CORRECTED = 6.0

#: The loss that is allowed where labels are given: half a point of accuracy.
MAX_LOSS = 0.005

#: What a score is called, by metric.
SCORES = {"answers": "right", "error": "error"}

#: ``told(done, total, what)``.
Told = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Chosen:
    """What ``choose`` found: the ``best`` trial, whether it meets the ``goal``, the whole-model trials beside it
    (``whole``: by precision, the best of each, as ``--quantize`` has it: with floats where integers would lose much;
    "float" is the source), all ``good`` trials that meet the goal, the cheapest first, and the bench on which they were
    judged, which keeps their graphs."""

    best: Trial
    goal: Goal
    whole: Mapping[str, Trial]
    good: tuple[Trial, ...]
    bench: Bench

    @property
    def job(self) -> Job:
        return self.bench.job

    def graph(self, trial: Trial) -> Graph:
        """The model of one of the trials."""
        return self.bench.quantized(trial.setting)

    @property
    def met(self) -> bool:
        return self.goal.met(self.best.loss, self.best.sure_db)

    @property
    def layers(self) -> str:
        """How many layers have which precision, in words."""
        return layers_of(self.best.setting)

    def __str__(self) -> str:
        """Which precisions, how good that is, and what it costs beside int8."""
        judge, count = self.job.judge, self.job.count
        good = f"outputs at {in_words(self.best.snr_db)} to the float model's"
        if self.goal.max_loss is None and self.best.setting.precision != "float":
            good += f" ({in_words(self.best.sure_db)} for sure)"
        if self.goal.max_loss is not None:
            good = f"{SCORES[judge.metric]} {self.best.score:.4f} (float {judge.float_score:.4f}), {good}"
        missed = "" if self.met else f"; {self.goal} cannot be had"
        return f"{self.layers}: {good} on {count} samples that ranges do not come from{self._beside()}{missed}"

    def _beside(self) -> str:
        """What it costs beside int8, or beside the float model where that is chosen."""
        own = self.best.setting
        name = next(name for name in ("int8", "int16x8", "float") if name in self.whole)
        other = self.whole[name]
        if (name, other.setting.layers) == (own.precision, own.layers):
            return ""
        instructions = f"{100 * (self.best.instructions / max(other.instructions, 1) - 1):+.0f} % instructions"
        flash, ram = self.best.flash - other.flash, self.best.ram - other.ram
        return f"; beside {name} {instructions}, {flash:+,} B of flash, {ram:+,} B of RAM (estimated, by layers)"


def layers_of(setting: Setting) -> str:
    """How many layers have which precision, in words."""
    counts = Counter(precision for _, precision in setting.layers)
    said = {"dynamic": "dynamic (which TFLM refuses)"}
    mixed = [f"{n} {'layer' if n == 1 else 'layers'} in {said.get(name, name)}" for name, n in counts.items()]
    own = setting.precision
    return ", ".join([*mixed, f"{'the others' if mixed else 'all layers'} in {said.get(own, own)}"])


def choose(
    graph: Graph,
    samples: Samples,
    *,
    max_loss: float | None = None,
    min_snr: float | None = None,
    cost: str | None = None,
    target: Target | None = None,
    inference_type: str | None = None,
    rules: tuple[Rule, ...] = (),
    methods: tuple[str, ...] = METHODS,
    trials: int = TRIALS,
    told: Told | None = None,
) -> Chosen:
    """The cheapest precisions for the layers of a float graph on which the outputs stay good enough.

    Half of the ``samples`` give the ranges, the others judge; where they are few, also the other way round. Good enough
    is a loss of at most ``max_loss``, or a signal-to-noise ratio of every output that is surely at least ``min_snr`` dB
    (``loss.Judge.sure_db``): by default MAX_LOSS where the samples have labels, enough of them to tell, else MIN_SNR.
    ``cost``, ``target``: what is to be cheap ("balanced", ``costs.SHARES``), and
    where (a core with DSP instructions, as the Cortex-M4).
    ``inference_type``: as in ``quantize.Options``, by default "LAYERS". ``rules`` of a recipe hold. int4 is tried where
    bytes are all that counts. InvalidArgumentError for samples that do not fit.
    """
    cost = cost or "balanced"
    data = gather(graph, samples, few=True)
    if data.labels is None:
        data = replace(data, judged={name: value[:JUDGED] for name, value in data.judged.items()})
    content = write(graph)
    border, precisions = inference_type or "LAYERS", _precisions(cost)
    how = {"target": target or DSP, "inference_type": border, "precisions": precisions, "options": BY_LAYERS}
    job = make_job(content, data, cost=cost, types=tuple(LIMITS), **how)  # type: ignore[arg-type]
    if max_loss is None and min_snr is None and data.labels is not None and job.judge.step <= MAX_LOSS:
        max_loss = MAX_LOSS
    goal = Goal(max_loss, MIN_SNR if min_snr is None else min_snr)
    job = replace(job, hopeless=-math.inf if max_loss is not None else goal.min_snr)
    return _searched(Bench(job, {}), goal, rules, methods, trials, told)


def again(chosen: Chosen, cost: str) -> Chosen:
    """The same by another cost: for the same samples, without rules, and with what was calibrated for ``chosen``."""
    job = replace(chosen.job, key=uuid4().hex, cost=cost, precisions=_precisions(cost))
    return _searched(Bench(job, chosen.bench.made), chosen.goal)


def _precisions(cost: str) -> tuple[str, ...]:
    return PRECISIONS if cost in ("flash", "constants") else PRECISIONS[1:]


def _searched(
    bench: Bench,
    goal: Goal,
    rules: tuple[Rule, ...] = (),
    methods: tuple[str, ...] = METHODS,
    trials: int = TRIALS,
    told: Told | None = None,
) -> Chosen:
    job = bench.job
    space = Space(methods, job.precisions, {"": rules})
    floats = job.float_trial()
    ledger = Ledger(here(bench), Journal(None, "", "", {}), trials, goal, told)
    nodes = read(job.model).nodes
    plain = {p: _plain(job, nodes, p, rules) for p in space.bases}
    ledger.attempt([replace(each, method=name) for each in plain[space.bases[0]] for name in methods])
    if ledger.chosen() is None:
        if goal.max_loss is not None or any(t.snr_db > goal.min_snr - CORRECTED for t in ledger.good()):
            correct(ledger, space)
        mix(ledger, space, [node.output.name for node in nodes])
        polish(ledger, space)
    best = min(ledger.good(), key=ledger.badness, default=floats)  # with all that was tried
    ledger.attempt([replace(s, method=best.setting.method or methods[0]) for p in space.bases[1:] for s in plain[p]])
    whole = {"float": floats}
    for trial in sorted(ledger.good(), key=ledger.badness, reverse=True):
        if trial.setting.layers in [each.layers for each in plain[trial.setting.precision]]:
            whole[trial.setting.precision] = trial
    chosen = ledger.chosen()
    good = list(filter(ledger.met, ledger.trials.values()))
    if job.inference_type in ("INT8", "INT16"):  # float cannot have that border: the best is what is left
        chosen = chosen or best
    else:
        good.append(floats)
        chosen = floats if chosen is None or floats.cost <= chosen.cost else chosen
    return Chosen(chosen, goal, whole, tuple(sorted(good, key=lambda trial: trial.cost)), bench)


def _plain(job: Job, nodes: Sequence[Node], precision: str, rules: tuple[Rule, ...]) -> list[Setting]:
    """The whole model in a precision; and with floats where that loses much, as ``--quantize`` has it."""
    whole = Setting(precision, "", rules=rules)
    lost = job.lost.get(Choice(precision).type, ())
    kept = [n.output.name for n in nodes if n.output.name in lost and not Recipe(rules).sets_precision(n)]
    layers = tuple(sorted((name, "float") for name in kept))
    return [whole, replace(whole, layers=layers)] if layers else [whole]


@dataclass(frozen=True)
class Whole:
    """A float graph with all samples, of which ranges and sums are found once."""

    graph: Graph
    samples: Samples

    @cached_property
    def seen(self) -> Calibration:
        return calibrate(self.graph, self.samples, types=())

    @cached_property
    def grams(self) -> Mapping[Node, Gram]:
        return grams(self.graph, self.samples)

    def as_tried(self, setting: Setting, inference_type: str | None = None, *, loops: bool = True) -> Graph | None:
        """The graph, quantised as a trial was, but with ranges from all samples; None for the float graph itself."""
        if setting.precision == "float":
            return None
        matrices = self.grams if "adaptive rounding" in setting.corrections else {}
        options = Options(inference_type or "LAYERS", "bias correction" in setting.corrections, matrices, loops)
        return quantize(self.graph, self.seen, setting.as_recipe(), options)


def settled(
    chosen: Chosen, whole: Whole, inference_type: str | None = None, *, loops: bool = True
) -> tuple[Chosen, tuple[Graph, Recipe] | None]:
    """The choice, and the graph by it (``as_tried``) with its recipe: the next dearer one where a graph with ranges
    from all samples misses the goal. Where nothing meets it, the best is refined. None for the float graph itself."""
    dearer = [t for t in chosen.good if t.cost > chosen.best.cost or t.setting == chosen.best.setting]
    for trial in dearer:
        made = whole.as_tried(trial.setting, inference_type, loops=loops)
        if made is None or meets(chosen, made):
            return replace(chosen, best=trial), None if made is None else (made, trial.setting.as_recipe())
    if chosen.best.setting.precision == "float":
        return chosen, None
    options = Options(inference_type or "LAYERS", loops=loops)
    refined = refine(whole.graph, whole.seen, chosen.best.setting.as_recipe(), options, whole.samples)
    return chosen, (refined.graph, refined.recipe)


def meets(chosen: Chosen, made: Graph) -> bool:
    """Whether a graph is good enough on all that was judged, as measured."""
    job = chosen.job
    results = joined([outputs(made, read(job.model), fold.judged) for fold in job.folds])
    return chosen.goal.met(job.judge.loss(results), job.judge.snr_db(results))
