"""From a file to the first inference on this computer: what the interpreter does before it, and what compiling leaves.

Every round does all of it anew; the medians of the rounds count.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from twinfer.aot.build.host import FLAGS, CompiledSession, build, loaded
from twinfer.aot.print.emit import emit
from twinfer.bench.explain.ledger import Start
from twinfer.bench.models.source import Source
from twinfer.kernels_c import _ffi
from twinfer.runtime.graph import Array
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.read.tflite import read
from twinfer.runtime.run import isa
from twinfer.runtime.run.session import Session
from twinfer.runtime.tools import find_compiler

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
    interpreted, compiled = map(_medians, zip(*rounds, strict=True))
    return Start("ms", interpreted, compiled, Path(_ffi.__file__).stat().st_size)


def _interpreted(content: bytes, options: Options, inputs: Sequence[Array]) -> Watch:
    watch = Watch()
    with _timed(watch, "read"):
        graph = read(content)
    with _timed(watch, "plan"):
        plan = make_plan(graph, isa.this_computer(), options)
    with _timed(watch, "bind"):
        session = Session(plan)
    session.feed(inputs)
    with _timed(watch, "first run"):
        session.run()
    return watch


def _compiled(library: Path, plan: Plan, inputs: Sequence[Array]) -> Watch:
    watch = Watch()
    with tempfile.TemporaryDirectory(prefix="twinfer-") as work:
        fresh = Path(shutil.copy(library, work))  # or it would be loaded already
        with _timed(watch, "load"):
            opened = loaded(fresh)
    session = CompiledSession(plan, "model", opened)
    session.feed(inputs)
    with _timed(watch, "first run"):
        session.run()
    return watch


@contextmanager
def _timed(watch: Watch, what: str) -> Iterator[None]:
    begin = time.perf_counter_ns()
    yield
    watch[what] = (time.perf_counter_ns() - begin) / 1e6


def _medians(rounds: Sequence[Watch]) -> Mapping[str, float]:
    return {what: median(each[what] for each in rounds) for what in rounds[0]}
