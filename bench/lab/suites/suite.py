"""Runs the cases of a suite, each in a process of its own, and says what became of each."""

from __future__ import annotations

import multiprocessing
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import connection
from typing import Any, cast

import numpy as np

from twinfer.aot.build.compiled import compile
from twinfer.bench.peers.litert import Litert
from twinfer.converter.quantize.compare import share_of_range
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.write.tflite import write

#: The largest error of floats, as a part of the range of the values that are expected.
TOLERANCE = 1e-4

#: What can become of a case. ``ours alone``: right here, but LiteRT has not the operators, or other values.
KINDS = ("passed", "ours alone", "refused", "wrong", "failed")


@dataclass(frozen=True)
class Trial:
    """A converted model, its inputs by name, and what its outputs must be, in their order."""

    graph: Graph
    inputs: Mapping[str, Array]
    expected: Sequence[Array]
    tolerance: float = TOLERANCE


@dataclass(frozen=True)
class Case:
    """A model of a suite. ``subject`` is what it tries, such as an operator. ``convert`` raises TwinferError where the
    model is refused. ``beside``: why it does not count, such as "training"; empty if it does. ``known``: why it stays
    wrong."""

    name: str
    subject: str
    convert: Callable[[], Trial]
    beside: str = ""
    known: str = ""


@dataclass(frozen=True)
class Outcome:
    """What became of a case: one of KINDS and, unless it passed, why."""

    name: str
    subject: str
    kind: str
    cause: str = ""
    beside: str = ""


def run(cases: Sequence[Case], jobs: int = 2, seconds: float = 120, *, compiled: int = 0) -> Iterator[Outcome]:
    """The outcomes, as they come. A case that takes longer than ``seconds`` or ends its process has failed.
    ``compiled``: each so manieth model is compiled, too, and must give the interpreter's bits."""
    context = multiprocessing.get_context("fork")  # what is imported already need not be imported again
    waiting, live = list(reversed(cases)), dict[Any, tuple[Any, Case, float, list[str]]]()
    while waiting or live:
        while waiting and len(live) < jobs:
            ours, theirs = context.Pipe(duplex=False)
            asked = compiled > 0 and len(waiting) % compiled == 0
            process = context.Process(target=_try, args=(waiting[-1], theirs, asked), daemon=True)
            process.start()
            theirs.close()
            live[ours] = (process, waiting.pop(), time.monotonic() + seconds, [])
        for ready in cast(list[Any], connection.wait(list(live), timeout=1)):
            try:
                live[ready][3].append(ready.recv())
            except EOFError:
                process, case, _, said = live.pop(ready)
                process.join()
                yield _outcome(case, said, f"the process ended with {process.exitcode}")
        for pipe, (process, case, until, said) in list(live.items()):
            if time.monotonic() > until:
                process.kill()
                del live[pipe]
                yield _outcome(case, said, f"it took more than {seconds:.0f} seconds")


def _outcome(case: Case, said: Sequence[str], end: str) -> Outcome:
    """``said``: by the process, kind and cause of this package's part, then of LiteRT's."""
    if not said:
        return Outcome(case.name, case.subject, "failed", end, case.beside)
    kind, _, cause = said[0].partition(": ")
    cause = case.known if kind == "wrong" and case.known else cause
    if kind == "passed" and said[1:] != ["same"]:
        kind, cause = "ours alone", said[1] if said[1:] else f"LiteRT: {end}"
    return Outcome(case.name, case.subject, kind, cause, case.beside)


def _try(case: Case, pipe: Any, compiled: bool) -> None:
    """Converts and runs, here and in LiteRT, and says after each what came of it."""
    try:
        trial = case.convert()
        model = write(trial.graph)
        outputs = run_by(Interpreter(model_content=model), trial.inputs)
        cause = _difference(outputs, trial)
        if compiled and not cause:
            same = map(_same_bits, run_by(compile(model), trial.inputs), outputs)
            cause = "" if all(same) else "compiled C gives other bits than the interpreter"
        pipe.send(f"wrong: {cause}" if cause else "passed")
    except TwinferError as error:
        pipe.send(f"refused: {_reason(str(error))}")
        return
    except Exception as error:
        pipe.send(f"failed: {type(error).__name__}: {error}")
        return
    if not cause:
        try:
            engine = Litert(model, len(trial.expected))
            engine.feed([trial.inputs[t.name] for t in trial.graph.inputs])
            engine.invoke()
            cause = _difference(engine.outputs(), trial)
            pipe.send(f"LiteRT: {cause}" if cause else "same")
        except Exception as error:
            pipe.send(f"LiteRT: {error}")


def _reason(text: str) -> str:
    """The reasons of an error that counts nodes, without names of nodes."""
    lines = re.findall(r"^  (.+) \(\d+x\): (.*?)(?:; nodes? [^;]*)?$", text, re.MULTILINE)
    return "; ".join(f"{op}: {why}" for op, why in lines) or text


def run_by(engine: Interpreter, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs of an interpreter, or of a compiled model, for inputs by name."""
    engine.allocate_tensors()
    for detail in engine.get_input_details():
        engine.set_tensor(detail["index"], inputs[detail["name"]])
    engine.invoke()
    return [engine.get_tensor(detail["index"]) for detail in engine.get_output_details()]


def _same_bits(a: Array, b: Array) -> bool:
    return a.shape == b.shape and (a.tobytes() == b.tobytes() or np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


def _difference(outputs: Sequence[Array], trial: Trial) -> str:
    """How outputs differ from what is expected: "" where they are equal, or floats are near enough."""
    if len(outputs) != len(trial.expected):
        return f"{len(outputs)} outputs, not {len(trial.expected)}"
    for i, (got, want) in enumerate(zip(outputs, trial.expected, strict=True)):
        if got.shape != want.shape:
            return f"output {i} has the shape {list(got.shape)}, not {list(want.shape)}"
        if got.dtype.kind != "f" or want.dtype.kind != "f":
            if not np.array_equal(got, want):
                return f"output {i} differs in {int((got != want).sum())} of {want.size} places"
        elif cause := _error(np.asarray(got, np.float64), np.asarray(want, np.float64), trial.tolerance):
            return f"output {i}: {cause}"
    return ""


def _error(got: Array, want: Array, tolerance: float) -> str:
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return "other infinities or NaN"
    error = share_of_range(got, want)
    return "" if error <= tolerance else f"error {error:.2g} of the range"
