"""``quantize="auto"``: the cheapest precision of every layer that keeps the outputs good enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from twinfer.converter.quantize.recipe import Recipe, Rule
from twinfer.converter.quantize.samples import Samples
from twinfer.converter.search.data import gather
from twinfer.converter.search.journal import Journal
from twinfer.converter.search.loss import Goal
from twinfer.converter.search.space import PRECISIONS, Setting, Space
from twinfer.converter.search.strategy import Ledger, correct, mix
from twinfer.converter.search.trial import Job, Trial, make_job, priced
from twinfer.converter.search.workers import workers
from twinfer.runtime.graph import Graph
from twinfer.runtime.target import DSP, Target
from twinfer.runtime.write.tflite import write

#: Methods that are tried: they cost nothing in use.
METHODS = ("minmax", "mse", "percentile")

#: The most samples that outputs are judged on where no labels are given, and the most trials.
JUDGED, TRIALS = 64, 24

#: The loss that is allowed where labels are given: half a point of accuracy.
MAX_LOSS = 0.005

#: ``told(done, total, what)``.
Told = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Chosen:
    """What ``choose`` found: the ``best`` trial, whether it meets the ``goal``, the whole-model trials beside it
    (``whole``: by precision, the best of each; "float" is the source), and the job that says how they were judged."""

    best: Trial
    goal: Goal
    whole: Mapping[str, Trial]
    job: Job

    @property
    def recipe(self) -> Recipe:
        return self.best.setting.as_recipe()

    @property
    def met(self) -> bool:
        return self.goal.met(self.best.loss, self.best.snr_db)

    @property
    def precisions(self) -> Counter[str]:
        """How many layers have which precision of their own; the others have that of the setting."""
        return Counter(precision for _, precision in self.best.setting.layers)

    def against(self, precision: str = "int8") -> str:
        """What the choice costs beside the whole model in that precision, in words."""
        other = self.whole[precision]
        instructions = f"{100 * (self.best.instructions / max(other.instructions, 1) - 1):+.0f} % instructions"
        flash, ram = self.best.flash - other.flash, self.best.ram - other.ram
        return f"{instructions}, {flash:+,} B of flash, {ram:+,} B of RAM"


def choose(
    graph: Graph,
    samples: Samples,
    *,
    goal: Goal | None = None,
    cost: str = "balanced",
    target: Target = DSP,
    inference_type: str | None = None,
    rules: tuple[Rule, ...] = (),
    methods: tuple[str, ...] = METHODS,
    trials: int = TRIALS,
    told: Told | None = None,
) -> Chosen:
    """The cheapest precisions for the layers of a float graph on which the outputs stay good enough.

    Half of the ``samples`` give the ranges, the others judge. ``goal``: by default a loss of at most MAX_LOSS where
    they have labels, else 25 dB for every output. ``cost``, ``target``: what is to be cheap, and where (``costs``).
    ``inference_type``: as in ``quantize.Options``, by default "LAYERS". ``rules`` of a recipe hold. int4 is tried where
    bytes are all that counts. InvalidArgumentError for samples that do not fit.
    """
    precisions = PRECISIONS if cost in ("flash", "constants") else PRECISIONS[1:]
    data = gather(graph, samples, few=True)
    if data.labels is None:
        data = replace(data, judged={name: value[:JUDGED] for name, value in data.judged.items()})
    content = write(graph)
    judging = {"cost": cost, "target": target, "inference_type": inference_type or "LAYERS", "precisions": precisions}
    job = make_job(content, data, **judging)  # type: ignore[arg-type]
    if goal is None:
        fine = data.labels is not None and job.judge.step <= MAX_LOSS
        goal = Goal(MAX_LOSS if fine else None)
    space = Space(methods, precisions, {"": rules})
    floats = priced(Setting("float", ""), job.price(graph, content), job.floats, job.judge, job.judge.floats, "")
    with workers(job, jobs=1) as hands:
        ledger = Ledger(hands, Journal(None, "", "", {}), trials, goal, told)
        ledger.attempt([Setting(space.bases[0], name, rules=rules) for name in methods])
        if ledger.chosen() is None:
            correct(ledger, space)
            mix(ledger, space)
        best = min(ledger.good(), key=ledger.badness, default=floats)
        ledger.attempt([Setting(p, best.setting.method or methods[0], rules=rules) for p in space.bases[1:]])
    whole = {"float": floats}
    for trial in sorted(ledger.good(), key=ledger.badness, reverse=True):
        if not trial.setting.layers:
            whole[trial.setting.precision] = trial
    chosen = ledger.chosen()
    if chosen is None or floats.cost <= chosen.cost:
        chosen = floats
    return Chosen(chosen, goal, whole, job)
