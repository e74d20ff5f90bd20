"""What every engine says about a model. Each runs in a process of its own (``worker.py``), because it may crash."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from twinfer import kernels_c
from twinfer.aot.build.host import compile_plans, flags_at
from twinfer.aot.print.choice import share_all
from twinfer.bench.known.meaning import Meaning
from twinfer.bench.peers.engines import open_peer
from twinfer.runtime.errors import ToolError, TwinferError
from twinfer.runtime.graph import Array
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.read.tflite import read
from twinfer.runtime.run.poison import poison
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import TARGETS, Target

#: Outputs of every run, or one line that says why there are none.
Outputs = list[list[Array]]
Runs = Sequence[Sequence[Array]]

#: Options of the compiler: quick ones, and those that users take.
QUICK, USUAL = "-O1", "-O3"


@dataclass
class Said:
    """What our engines say: the interpreter's ``outputs``, and those of every engine that says otherwise.

    ``refusal``: the planner refuses the model. ``faults``: an engine's name -> what it raised.
    """

    outputs: Outputs = field(default_factory=list)
    others: dict[str, Outputs] = field(default_factory=dict)
    refusal: str = ""
    faults: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """A .tflite file and the inputs of its runs; ``numpy_runs`` of them have a meaning in numpy."""

    content: bytes
    runs: Runs
    numpy_runs: int


def peer_outputs(peer: str, question: Question, outputs: int) -> Outputs | str:
    """The outputs of every run in a peer, or why it refuses the model."""
    try:
        model = open_peer(peer, question.content, outputs)
        model.reset()
        return [[np.array(value) for value in model(inputs)] for inputs in question.runs]
    except (ToolError, RuntimeError, ValueError) as error:
        return str(error) or type(error).__name__


def ours(questions: Sequence[Question], level: str, cache: str) -> list[Said]:
    """What numpy, the interpreter for every target and level, and compiled C say; all are compiled together.

    ``level`` is the compiler's, none: nothing is compiled. ``cache``: the folder of libraries.
    """
    os.environ["XDG_CACHE_HOME"] = cache
    said, plans = [], dict[str, Plan]()
    for i, question in enumerate(questions):
        answer, plan = _interpreted(question)
        said.append(answer)
        if plan is not None:
            plans[f"m{i}"] = plan
    if level and plans:
        for name, result in _compiled(plans, {f"m{i}": q for i, q in enumerate(questions)}, level):
            _note(said[int(name[1:])], "compiled", result)
        for file in Path(cache).glob("twinfer/*"):
            file.unlink()
    return said


def _interpreted(question: Question) -> tuple[Said, Plan | None]:
    """What numpy and the interpreter say, and a plan to compile: of the targets with a plan of their own, in turn."""
    said = Said()
    plans: list[Plan] = []
    try:
        graph = read(question.content)
        plans = list(_plans(question))
        said.outputs = _outputs(Session(plans[0], 0), question.runs)
    except TwinferError as error:
        said.refusal = f"{type(error).__name__}: {error}"
        return said, None
    except Exception:
        said.faults["planner"] = _last_line()
        return said, None
    for plan in plans:
        for level in range(kernels_c.lib.tw_level() + 1):
            result = _outputs(Session(plan, level), question.runs)
            _note(said, f"interpreter, {plan.target.name}, level {level}", result)
    try:
        meaning = Meaning(graph)
        _note(said, "numpy", [meaning.run(inputs) for inputs in question.runs[: question.numpy_runs]])
    except Exception:
        said.faults["numpy"] = _last_line()
    return said, plans[len(question.content) // 4 % len(plans)]


def _plans(question: Question) -> Iterator[Plan]:
    """A plan per target; of those that call the same kernels only the first."""
    seen = set[str]()
    for target in TARGETS:
        plan = _plan(question.content, target)
        kernels = repr([call.kernel for step in plan.steps for call in step.calls])
        if kernels not in seen:
            seen.add(kernels)
            yield plan


def _plan(content: bytes, target: Target) -> Plan:
    return make_plan(read(content), target)


def _outputs(session: Session, runs: Runs) -> Outputs:
    """The outputs of runs from fresh state; no run finds anything in the arena."""
    session.reset_variables()
    results = []
    for inputs in runs:
        poison(session)
        session.feed(inputs)
        session.run()
        results.append(session.outputs())
    return results


def _note(said: Said, engine: str, result: Outputs | str) -> None:
    """Keeps what an engine says if it is not what the interpreter says."""
    if isinstance(result, str):
        said.faults[engine] = result
    elif not same(result, said.outputs):
        said.others[engine] = result


def same(result: Outputs, outputs: Outputs) -> bool:
    """Whether both are the same bits, as far as both have run."""
    pairs = [(g, w) for got, want in zip(result, outputs, strict=False) for g, w in zip(got, want, strict=True)]
    return all(g.dtype == w.dtype and g.shape == w.shape and g.tobytes() == w.tobytes() for g, w in pairs)


def _compiled(
    plans: Mapping[str, Plan], by_name: Mapping[str, Question], level: str
) -> Iterator[tuple[str, Outputs | str]]:
    """The outputs of compiled C by name; where the compiler fails, halves are tried until one model is blamed."""
    try:
        engines = compile_plans(plans, flags=flags_at(level), policy=share_all if level == QUICK else None)
    except Exception as error:
        if len(plans) == 1:
            yield next(iter(plans)), f"does not compile: {error}"
            return
        names = list(plans)
        for half in (names[: len(names) // 2], names[len(names) // 2 :]):
            yield from _compiled({name: plans[name] for name in half}, by_name, level)
        return
    for name, engine in engines.items():
        yield name, _outputs(engine, by_name[name].runs)


def _last_line() -> str:
    """The error that is being handled, with the place where it was raised."""
    lines = traceback.format_exc().strip().splitlines()
    places = [line.strip() for line in lines if line.strip().startswith("File ")]
    return f"{lines[-1]} ({places[-1] if places else ''})"
