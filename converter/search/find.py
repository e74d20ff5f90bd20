"""The front door of the search: the cheapest quantisation of a model inside a budget of accuracy."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict, Unpack

from twinfer.converter.convert import optimised
from twinfer.converter.recipe import read_recipe
from twinfer.converter.samples import Samples
from twinfer.converter.search.data import gather
from twinfer.converter.search.journal import Journal
from twinfer.converter.search.space import METHODS, PRECISIONS, Space
from twinfer.converter.search.strategy import Ledger, Told, explore
from twinfer.converter.search.trial import COSTS, Bench, Job, Trial, make_job
from twinfer.converter.search.workers import workers
from twinfer.converter.source import Shapes, Source
from twinfer.runtime.errors import InvalidArgumentError, ToolError
from twinfer.runtime.graph import Graph
from twinfer.runtime.target import GENERIC, Target
from twinfer.runtime.tflite import read

#: Trials at most, if nothing else is said.
TRIALS = 64


class How(TypedDict, total=False):
    """The arguments of ``search`` beside model, data and budget."""

    calibration: Samples | None
    calibrate: int | None
    metric: str
    cost: str
    target: Target
    methods: Sequence[str]
    precisions: Sequence[str]
    recipes: Sequence[str | os.PathLike[str]]
    inference_type: str | None
    trials: int
    seed: int
    executor: Executor | None
    jobs: int | None
    dask: Any
    journal: str | os.PathLike[str] | None
    shapes: Shapes | None
    progress: Told | None


@dataclass(frozen=True)
class Found:
    """What a search came to: all ``trials`` in the order proposed, the Pareto ``front`` by rising cost, and the
    ``chosen`` one of it, None if no setting is inside the budget. ``search``: how it was set up."""

    max_loss: float
    trials: tuple[Trial, ...]
    front: tuple[Trial, ...]
    chosen: Trial | None
    search: Mapping[str, Any]
    job: Job = field(repr=False)

    @property
    def least(self) -> Trial | None:
        """The trial of least loss; None if all failed."""
        return self.front[-1] if self.front else None

    @property
    def float_cost(self) -> int:
        """What the float model costs."""
        return COSTS[self.job.cost](read(self.job.model), self.job.model, self.job.target)

    def graph(self, trial: Trial | None = None) -> Graph:
        """The model of a trial, by default of the chosen one.

        InvalidArgumentError if there is none, ToolError if this machine makes another of it than its worker did.
        """
        from twinfer.converter.write import write

        trial = trial or self.chosen
        if trial is None or trial.error:
            raise InvalidArgumentError(
                "there is no model: no setting is inside the budget" if trial is None else trial.error
            )
        made = Bench(self.job).quantized(trial.setting)
        if hashlib.sha256(write(made)).hexdigest() != trial.sha256:
            raise ToolError(
                f"{trial.setting}: this machine makes other bits than the worker: do they differ in version?"
            )
        return made


def search(
    source: Source, data: str | os.PathLike[str] | Mapping[str, Any], max_loss: float, **how: Unpack[How]
) -> Found:
    """The cheapest quantisation of ``source`` that loses at most ``max_loss`` on ``data``.

    ``source``: a float model, as ``convert`` takes it. ``data``: a .npz file or arrays by the names of the inputs,
    samples along the first axis, and, if wanted, "labels": whole numbers are classes, floats targets; without them
    the float model's own outputs are (``loss.Judge`` defines the loss; ``metric``: "auto", "answers", "error").
    ``calibration``: samples for the ranges; else ``calibrate`` of the data's (``data.gather``). ``cost``: bytes of
    the file ("flash"), of its "constants", or of the "arena" in the plan for ``target``. ``methods``, ``precisions``
    and ``recipes`` (files) are what is combined, ``trials`` the most there may be, ``seed`` that of split and search:
    with the same arguments the same is found, whoever does the work (``executor``, ``jobs``, ``dask``: see
    ``workers.workers``). ``journal``: a file that keeps every trial, and spares a second run those that it has.
    ``progress(done, total, what)``. The loss is that on the samples that the setting was chosen by: of many settings
    some are lucky, so that a last word needs samples that the search has not seen.

    A trial that fails is one with an ``error``. InvalidArgumentError for arguments and data that do not fit, ToolError
    for workers that do not work; other TwinferErrors as those of ``convert``.
    """
    seed, limit = how.get("seed", 0), how.get("trials", TRIALS)
    _check(max_loss, limit, seed)
    space = _space(how)
    graph = optimised(source, how.get("shapes"))
    samples = gather(graph, data, how.get("calibration"), seed=seed, count=how.get("calibrate"))
    job = make_job(
        graph,
        samples,
        metric=how.get("metric", "auto"),
        cost=how.get("cost", "flash"),
        target=how.get("target", GENERIC),
        inference_type=how.get("inference_type"),
    )
    _check_step(job, max_loss)
    setup = _setup(job, seed)
    model = hashlib.sha256(job.model).hexdigest()
    journal = Journal(how.get("journal"), model, samples.sha256, setup)
    with workers(job, how.get("executor"), how.get("jobs"), how.get("dask")) as hands:
        ledger = Ledger(hands, journal, limit, max_loss, how.get("progress"))
        explore(ledger, space, read(job.model), seed)
    about = {**setup, "model": model, "data": samples.sha256, "trials": limit}
    return Found(max_loss, tuple(ledger.trials.values()), tuple(ledger.front()), ledger.chosen(), about, job)


def _check(max_loss: float, limit: int, seed: int) -> None:
    if not (math.isfinite(max_loss) and max_loss >= 0):
        raise InvalidArgumentError(f"a loss of at most {max_loss} is no budget: give 0 or more")
    if limit < 1:
        raise InvalidArgumentError(f"{limit} trials find nothing: give 1 or more")
    if seed < 0:
        raise InvalidArgumentError(f"{seed} is no seed: give 0 or more")


def _space(how: How) -> Space:
    """The recipes' rules are read here; workers get them, not the files."""
    files = [Path(path) for path in how.get("recipes", ())]
    rules = {path.name: read_recipe(path).rules for path in files}
    if len(rules) < len(files):
        raise InvalidArgumentError("two recipes are called the same: give their files different names")
    return Space(how.get("methods", METHODS), how.get("precisions", PRECISIONS), rules)


def _check_step(job: Job, max_loss: float) -> None:
    """Whether the samples are enough to tell the budget from nothing."""
    if job.judge.step > max_loss > 0:
        count, need = job.judge.wanted[0].size, math.ceil(1 / max_loss)
        raise InvalidArgumentError(
            f"{count} judged answers are too few samples for a budget of {max_loss:g}: one wrong answer is "
            f"{job.judge.step:.3g}; judge {need} or more, or allow more"
        )


def _setup(job: Job, seed: int) -> dict[str, Any]:
    """What a trial's outcome depends on beside model, data and setting."""
    calibrated, judged = (len(next(iter(arrays.values()))) for arrays in (job.calibration, job.judged))
    return {
        "seed": seed,
        "calibrated": calibrated,
        "judged": judged,
        "metric": job.judge.metric,
        "cost": job.cost,
        "target": f"{job.target.name}, {job.target.optimize}",
        "inference_type": job.inference_type,
    }
