"""Runs models in all engines, each kind in a process of its own because it may crash, and says what differs."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from twinfer import kernels_c
from twinfer.aot.build.host import compile_plans, flags_at
from twinfer.bench.fuzz.model import Model, numpy_values
from twinfer.bench.fuzz.worker import Died, Worker
from twinfer.bench.known.faults import known_faults
from twinfer.bench.measure.compare import same_bits
from twinfer.bench.peers.engines import open_peer
from twinfer.runtime.errors import ToolError, TwinferError
from twinfer.runtime.graph import Array
from twinfer.runtime.op import TOLERANCE
from twinfer.runtime.ops.core.activation import FLOAT_MAX
from twinfer.runtime.plan.choice import share_all
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.read.tflite import read
from twinfer.runtime.run.poison import poison
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import TARGETS
from twinfer.runtime.write.tflite import write

#: Outputs of every run.
Outputs = list[list[Array]]

#: Options of the compiler: quick ones, and those that users take.
QUICK, USUAL = "-O1", "-O3"

#: Seconds that a peer may take for a model.
PATIENCE = 20


@dataclass(frozen=True)
class Question:
    """A .tflite file and the inputs of its runs."""

    content: bytes
    runs: Sequence[Sequence[Array]]


@dataclass
class Answer:
    """The interpreter's ``outputs``, and those of every engine of ours that gives others.

    ``refusal``: the planner refuses the model. ``faults``: an engine's name -> what it raised.
    """

    outputs: Outputs = field(default_factory=list)
    others: dict[str, Outputs] = field(default_factory=dict)
    refusal: str = ""
    faults: dict[str, str] = field(default_factory=dict)

    def note(self, engine: str, outputs: Outputs) -> None:
        """Keeps what an engine gives if its bits are others than the interpreter's, as far as both have run."""
        if not all(same_bits(got, want) for got, want in zip(outputs, self.outputs, strict=False)):
            self.others[engine] = outputs


@dataclass
class Verdict:
    """What came of a model: ``findings``, engine -> how it differs from the interpreter or fails.

    ``refusal``: our planner does not take it. ``peer``: the one that judged, if any did. ``excuse``: its known fault.
    """

    model: Model
    findings: dict[str, str] = field(default_factory=dict)
    refusal: str = ""
    peer: str = ""
    excuse: str = ""


# -- in their own processes --------------------------------------------------------------------------------------------


def peer_outputs(peer: str, question: Question, outputs: int) -> Outputs | str:
    """The outputs of every run in a peer, or why it refuses the model."""
    try:
        model = open_peer(peer, question.content, outputs)
        model.reset()
        return [[np.array(value) for value in model(inputs)] for inputs in question.runs]
    except (ToolError, RuntimeError, ValueError) as error:
        return str(error) or type(error).__name__


def our_outputs(questions: Sequence[Question], level: str, cache: str) -> list[Answer]:
    """What numpy, the interpreter for every target and level, and compiled C give; all models are compiled together.

    ``level`` is the compiler's, none: nothing is compiled. ``cache``: the folder of libraries.
    """
    os.environ["XDG_CACHE_HOME"] = cache
    answers, plans = list[Answer](), dict[int, Plan]()
    for i, question in enumerate(questions):
        answer = Answer()
        answers.append(answer)
        try:
            every = list(_plans(question.content))
            answer.outputs = _run(Session(every[0], 0), question)
        except TwinferError as error:
            answer.refusal = f"{type(error).__name__}: {error}"
            continue
        except Exception:
            answer.faults["planner"] = _raised()
            continue
        for plan in every:
            for at in range(kernels_c.lib.tw_level() + 1):
                answer.note(f"interpreter, {plan.target.name}, level {at}", _run(Session(plan, at), question))
        try:
            graph, known = numpy_values(read(question.content), question.runs[0])
            answer.note("numpy", [[known[t] for t in graph.outputs]])
        except Exception:
            answer.faults["numpy"] = _raised()
        plans[i] = every[len(question.content) // 4 % len(every)]
    if level and plans:
        for i, result in _compiled(plans, questions, level):
            if isinstance(result, str):
                answers[i].faults["compiled"] = result
            else:
                answers[i].note("compiled", result)
        for file in Path(cache).glob("twinfer/*"):
            file.unlink()
    return answers


def _plans(content: bytes) -> Iterator[Plan]:
    """A plan per target; of those that call the same kernels only the first."""
    seen = set[str]()
    for target in TARGETS:
        plan = make_plan(read(content), target)
        kernels = repr([call.kernel for step in plan.steps for call in step.calls])
        if kernels not in seen:
            seen.add(kernels)
            yield plan


def _run(session: Session, question: Question) -> Outputs:
    """The outputs of runs from fresh state; no run finds anything in the arena."""
    session.reset_variables()
    results = []
    for inputs in question.runs:
        poison(session)
        session.feed(inputs)
        session.run()
        results.append(session.outputs())
    return results


def _compiled(
    plans: Mapping[int, Plan], questions: Sequence[Question], level: str
) -> Iterator[tuple[int, Outputs | str]]:
    """The outputs of compiled C; where the compiler fails, each model is compiled alone."""
    try:
        policy = share_all if level == QUICK else None
        engines = compile_plans({f"m{i}": plan for i, plan in plans.items()}, flags=flags_at(level), policy=policy)
    except Exception as error:
        for i, plan in plans.items():
            if len(plans) == 1:
                yield i, f"does not compile: {error}"
            else:
                yield from _compiled({i: plan}, questions, level)
        return
    yield from ((i, _run(engines[f"m{i}"], questions[i])) for i in plans)


def _raised() -> str:
    """The error that is being handled, with the place where it was raised."""
    lines = traceback.format_exc().strip().splitlines()
    places = [line.strip() for line in lines if line.strip().startswith("File ")]
    return f"{lines[-1]} ({places[-1] if places else ''})"


# -- here --------------------------------------------------------------------------------------------------------------


class Engines:
    """The engines, each kind in its process."""

    def __init__(self, cache: str) -> None:
        self._cache = cache
        self._ours = Worker(our_outputs)
        self._peers = {name: Worker(peer_outputs, PATIENCE) for name in ("tflm", "litert-ref")}

    def close(self) -> None:
        """Ends all processes."""
        for worker in (self._ours, *self._peers.values()):
            worker.close()

    def compare(self, models: Sequence[Model], level: str) -> list[Verdict]:
        """A verdict for every model; they are compiled together, with the compiler's option ``level`` ("": not)."""
        verdicts, questions = [Verdict(model) for model in models], dict[int, Question]()
        for i, model in enumerate(models):
            try:
                questions[i] = Question(write(model.graph), model.runs)
            except TwinferError as error:
                verdicts[i].refusal = str(error)
        for (i, question), answer in zip(questions.items(), self._answers([*questions.values()], level), strict=True):
            verdict, model = verdicts[i], models[i]
            verdict.refusal = answer.refusal
            verdict.findings |= answer.faults
            for engine, outputs in answer.others.items():
                if engine != "numpy":
                    verdict.findings[engine] = difference(answer.outputs, outputs, 0.0) or "other bits"
                elif text := difference(answer.outputs, outputs, model.tolerance):
                    verdict.findings[engine] = text
            if answer.outputs:
                self._ask_peers(verdict, question, answer.outputs)
        return verdicts

    def _answers(self, questions: Sequence[Question], level: str) -> list[Answer]:
        """What our engines give; where their process dies, each model is tried alone."""
        try:
            answers: list[Answer] = self._ours.ask(questions, level, self._cache) if questions else []
            return answers
        except (Died, RuntimeError) as error:
            if len(questions) == 1:
                return [Answer(faults={"compiled" if level else "interpreter": f"dies: {error}"})]
        return [answer for question in questions for answer in self._answers([question], level)]

    def _ask_peers(self, verdict: Verdict, question: Question, outputs: Outputs) -> None:
        """Adds what the first peer says that runs the model."""
        model = verdict.model
        for peer in model.judges:
            try:
                result: Outputs | str = self._peers[peer].ask(peer, question, len(model.graph.outputs))
            except (Died, RuntimeError):
                continue
            if isinstance(result, str):
                continue
            verdict.peer = peer
            if text := difference(outputs, result, model.tolerance):
                verdict.excuse = excuse(peer, model, outputs)
                if not verdict.excuse:
                    verdict.findings[peer] = text
            return


def excuse(peer: str, model: Model, outputs: Outputs) -> str:
    """Why a peer may differ from us on this model; "" if it may not."""
    floats = (value for run in outputs for value in run if value.dtype == np.float32)
    if any(bool((np.abs(value) == FLOAT_MAX).any()) for value in floats):
        return "a sum beyond float32 is infinite there, the largest number here"
    for inputs in model.runs:
        try:
            graph, known = numpy_values(model.graph, inputs)
        except Exception:
            graph, known = model.graph, {}
        values = {t: value for t, value in known.items() if not t.variable}
        if why := next(known_faults(graph, peer, values), ""):
            return why
    return ""


def difference(ours: Outputs, others: Outputs, tolerance: float | None) -> str:
    """The first difference in words; "" if there is none, or none can be told (tolerance None)."""
    if tolerance is None:
        return ""
    for run, (mine, other) in enumerate(zip(ours, others, strict=False)):
        for i, (a, b) in enumerate(zip(mine, other, strict=True)):
            if text := _difference(a, np.asarray(b), tolerance):
                return f"run {run}, output {i}: {text}"
    return ""


def _difference(mine: Array, other: Array, tolerance: float) -> str:
    if other.shape != mine.shape and other.size == mine.size:
        other = other.reshape(mine.shape)  # TFLM drops and adds dimensions of one
    if (mine.dtype, mine.shape) != (other.dtype, other.shape):
        return f"{mine.dtype}{list(mine.shape)} and {other.dtype}{list(other.shape)}"
    same = mine == other
    if mine.dtype.kind in "fc":
        same |= np.isnan(mine) & np.isnan(other)
        if tolerance:
            largest = float(np.max(np.abs(mine), initial=1.0, where=np.isfinite(mine)))
            with np.errstate(all="ignore"):
                same |= np.abs(mine - other) <= max(tolerance, TOLERANCE) * largest
    if same.all():
        return ""
    at = tuple(int(i) for i in np.unravel_index(int(np.argmin(same)), same.shape))
    return f"{int((~same).sum())} of {same.size} elements; at {list(at)} {mine[at]} and {other[at]}"
