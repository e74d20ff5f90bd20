"""Compares what the engines say about a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from twinfer.bench.fuzz.engines import Outputs, Question, Said, ours, peer_outputs
from twinfer.bench.fuzz.worker import Died, Worker
from twinfer.bench.known.faults import excused
from twinfer.bench.known.model import Model
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Array
from twinfer.runtime.op import TOLERANCE
from twinfer.runtime.ops.core.activation import FLOAT_MAX
from twinfer.runtime.write.tflite import write

#: Seconds that a peer may take for a model.
PATIENCE = 20

INTERPRETER = "interpreter"

SATURATED = "a sum beyond float32 is infinite there, the largest number here"


@dataclass(frozen=True)
class Finding:
    """A difference: the engine that differs from the interpreter, or fails, and how."""

    model: Model
    engine: str
    detail: str

    @property
    def key(self) -> tuple[object, ...]:
        """What findings of the same fault have in common, as a rule."""
        first = self.model.graph.nodes[0]
        kind = self.model.graph.inputs[0].type if self.model.graph.inputs else ""
        return (self.engine.partition(",")[0], first.op if len(self.model.graph.nodes) == 1 else "graph", kind)


@dataclass
class Verdict:
    """What came of a model. ``refusal``: our planner does not take it. ``peer``: the one that judged, if any did."""

    model: Model
    findings: list[Finding] = field(default_factory=list)
    refusal: str = ""
    peer: str = ""
    excuse: str = ""


class Court:
    """The engines, each in its process. Close it, or use it in ``with``."""

    def __init__(self, cache: str) -> None:
        self._cache = cache
        self._ours = Worker(ours)
        self._peers = {name: Worker(peer_outputs, PATIENCE) for name in ("tflm", "litert-ref")}

    def close(self) -> None:
        """Ends all processes."""
        for worker in (self._ours, *self._peers.values()):
            worker.close()

    def judged(self, models: Sequence[Model], level: str) -> list[Verdict]:
        """A verdict for every model; they are compiled together, with the compiler's option ``level`` ("": not)."""
        questions = [question(model) for model in models]
        asked = [q for q in questions if isinstance(q, Question)]
        answers = iter(self._said(asked, level))
        verdicts = []
        for model, q in zip(models, questions, strict=True):
            if isinstance(q, str):
                verdicts.append(Verdict(model, refusal=q))
                continue
            said = next(answers)
            verdict = Verdict(model, list(_own(model, said)), said.refusal)
            if said.outputs:
                self._ask_peers(verdict, q, said.outputs)
            verdicts.append(verdict)
        return verdicts

    def _said(self, questions: Sequence[Question], level: str) -> list[Said]:
        """What our engines say; where their process dies, halves are tried until one model is blamed."""
        if not questions:
            return []
        try:
            said: list[Said] = self._ours.ask(questions, level, self._cache)
            return said
        except (Died, RuntimeError) as error:
            if len(questions) == 1:
                return [Said(faults={INTERPRETER if not level else "compiled": f"dies: {error}"})]
        half = len(questions) // 2
        return [*self._said(questions[:half], level), *self._said(questions[half:], level)]

    def _ask_peers(self, verdict: Verdict, asked: Question, outputs: Outputs) -> None:
        """Adds what the first peer says that runs the model."""
        model = verdict.model
        for peer in model.judges:
            result = self._asked(peer, asked, len(model.graph.outputs))
            if isinstance(result, str):
                continue
            difference = differs(outputs, result, model.tolerance)
            if difference and (excuse := saturated(outputs) or excused(peer, model)):
                verdict.excuse = excuse
            elif difference:
                verdict.findings.append(Finding(model, peer, difference + self._second(peer, asked, outputs, model)))
            verdict.peer = peer
            return

    def _second(self, peer: str, asked: Question, outputs: Outputs, model: Model) -> str:
        """What LiteRT says where TFLM differs, for whoever looks into it."""
        result = "" if peer != "tflm" else self._asked("litert-ref", asked, len(model.graph.outputs))
        if isinstance(result, str):
            return ""
        return "; LiteRT differs, too" if differs(outputs, result, model.tolerance) else "; LiteRT agrees with us"

    def _asked(self, peer: str, asked: Question, count: int) -> Outputs | str:
        try:
            result: Outputs | str = self._peers[peer].ask(peer, asked, count)
            return result
        except (Died, RuntimeError) as error:
            return f"{error}"


def question(model: Model) -> Question | str:
    """The model as a file, or why it cannot be written."""
    try:
        return Question(write(model.graph), model.runs, 1 if model.stateful else len(model.runs))
    except TwinferError as error:
        return str(error)


def _own(model: Model, said: Said) -> Iterator[Finding]:
    """Faults of our own engines: exceptions, and differences of bits; of floats only as far as numpy can tell."""
    for engine, fault in said.faults.items():
        yield Finding(model, engine, fault)
    for engine, outputs in said.others.items():
        if engine != "numpy":
            yield Finding(model, engine, differs(said.outputs, outputs, 0.0) or "other bits")
        elif difference := differs(said.outputs, outputs, model.tolerance):
            yield Finding(model, engine, difference)


def saturated(outputs: Outputs) -> str:
    """Why peers may differ from float outputs that are the largest there are; "" if none is."""
    floats = (value for run in outputs for value in run if value.dtype == np.float32)
    return SATURATED if any(bool((np.abs(value) == FLOAT_MAX).any()) for value in floats) else ""


def differs(ours: Outputs, others: Outputs, tolerance: float | None) -> str:
    """The first difference in words; "" if there is none, or none can be told (tolerance None)."""
    if tolerance is None:
        return ""
    for run, (mine, other) in enumerate(zip(ours, others, strict=False)):
        for i, (a, b) in enumerate(zip(mine, other, strict=True)):
            if difference := _difference(a, np.asarray(b), tolerance):
                return f"run {run}, output {i}: {difference}"
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
    at = np.unravel_index(int(np.argmin(same)), same.shape)
    place = [int(k) for k in at]
    return f"{int((~same).sum())} of {same.size} elements; at {place} {mine[at]} and {other[at]}"
