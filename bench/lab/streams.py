"""What streaming is worth: ``python -m twinfer.bench.lab.streams [MODEL ...]``.

A model over a window beside its streaming one (``twinfer stream``): multiply-accumulates, instructions on a
microcontroller under QEMU, and memory. Every pair is proven to give the same bits first.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from twinfer.aot.build.targets import find
from twinfer.bench.measure.embedded import Instructions
from twinfer.bench.measure.report import document, table
from twinfer.bench.models.source import load
from twinfer.converter.stream.convert import prove, stream
from twinfer.runtime.graph import Graph
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.files import write_text

#: Built-in models that have rows in time.
MODELS = ("tcn_int8", "kws_int8")


@dataclass(frozen=True)
class Cost:
    """What one run takes: of a window, or of a step."""

    macs: int
    instructions: int
    arena_bytes: int
    state_bytes: int


@dataclass(frozen=True)
class Pair:
    """A model over windows of ``rows``, and over ``hop`` new rows."""

    model: str
    rows: int
    hop: int
    window: Cost
    step: Cost
    same_bits: bool


def measured(model: str, board: str) -> Pair:
    """Both ways of a model on a board's core. ToolError if it cannot be built or run there."""
    graph = load(model).graph
    streaming = stream(graph)
    proof = prove(graph, streaming)
    window, step = (_cost(each, board) for each in (graph, streaming.graph))
    return Pair(Path(model).stem, streaming.rows, streaming.hop, window, step, proof.different == 0)


def _cost(graph: Graph, board: str) -> Cost:
    target = find(board).target
    plan = make_plan(graph, target)
    return Cost(plan.macs, Instructions(board)(graph, b"", target), plan.arena_bytes, plan.state_bytes)


def lines(pairs: Iterable[Pair]) -> Iterator[tuple[str, ...]]:
    """A line for the window, the step and their ratio, per model."""
    for pair in pairs:
        for what, cost in ((f"window of {pair.rows}", pair.window), (f"step of {pair.hop}", pair.step)):
            numbers = (cost.macs, cost.instructions, cost.arena_bytes, cost.state_bytes)
            yield (pair.model, what, *(f"{number:,}" for number in numbers), "")
        ratios = (pair.window.macs / pair.step.macs, pair.window.instructions / pair.step.instructions)
        yield "", "ratio", *(f"{ratio:.1f}" for ratio in ratios), "", "", "same" if pair.same_bits else "DIFFER"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS, help="built-in models or .tflite files")
    parser.add_argument("--board", default="cortex-m4", help="the core (default: cortex-m4)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file, too")
    arguments = parser.parse_args()
    pairs = [measured(model, arguments.board) for model in arguments.models]
    if arguments.json:
        rows = [{"target": arguments.board, **asdict(pair)} for pair in pairs]
        write_text(arguments.json, json.dumps(document(rows), indent=1) + "\n")
    columns = ("<", "<run over", "MACs", "instructions", "arena", "state", "<bits")
    shown = table(f"Streaming on {arguments.board}", *columns)
    for line in lines(pairs):
        shown.add_row(*line)
    Console(width=None).print(shown)


if __name__ == "__main__":
    main()
