"""Measures for the pages of docs: ``python -m twinfer.bench.lab.measure WHAT MODEL ... [--target LIST] [--json FILE]``.

WHAT is ``rows`` (what it costs to run layers by rows), ``streams`` (what streaming is worth), ``explain`` (what
compiling and each technique are worth), ``apart`` (what weights apart from the program cost), ``samples`` (what
predict is worth on many samples) or ``threads`` (what a second thread is worth). It writes the figures and prints the
tables that the pages show.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from rich.console import Console
from rich.progress import track

from twinfer.aot.build.firmware import build
from twinfer.aot.build.host import compile_plans
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.sizes import sizes
from twinfer.aot.build.targets import Card, find
from twinfer.aot.print.emit import emit
from twinfer.bench.explain import explain as explaining
from twinfer.bench.explain.explain import Wanted
from twinfer.bench.explain.techniques import chosen
from twinfer.bench.lab import figures
from twinfer.bench.measure.compare import Row, same_bits
from twinfer.bench.measure.embedded import Instructions
from twinfer.bench.measure.report import document
from twinfer.bench.measure.turns import interleave
from twinfer.bench.models.source import Source, load
from twinfer.converter.stream.convert import prove, stream
from twinfer.runtime.constant import Constant, Role
from twinfer.runtime.errors import InvalidArgumentError, TwinferError
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.options import Apart, Memory, Options
from twinfer.runtime.plan.by_rows.schedule import ChainRun
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Layer, Step
from twinfer.runtime.read.files import write_text
from twinfer.runtime.run import isa
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.session import Session

#: Seconds that a ledger and a ladder each are timed on this computer, and all ways to run many samples.
SECONDS = 10.0

#: Samples of one run with a batch.
BATCH = 32


# -- by rows -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """What one inference of a plan takes.

    ``ram_bytes`` is the arena, ``weights_read`` the bytes of weights that all kernel calls read, each call its own
    once. ``parts`` counts the kernel calls that compute some rows of a layer, 0 layer by layer.
    """

    ram_bytes: int
    instructions: int
    flash_bytes: int
    weights_read: int
    parts: int


def by_rows(source: Source, card: Card) -> Row:
    """A model planned layer by layer and by rows, on a card's core. ToolError if one cannot be built or run there.

    ``input_rows_bytes`` is the arena of a plan that takes its input row by row, None if there can be none.
    """
    inputs = random_inputs(source.graph, 0)
    (layers, want), (rows, outputs) = (_run(source.graph, memory, card, inputs) for memory in ("layers", "rows"))
    try:
        fed = make_plan(source.graph, card.target, Options(memory="rows", input_rows=True)).arena_bytes
    except InvalidArgumentError:
        fed = None
    both = {"layers": asdict(layers), "rows": asdict(rows), "same_bits": same_bits(outputs, want)}
    return {"model": source.name, "board": card.name, **both, "input_rows_bytes": fed}


def _run(graph: Graph, memory: Memory, card: Card, inputs: Sequence[Array]) -> tuple[Cost, list[Array]]:
    """The cost of a plan, and the outputs."""
    project = emit(make_plan(graph, card.target, Options(memory=memory)), "model")
    plan, (result,) = project.plan, run_jobs(build(project, card), [Job(inputs)])
    calls, read = calls_by_rows(plan), 0
    for step in plan.steps:
        weights = {value for value in step.read if isinstance(value, Constant)}
        nbytes = sum(each.nbytes for each in weights if each.role not in (Role.INDEX, Role.TABLE))
        own = step.call.rows and step.call.rows.sums  # every call reads the weights of its own part
        read += nbytes if own else nbytes * calls.get(step, 1)
    flash = sizes(project, card).flash_bytes
    return Cost(plan.arena_bytes, result.counts[0], flash, read, sum(calls.values())), list(result.outputs)


def calls_by_rows(plan: Plan) -> dict[Step, int]:
    """Step of a chain -> how many kernel calls compute it, some of its rows each."""
    calls = Counter[Step]()
    for chain in dict.fromkeys(plan.chains.values()):
        ends = [layer.out for layer in chain.layers if layer.out not in chain.rings]
        computed = (chain.links[part.link] for part in ChainRun(chain.links, ends).parts())
        calls.update(link.step for link in computed if isinstance(link, Layer))
    return dict(calls)


# -- streams, and what compiling is worth ------------------------------------------------------------------------------


def streams(source: Source, card: Card) -> Row:
    """A model over a window beside its streaming one (``twinfer stream``), which is proven to give the same bits."""
    streaming = stream(source.graph)
    same = prove(source.graph, streaming).different == 0

    def cost(graph: Graph) -> Row:
        plan = make_plan(graph, card.target)
        counted = {"macs": plan.macs, "instructions": Instructions(card.name)(graph, b"", card.target)}
        return {**counted, "arena_bytes": plan.arena_bytes, "state_bytes": plan.state_bytes}

    both = {"window": cost(source.graph), "step": cost(streaming.graph), "same_bits": same}
    return {"target": card.name, "model": source.name, "rows": streaming.rows, "hop": streaming.hop, **both}


def explain(source: Source, card: Card | None) -> Row:
    """The ledger and the ladder of a model, on this computer without a card."""
    techniques = chosen(None, card.target if card else isa.this_computer())
    *_, whole = explaining.explain(source, card, wanted=Wanted(seconds=SECONDS, techniques=techniques))
    return whole.document


def apart(source: Source, card: Card) -> Row:
    """Weights as arrays of the program beside a block of their own and pages: bytes and instructions, and bits.

    The instructions of pages have those of a simulated memory in them, which copies byte by byte.
    """
    inputs, found = random_inputs(source.graph), {}
    for way in get_args(Apart):
        plan = make_plan(source.graph, card.target, Options(weights_as=way))
        project = emit(plan, source.name)
        (result,) = run_jobs(build(project, card), [Job(inputs)])
        session = Session(plan)
        session.feed(inputs)
        session.run()
        found[way] = {
            "flash_bytes": sizes(project, card).flash_bytes,
            "block_bytes": 0 if way == "linked" else project.constants.nbytes,
            "arena_bytes": plan.arena_bytes,
            "instructions": result.counts[0],
            "same_bits": same_bits(session.outputs(), result.outputs),
        }
    return {
        "target": card.name,
        "model": source.name,
        **found,
        "same_bits": all(w["same_bits"] for w in found.values()),
    }


def samples(source: Source, card: Card | None) -> Row:
    """Microseconds for each of many samples, on this computer: by a loop over runs, and by ``predict`` on one thread,
    on two, and with a batch where the model can be resized."""
    del card
    (tensor,) = source.graph.inputs
    engine = Interpreter.from_graph(source.graph)
    engine.allocate_tensors()
    count = min(512, max(16, 10**8 // max(1, engine.plan.macs)))
    x = np.concatenate([random_inputs(source.graph, i)[0] for i in range(count)])
    into, out = (details()[0]["index"] for details in (engine.get_input_details, engine.get_output_details))

    def loop() -> Array:
        results = []
        for i in range(count):
            engine.set_tensor(into, x[i : i + 1])
            engine.invoke()
            results.append(engine.get_tensor(out))
        return np.concatenate(results)

    def predicted(**how: Any) -> Callable[[], Array]:
        return lambda: np.asarray(engine.predict(x, integers=True, **how))

    ways = {"loop": loop, "predict": predicted(workers=1), "workers": predicted(workers=2)}
    try:
        predicted(batch_size=BATCH)()
        ways["batch"] = predicted(batch_size=BATCH)
    except TwinferError:
        pass  # it reshapes to a fixed batch
    want = loop()
    same = all(way().tobytes() == want.tobytes() for way in ways.values())
    times = interleave(ways, seconds=SECONDS)
    each = {name: {"min_us": t.min / 1e3 / count, "median_us": t.median / 1e3 / count} for name, t in times.items()}
    return {"model": source.name, "input": list(tensor.shape), "samples": count, **each, "same_bits": same}


def threads(source: Source, card: Card | None) -> Row:
    """The shortest time of compiled code on this computer with one and two threads, in µs, and bytes of the arena."""
    del card
    plans = {f"t{n}": make_plan(source.graph, isa.this_computer(), Options(threads=n)) for n in (1, 2)}
    engines, outputs = compile_plans(plans), list[Sequence[Array]]()
    for engine in engines.values():
        engine.feed(random_inputs(plans["t1"].graph))
        engine.run()
        outputs.append(engine.outputs())
    times = interleave({name: engine.run for name, engine in engines.items()}, seconds=SECONDS)
    us, arenas = [times[name].min / 1e3 for name in plans], [plan.arena_bytes for plan in plans.values()]
    return {"model": source.name, "min_us": us, "arena_bytes": arenas, "same_bits": same_bits(*outputs)}


#: What is measured: the function, the targets if none are named, and the figures that are printed.
MEASURED: Mapping[str, tuple[Callable[[Source, Any], Row], str, Sequence[Callable[[Any], str]]]] = {
    "rows": (by_rows, "cortex-m4,cortex-m55", [figures.rows]),
    "streams": (streams, "cortex-m4", [figures.streaming]),
    "explain": (explain, "host,cortex-m4,cortex-m55", []),
    "apart": (apart, "cortex-m4", [figures.weights_apart]),
    "samples": (samples, "host", [figures.many_samples]),
    "threads": (threads, "host", [figures.threads]),
}


def main(argv: Sequence[str] | None = None) -> int:
    """1 if programs gave other bits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=MEASURED, metavar="WHAT")
    parser.add_argument("models", nargs="+", metavar="MODEL", help="built-in models or .tflite files")
    parser.add_argument("--target", metavar="LIST", help="cores, separated by commas; host is this computer")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file, too")
    arguments = parser.parse_args(argv)
    measure, targets, shown = MEASURED[arguments.what]
    names = (arguments.target or targets).split(",")
    cards = [None if name == "host" else find(name, also=["host"]) for name in names]
    if None in cards and arguments.what not in ("explain", "samples", "threads"):
        parser.error(f"{arguments.what} is measured on microcontrollers: --target {targets}")
    pairs = [(load(model), card) for model in arguments.models for card in cards]
    told = document([measure(*pair) for pair in track(pairs, arguments.what, console=Console(stderr=True))])
    if arguments.json:
        write_text(arguments.json, json.dumps(told, indent=1) + "\n")
    for text in shown:
        sys.stdout.write(text(told) + "\n")
    wrong = [row["model"] for row in told["rows"] if not row["same_bits"]]
    for model in wrong:
        sys.stderr.write(f"{model}: programs gave OTHER BITS\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
