"""One model, several engines, one run: the rows of ``twinfer bench``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from twinfer.aot.build.compiled import CompiledModel
from twinfer.bench.host.peak import peak
from twinfer.bench.measure.turns import Run, Timing, interleave
from twinfer.bench.models.source import Source
from twinfer.bench.peers.engines import find, isolate, open_peer
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Array
from twinfer.runtime.options import USUAL, Floats, Options
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Step
from twinfer.runtime.read.files import cache_folder
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.poison import POISONS, poison
from twinfer.runtime.run.session import Session

#: A row of the report, ready for JSON; ``row`` says what is in it.
Row = dict[str, Any]
Progress = Callable[[float], None]

#: Inferences in a row whose outputs must agree: the second one meets the state of the first, and other rubbish.
CHECKED_RUNS = len(POISONS)


@dataclass(frozen=True)
class Comparison:
    """What to compare and for how long: ``seconds`` for all engines of a model together, or a number of ``rounds``."""

    against: Sequence[str] = ()
    layers: bool = False
    seconds: float = 1.0
    rounds: int | None = None
    seed: int = 0
    floats: Floats = USUAL.floats
    threads: int = 1


@dataclass(frozen=True)
class Contender:
    """An engine: what is timed (None if it cannot run the model), its first outputs, and what else its row says."""

    engine: str
    invoke: Run | None
    outputs: Sequence[Array]
    facts: Mapping[str, Any]


def compare(source: Source, comparison: Comparison, progress: Progress = lambda share: None) -> list[Row]:
    """A row for the interpreter, one for compiled code and one per peer. Errors of the first two are raised.

    A peer that cannot run the model has a row with "error" and no times.
    """
    interpreted, compiled, facts = _open_twins(source, Options(floats=comparison.floats, threads=comparison.threads))
    inputs = random_inputs(interpreted.plan.graph, comparison.seed)
    contenders = [
        Contender("interpreted", interpreted.invoke, _own(interpreted, inputs, POISONS), {}),
        Contender("compiled", compiled.invoke, _own(compiled, inputs, POISONS[::-1]), facts),
    ]
    contenders += [_peer(name, source, inputs) for name in comparison.against]
    runs = {c.engine: c.invoke for c in contenders if c.invoke is not None}
    times = interleave(runs, seconds=comparison.seconds, rounds=comparison.rounds, progress=progress)
    rows = [_row(source.name, c, times, contenders[0].outputs, interpreted.plan) for c in contenders]
    rows[0]["peak"] = asdict(peak())
    if comparison.layers:
        rows[0]["dispatch_us"] = _dispatch_us(interpreted.session, comparison)
        layers = _layers([interpreted.session, compiled.session], comparison.seconds)
        rows[0]["layers"], rows[1]["layers"] = layers
    return rows


def _row(model: str, contender: Contender, times: Mapping[str, Timing], want: Sequence[Array], plan: Plan) -> Row:
    """The row of one engine in the JSON. Times are in microseconds; ``ratio``: how many times as fast as the
    interpreter; ``floor_us``: what no engine that does every multiply-accumulate can undercut here.

    ``spread_us`` is the 90th percentile minus the 10th; ``max_difference`` is that of the outputs to the interpreter's.
    """
    timing = times.get(contender.engine)
    ours = contender.engine in ("interpreted", "compiled")
    return {
        "model": model,
        "engine": contender.engine,
        "target": "host",
        "min_us": timing and timing.min / 1e3,
        "median_us": timing and timing.median / 1e3,
        "spread_us": timing and timing.spread / 1e3,
        "ratio": timing and times["interpreted"].min / max(timing.min, 1e-3),
        "floor_us": peak().floor_us(plan),
        "rounds": timing and len(timing.ns),
        "batch": timing and timing.batch,
        "same_bits": same_bits(contender.outputs, want) if timing else None,
        "max_difference": max_difference(contender.outputs, want) if timing else None,
        "operators": len(plan.graph.nodes),
        "macs": plan.macs,
        "arena_bytes": plan.arena_bytes if ours else None,
        "lower_bound_bytes": plan.lower_bound_bytes if ours else None,
        "constant_bytes": plan.constant_bytes if ours else None,
        **({"threads": plan.options.threads} if ours and plan.options.threads > 1 else {}),
        **({"floats": plan.options.floats} if ours and plan.options.floats != USUAL.floats else {}),
        **contender.facts,
    }


def same_bits(a: Sequence[Array], b: Sequence[Array]) -> bool:
    """Whether all outputs have the same type, shape and bytes."""
    return len(a) == len(b) and all(
        x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes() for x, y in zip(a, b, strict=True)
    )


def max_difference(a: Sequence[Array], b: Sequence[Array]) -> float | None:
    """The largest absolute difference of an element; None if shapes differ or a value is NaN or infinite."""
    pairs = list(zip(a, b, strict=True))
    if any(x.shape != y.shape or x.dtype.kind not in "fiub" for x, y in pairs):
        return None
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        far = [np.max(np.abs(x.astype(np.float64) - y.astype(np.float64)), initial=0.0) for x, y in pairs]
    largest = float(np.max(far, initial=0.0))
    return largest if np.isfinite(largest) else None


def _open_twins(source: Source, options: Options) -> tuple[Interpreter, CompiledModel, Row]:
    """The interpreter, its compiled twin, and times of compiling."""
    interpreted = Interpreter.from_graph(source.graph, options)
    interpreted.allocate_tensors()
    before = set(cache_folder().glob("*.so"))
    compiled = CompiledModel.from_graph(source.graph, options)
    start = time.perf_counter()
    compiled.allocate_tensors()
    took = time.perf_counter() - start
    return interpreted, compiled, {"compile_s": took, "compile_cached": before == set(cache_folder().glob("*.so"))}


def _own(model: Interpreter, inputs: Sequence[Array], rubbish: Sequence[int]) -> list[Array]:
    """The outputs of one run per byte of ``rubbish``; the byte fills the memory that the run before used."""
    model.session.feed(inputs)
    outputs: list[Array] = []
    for byte in rubbish:
        poison(model.session, byte)
        model.invoke()
        outputs += model.session.outputs()
    return outputs


def _peer(name: str, source: Source, inputs: Sequence[Array]) -> Contender:
    """A peer in this process, after it has survived the model in another one."""
    count = len(source.graph.outputs)
    try:
        if find(name).aborts:
            isolate(name, source.content, [inputs], count)
        peer = open_peer(name, source.content, count)
        outputs = [value for _ in range(CHECKED_RUNS) for value in peer(inputs)]
    except (ToolError, ValueError, RuntimeError) as error:
        return Contender(name, None, (), {"error": str(error)})
    return Contender(name, peer.invoke, outputs, {})


def _layers(sessions: Sequence[Session], seconds: float) -> list[list[Row]]:
    """For every session, its steps with the shortest time of each kernel. The sessions take turns."""
    shortest = [session.profile(2) for session in sessions]
    end = time.perf_counter() + seconds / 2
    while time.perf_counter() < end:
        for i, session in enumerate(sessions):
            shortest[i] = [min(pair) for pair in zip(shortest[i], session.profile(10), strict=True)]
    return [
        [{**describe(step), "min_us": ns / 1e3} for step, ns in zip(session.plan.steps, times, strict=True)]
        for session, times in zip(sessions, shortest, strict=True)
    ]


def describe(step: Step) -> Row:
    """The columns that the row of a layer has on every target."""
    return {
        "index": step.node.index,
        "op": step.node.op,
        "output": step.node.output.name,
        "type": step.node.output.type,
        "shape": list(step.node.output.shape),
        "kernel": step.call.kernel,
        "macs": step.call.macs,
    }


def _dispatch_us(session: Session, comparison: Comparison) -> float:
    """The cost of the loop in Python per operator, beyond the same calls in one loop in C."""
    runs: dict[str, Run] = {"c": session.run, "python": lambda: session.run_observed(None)}
    times = interleave(runs, seconds=comparison.seconds / 4, rounds=comparison.rounds)
    return max(0.0, times["python"].min - times["c"].min) / 1e3 / max(1, len(session.plan.steps))
