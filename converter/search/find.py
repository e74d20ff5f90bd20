"""The front door of the search: the cheapest quantisation of a model inside a budget of accuracy."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, TypedDict, Unpack

from twinfer.converter.arguments import only_known
from twinfer.converter.loops import roll
from twinfer.converter.optimise import optimise
from twinfer.converter.passes import TO_QUANTIZE
from twinfer.converter.passes.equalize import equalize
from twinfer.converter.quantize.recipe import read_recipe
from twinfer.converter.quantize.samples import Samples
from twinfer.converter.search.costs import Cost
from twinfer.converter.search.data import Data, gather
from twinfer.converter.search.journal import Journal
from twinfer.converter.search.loss import Goal
from twinfer.converter.search.space import METHODS, TFLM, Space
from twinfer.converter.search.strategy import Ledger, Told, explore
from twinfer.converter.search.trial import Bench, Job, Trial, make_job
from twinfer.converter.search.workers import workers
from twinfer.converter.source import Shapes, Source, read_source
from twinfer.runtime.errors import InvalidArgumentError, ToolError
from twinfer.runtime.graph import Graph
from twinfer.runtime.options import USUAL
from twinfer.runtime.read.tflite import read
from twinfer.runtime.target import GENERIC, Target
from twinfer.runtime.write.tflite import write

#: The most trials, by default.
TRIALS = 64

#: The greatest budget: a larger one is meant in per cent, or accepts any model.
MOST_LOSS = 0.5

#: The arguments that set how a trial is judged.
_JUDGED = ("metric", "cost", "target", "inference_type")


class How(TypedDict, total=False):
    """The arguments of ``search`` beside model, data and budget."""

    calibration: Samples | None
    calibrate: int | None
    metric: str
    cost: str | Cost
    target: Target
    methods: Sequence[str]
    precisions: Sequence[str]
    recipes: Sequence[str | os.PathLike[str]]
    inference_type: str | None
    equalize: bool
    trials: int
    seed: int
    executor: Executor | None
    jobs: int | None
    dask: Any
    journal: str | os.PathLike[str] | None
    shapes: Shapes | None
    channels_last: bool | Sequence[str]
    progress: Told | None


@dataclass(frozen=True)
class Found:
    """The result of a search: all ``trials`` in the order proposed, their Pareto ``front`` by rising cost, and the
    ``chosen`` trial, None if no setting is inside the budget. ``search``: its set-up. ``float_cost``: the cost of the
    float model. That is chosen (its setting's precision is then "float") if precisions have it and no quantised model
    inside the budget costs less; where none is inside, none of the front."""

    max_loss: float
    trials: tuple[Trial, ...]
    front: tuple[Trial, ...]
    chosen: Trial | None
    search: Mapping[str, Any]
    float_cost: int
    job: Job = field(repr=False)

    @property
    def least(self) -> Trial | None:
        """The trial of least loss; None if all failed."""
        return self.front[-1] if self.front else None

    def graph(self, trial: Trial | None = None) -> Graph:
        """The model of a trial, by default of the chosen one.

        InvalidArgumentError if there is none, ToolError if this machine gets other bytes than the worker did.
        """
        trial = trial or self.chosen
        if trial is None or trial.error:
            raise InvalidArgumentError(
                "there is no model: no setting is inside the budget" if trial is None else trial.error
            )
        if trial.setting.precision == "float":
            return roll(read(self.job.model))
        graph = Bench(self.job).quantized(trial.setting)
        if hashlib.sha256(write(graph)).hexdigest() != trial.sha256:
            raise ToolError(
                f"{trial.setting}: this machine gets other bytes than the worker: are their versions the same?"
            )
        return graph


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after which ``found`` has the trials that were finished."""

    def __init__(self, found: Found) -> None:
        super().__init__()
        self.found = found


def search(
    source: Source, data: str | os.PathLike[str] | Mapping[str, Any], max_loss: float, **how: Unpack[How]
) -> Found:
    """The cheapest quantisation of ``source`` that loses at most ``max_loss`` (a share, at most 0.5) on ``data``; the
    float model where that costs no more.

    ``source``: a float model, as ``convert`` takes it. ``data``: a .npz file or arrays by the names of the inputs,
    samples along the first axis, optionally with "labels": whole numbers are classes, floats are targets. Without
    labels the float model's own outputs count as right (``loss.Judge`` defines the loss; ``metric``: "auto", "answers",
    "error").
    ``calibration``: samples for the ranges; without it, ``calibrate`` samples of the data (``data.gather``). ``cost``:
    bytes of the file ("flash"), of the "constants" or of the "arena" in the plan for ``target``, "instructions",
    "balanced" (``costs.price``), or a function of a graph, its file and the target (of a module, if there are several
    workers). ``methods``, ``precisions`` and
    ``recipes`` (files) are combined. ``trials``: the most trials. ``seed``: of split and search. The same arguments
    give the same result with any workers (``executor``, ``jobs``, ``dask``: see ``workers.workers``). ``journal``: a
    file that keeps every trial, so that a second run does not repeat them. ``progress(done, total, what)`` is called
    after every trial.
    ``inference_type``, ``equalize``, ``shapes`` and ``channels_last``: as in ``convert``.

    A failed trial has an ``error``. The loss is measured on the samples that the search chose by, and among many
    settings some are lucky there. Measure the chosen model on samples that the search has not seen.

    Ctrl-C raises ``Interrupted`` with the trials so far, if there are any.

    InvalidArgumentError for arguments and data that do not fit, ToolError for workers that do not work; other
    TwinferErrors as in ``convert``.
    """
    _check(max_loss, how)
    seed, limit, told = how.get("seed", 0), how.get("trials", TRIALS), how.get("progress")
    space = _space(how)
    passes = (*TO_QUANTIZE, *([equalize] if how.get("equalize") else []))
    graph = optimise(read_source(source, how.get("shapes")), passes, channels_last=how.get("channels_last", False))
    samples = gather(graph, data, how.get("calibration"), seed=seed, count=how.get("calibrate"))
    model, setup = write(graph), _setup(how, samples)
    about: dict[str, Any] = {"model": hashlib.sha256(model).hexdigest(), "data": samples.sha256, "search": setup}
    journal = Journal(how.get("journal"), **about)
    if told is not None:
        told(0, limit, "calibration")
    judged = {key: how[key] for key in _JUDGED if key in how}  # type: ignore[literal-required]
    job = make_job(model, samples, precisions=space.precisions, **judged)
    if job.judge.step > max_loss > 0:  # the samples are too few to tell the budget from no loss
        count, need = job.judge.wanted[0].size, math.ceil(1 / max_loss)
        raise InvalidArgumentError(
            f"{count} judged answers are too few samples for a budget of {max_loss:g}: one wrong answer is "
            f"{job.judge.step:.3g}; judge {need} or more, or allow more"
        )
    floats = job.float_trial()
    about |= {**setup, "metric": job.judge.metric}
    with workers(job, how.get("executor"), how.get("jobs"), how.get("dask")) as hands:
        ledger = Ledger(hands, journal, limit, Goal(max_loss), told)
        try:
            explore(ledger, space, read(model), seed)
        except KeyboardInterrupt:
            if ledger.trials:
                raise Interrupted(_found(ledger, max_loss, about, floats, job)) from None
            raise
    return _found(ledger, max_loss, about, floats, job)


def _found(ledger: Ledger, max_loss: float, search: Mapping[str, Any], floats: Trial, job: Job) -> Found:
    front, chosen = tuple(ledger.front()), ledger.chosen()
    rivals = [chosen] if chosen is not None else list(front)
    may = "float" in job.precisions and job.inference_type in (None, "FLOAT32")
    if may and rivals and all(floats.cost <= trial.cost for trial in rivals):  # the float model itself loses nothing
        chosen = floats
    return Found(max_loss, tuple(ledger.trials.values()), front, chosen, search, floats.cost, job)


def _check(max_loss: float, how: How) -> None:
    only_known(how, How)
    limit, seed = how.get("trials", TRIALS), how.get("seed", 0)
    if not isinstance(max_loss, Real) or not 0 <= max_loss <= MOST_LOSS:
        raise InvalidArgumentError(
            f"a loss of at most {max_loss} is no budget: give a share from 0 to {MOST_LOSS}; one per cent is 0.01, or "
            "--max-loss 1%"
        )
    if limit < 1:
        raise InvalidArgumentError(f"{limit} trials find nothing: give 1 or more")
    if seed < 0:
        raise InvalidArgumentError(f"{seed} is no seed: give 0 or more")


def _space(how: How) -> Space:
    """The recipes' rules are read here; workers get them, not the files."""
    files = [Path(path) for path in how.get("recipes", ())]
    recipes = {path.name: read_recipe(path) for path in files}
    if len(recipes) < len(files):
        raise InvalidArgumentError("two recipes are called the same: give their files different names")
    if coarse := [name for name, recipe in recipes.items() if recipe.prunes or recipe.clusters]:
        raise InvalidArgumentError(f"{coarse[0]}: a search only quantises, it cannot prune or cluster: prune first")
    rules = {name: recipe.rules for name, recipe in recipes.items()}
    return Space(how.get("methods", METHODS), how.get("precisions", TFLM), rules)


def _setup(how: How, data: Data) -> dict[str, Any]:
    """All that a trial's result depends on beside model, data and setting."""
    cost, target = how.get("cost", "flash"), how.get("target", GENERIC)
    calibrated, judged = (len(next(iter(arrays.values()))) for arrays in (data.calibration, data.judged))
    planned = (target.name, USUAL.optimize, *sorted(target.features), USUAL.weights, USUAL.decode)
    return {
        "seed": how.get("seed", 0),
        "calibrated": calibrated,
        "judged": judged,
        "metric": how.get("metric", "auto"),
        "cost": cost if isinstance(cost, str) else getattr(cost, "__qualname__", str(cost)),
        "target": ", ".join([*planned, f"alignment {target.alignment}"]),
        "inference_type": how.get("inference_type"),
        "precisions": [*how.get("precisions", TFLM)],
    }
