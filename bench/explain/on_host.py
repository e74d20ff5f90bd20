"""The ledger of a model on this computer: µs, with the interval in which each cause lies.

Every program is timed as a whole and layer by layer, in rounds in which all of them take turns. A figure is the median
of its rounds. Intervals are found by the bootstrap (Efron 1979): rounds are drawn anew, with replacement.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer import kernels_c
from twinfer.aot.build.host import FLAGS, CompiledSession, build, compile_plans, loaded
from twinfer.aot.print.emit import emit
from twinfer.bench.explain.ledger import Ledger, Line, Start, lines_of, split
from twinfer.bench.measure.compare import same_bits
from twinfer.bench.measure.embedded import fresh_outputs
from twinfer.bench.measure.turns import interleave
from twinfer.bench.models.source import Source
from twinfer.kernels_c import _ffi
from twinfer.runtime.graph import Array
from twinfer.runtime.options import USUAL, Options
from twinfer.runtime.plan.choice import default_policy, share_all
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.read.tflite import read
from twinfer.runtime.run import isa
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.tools import find_compiler

#: Times in µs: [rounds] of whole runs, [rounds, steps] of layers.
Times = NDArray[np.float64]

#: In what each program differs from the one before; the first is the interpreter's loop in Python.
CAUSES = ("dispatch_python", "unit", "not_explained", "compiler_options", "dispatch_c", "parameters")

#: Every function and loop of the programs begins at a cache line. Where a compiler lets them begin by chance, the same
#: kernel takes up to a tenth more in one program than in another.
ALIGNED = ("-falign-functions=64", "-falign-loops=64")

#: What layers gain from values that the one before has left in a cache; a part of ``parameters`` when timed in order.
CACHE = "cache"

#: How often all programs are opened anew, each time deeper in the stack. Stores to the stack hold up loads from
#: constants that lie at a distance of whole 4 KiB from them: that can double the time of a layer in one process.
OPENINGS = 5

#: The least number of rounds of an opening, and how often rounds are drawn anew.
MIN_ROUNDS, DRAWS = 8, 400


@dataclass(frozen=True)
class Timed:
    """Times of the programs in µs: of whole runs [programs, rounds], and of steps in the order of a run.

    ``layers`` are [programs, rounds, steps]. ``alone`` are those of the last two programs, each step run twice in a row
    and timed then.
    """

    whole: Times
    layers: Times
    alone: Times


def ledger_on_host(
    source: Source,
    options: Options = USUAL,
    seed: int = 0,
    seconds: float = 5.0,
    progress: Callable[[float], None] = lambda share: None,
) -> Ledger:
    """The ledger of a model on this computer; ``seconds`` is about how long is timed. ToolError without a compiler."""
    plan = make_plan(source.graph, isa.this_computer(), options)
    inputs = random_inputs(plan.graph, seed)
    parts, outputs = list[Timed](), list[list[Array]]()

    def measure(i: int) -> None:
        sessions = _sessions(plan)
        outputs.extend(fresh_outputs(session, inputs) for session in sessions)
        parts.append(_timed(sessions, seconds / OPENINGS, lambda share: progress((i + share) / OPENINGS)))

    for i in range(OPENINGS):
        _deeper(i, lambda i=i: measure(i))  # type: ignore[misc]
    arrays = list[tuple[Times, Times, Times]]()
    for part in parts:
        rounds = min(part.layers.shape[1], part.whole.shape[1])  # so that every opening counts as much
        arrays.append((part.whole[:, :rounds], part.layers[:, :rounds], part.alone[:, :rounds]))
    timed = Timed(*(np.concatenate(each, axis=1) for each in zip(*arrays, strict=True)))
    return Ledger(
        source.name,
        "host",
        "µs",
        tuple(_lines(plan, timed)),
        start_on_host(source, options, inputs),
        all(same_bits(each, outputs[0]) for each in outputs),
        intervals=_intervals(timed),
    )


def _deeper(levels: int, work: Callable[[], None]) -> None:
    """Do the work so many calls from C deeper in the stack."""
    raised: list[BaseException] = []

    def inner() -> None:
        try:
            _deeper(levels - 1, work)
        except BaseException as error:
            raised.append(error)  # C cannot pass it on

    if levels == 0:
        work()
        return
    ctypes.PYFUNCTYPE(None)(inner)()
    for error in raised:
        raise error


def _sessions(plan: Plan) -> list[Session]:
    """The engines of the programs, without the loop in Python, which is the first one's."""
    own = (*FLAGS, *ALIGNED)
    given = str(sysconfig.get_config_var("CFLAGS") or "").split()  # which Python has extensions compiled with
    about_code = (flag for flag in dict.fromkeys(given) if flag.startswith("-f"))
    alike = (*(flag for flag in own if flag != "-march=native"), *_level_flags(), *about_code)
    table, name = plan.printed(mode="interpreted"), "model"
    alone = compile_plans({name: table}, flags=alike, exported=True)[name]
    return [
        Session(plan),
        Borrowing(plan, alone.library, name),
        alone,
        compile_plans({name: table}, flags=own)[name],
        compile_plans({name: plan}, flags=own, policy=share_all)[name],
        compile_plans({name: plan}, flags=own, policy=default_policy)[name],
    ]


class Borrowing(Session):
    """The interpreter with the shared kernels of a library from ``compile_plans``; others are the extension's."""

    def __init__(self, plan: Plan, library: ctypes.CDLL, name: str) -> None:
        self._library, self._name = library, name
        super().__init__(plan)

    def _function(self, kernel: str) -> Any:
        try:
            address = ctypes.c_void_p.in_dll(self._library, f"{self._name}_at_{kernel}").value
        except ValueError:
            return super()._function(kernel)
        return kernels_c.ffi.cast("tw_fn *", address)


def _level_flags() -> list[str]:
    """The flags for what the extension's kernels of this computer's level may use: as their C file says it."""
    source = (kernels_c.FOLDER / "run" / f"level_{kernels_c.LEVELS[isa.level()]}.c").read_text(encoding="utf-8")
    names = re.findall(r'^#pragma GCC target\("(.*)"\)$', source, re.MULTILINE)
    return [f"-m{name}" for name in ",".join(names).split(",") if name]


def _timed(sessions: Sequence[Session], seconds: float, progress: Callable[[float], None]) -> Timed:
    python = sessions[0]
    runs = {"python": lambda: python.run_observed(None), **{str(i): each.run for i, each in enumerate(sessions)}}
    whole = interleave(runs, seconds=seconds / 2, progress=lambda share: progress(share / 2))
    layers, alone = _layers(sessions, seconds / 2, lambda share: progress(0.5 + share / 2))
    taken = np.array([timing.ns for timing in whole.values()]) / 1e3
    each = (np.median(taken[0]) - np.median(taken[1])) / max(1, layers.shape[2])  # the loop does the same for all
    return Timed(taken, np.concatenate([layers[:1] + each, layers]), alone)


def _layers(sessions: Sequence[Session], seconds: float, progress: Callable[[float], None]) -> tuple[Times, Times]:
    """``layers`` and ``alone`` of ``Timed``, but for the loop in Python."""
    if not sessions[0].plan.straight:
        return np.zeros((len(sessions), 1, 0)), np.zeros((2, 1, 0))
    rounds: list[list[list[int]]] = []
    begin = time.perf_counter()
    while len(rounds) < MIN_ROUNDS or time.perf_counter() < begin + seconds:
        taken = [session.profile(1) for session in sessions]
        rounds.append([*taken, *(session.profile_alone() for session in sessions[-2:])])
        progress(min(1.0, (time.perf_counter() - begin) / seconds))
    times = np.array(rounds, np.float64).transpose(1, 0, 2) / 1e3
    return times[: len(sessions)], times[len(sessions) :]


def _lines(plan: Plan, timed: Timed) -> list[Line]:
    layers = [[float(ns) for ns in np.median(program, axis=0)] for program in timed.layers]
    lines = lines_of(plan, CAUSES, layers, [float(us) for us in np.median(timed.whole, axis=1)])
    saved = _cache(timed)
    return [split(line, "parameters", CACHE, sum((saved[i] for i in line.steps), 0.0)) for line in lines]


def _cache(timed: Timed, rounds: Any = slice(None)) -> list[float]:
    """How much less the last program's steps take than those of the one before because of what is in the caches."""
    ordered = np.median(timed.layers[-2:, rounds], axis=1)
    alone = np.median(timed.alone[:, rounds], axis=1)
    shared, own = ordered - alone
    return [float(us) for us in shared - own]


def _intervals(timed: Timed) -> dict[str, tuple[float, float]]:
    """Cause -> where 95 % of the bootstrap's values lie, of the total."""
    rng = np.random.default_rng(0)
    count, drawn = timed.whole.shape[1], []
    for _ in range(DRAWS):
        whole = np.median(timed.whole[:, rng.integers(count, size=count)], axis=1)
        saved = {cause: before - after for cause, (before, after) in zip(CAUSES, pairwise(whole), strict=True)}
        rounds = timed.alone.shape[1]
        cache = sum(_cache(timed, rng.integers(rounds, size=rounds)), 0.0)
        drawn.append({**saved, "parameters": saved["parameters"] - cache, CACHE: cache})
    return {
        cause: (float(low), float(high))
        for cause in drawn[0]
        for low, high in [np.percentile([each[cause] for each in drawn], (2.5, 97.5))]
    }


# -- from a file to the first inference --------------------------------------------------------------------------------


ROUNDS = 5

#: What is done, and how many ms it took, in order.
Watch = dict[str, float]


def start_on_host(source: Source, options: Options, inputs: Sequence[Array]) -> Start:
    """Times in ms; the interpreter's bytes are those of its extension, with all kernels. ToolError without a compiler.

    The compiler has run before: what it made is loaded and runs.
    """
    plan = make_plan(source.graph, isa.this_computer(), options)
    library = build([emit(plan, "model")], find_compiler(None), FLAGS)
    rounds = [(_interpreted(source.content, options, inputs), _compiled(library, plan, inputs)) for _ in range(ROUNDS)]
    interpreted, compiled = (
        {what: median(each[what] for each in watches) for what in watches[0]} for watches in zip(*rounds, strict=True)
    )
    return Start("ms", interpreted, compiled, Path(_ffi.__file__).stat().st_size)


def _interpreted(content: bytes, options: Options, inputs: Sequence[Array]) -> Watch:
    watch = Watch()
    with _watch(watch, "read"):
        graph = read(content)
    with _watch(watch, "plan"):
        plan = make_plan(graph, isa.this_computer(), options)
    with _watch(watch, "bind"):
        session = Session(plan)
    session.feed(inputs)
    with _watch(watch, "first run"):
        session.run()
    return watch


def _compiled(library: Path, plan: Plan, inputs: Sequence[Array]) -> Watch:
    watch = Watch()
    with tempfile.TemporaryDirectory(prefix="twinfer-") as work:
        fresh = Path(shutil.copy(library, work))  # or it would be loaded already
        with _watch(watch, "load"):
            opened = loaded(fresh)
    session = CompiledSession(plan, "model", opened)
    session.feed(inputs)
    with _watch(watch, "first run"):
        session.run()
    return watch


@contextmanager
def _watch(watch: Watch, what: str) -> Iterator[None]:
    begin = time.perf_counter_ns()
    yield
    watch[what] = (time.perf_counter_ns() - begin) / 1e6
