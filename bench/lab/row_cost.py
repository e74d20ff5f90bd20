"""What it costs to run layers by rows: ``python -m twinfer.bench.lab.row_cost MODEL ... [--board CORE ...]``.

Every model is planned layer by layer and by rows (``Options(memory="rows")``), compiled and run on a microcontroller
under QEMU. A table per core shows what the plan by rows takes, and its ratio to the other one.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean

from rich.console import Console
from rich.progress import track
from rich.table import Table

from twinfer.aot.build.firmware import build
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.sizes import sizes
from twinfer.aot.build.targets import Card, find
from twinfer.aot.print.emit import emit
from twinfer.bench.measure.compare import same_bits
from twinfer.bench.measure.report import document, table
from twinfer.bench.models.source import load
from twinfer.runtime.constant import Constant, Role
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.options import Memory, Options
from twinfer.runtime.plan.by_rows.rows import ChainRun
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Layer, Step
from twinfer.runtime.read.files import write_text
from twinfer.runtime.run.inputs import random_inputs

#: The cores that are measured unless others are named.
BOARDS = ("cortex-m4", "cortex-m55")

#: What is compared: a field of ``Cost`` and how the table calls it.
COMPARED = {"ram_bytes": "RAM", "instructions": "instructions", "flash_bytes": "flash", "weights_read": "weights read"}

#: Those of which the table shows more than the ratio.
NUMBERS = ("ram_bytes", "instructions")


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


@dataclass(frozen=True)
class Pair:
    """A model on a core, layer by layer and by rows, and whether both gave the same bits.

    ``input_rows_bytes`` is the arena of a plan that takes its input row by row, None if there can be none.
    """

    model: str
    board: str
    layers: Cost
    rows: Cost
    same_bits: bool
    input_rows_bytes: int | None

    def ratio(self, field: str) -> float:
        """A field by rows, divided by the same layer by layer; 1 where both are 0."""
        whole, by_rows = getattr(self.layers, field), getattr(self.rows, field)
        return by_rows / whole if whole else 1.0


def measured(model: str, board: str) -> Pair:
    """Both plans of a model on a board's core. ToolError if one cannot be built or run there."""
    card, source = find(board), load(model)
    inputs = random_inputs(source.graph, 0)
    (layers, want), (rows, outputs) = (_run(source.graph, memory, card, inputs) for memory in ("layers", "rows"))
    try:
        fed = make_plan(source.graph, card.target, Options(memory="rows", input_rows=True)).arena_bytes
    except InvalidArgumentError:
        fed = None
    return Pair(source.name, board, layers, rows, same_bits(outputs, want), fed)


def _run(graph: Graph, memory: Memory, card: Card, inputs: Sequence[Array]) -> tuple[Cost, list[Array]]:
    """The cost of a plan, and the outputs."""
    project = emit(make_plan(graph, card.target, Options(memory=memory)), "model")
    plan, (result,) = project.plan, run_jobs(build(project, card), [Job(inputs)])
    calls = calls_by_rows(plan)
    read = sum(_times_read(step, calls) * _weight_bytes(step) for step in plan.steps)
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


def _times_read(step: Step, calls: Mapping[Step, int]) -> int:
    """How often a step reads its weights: once if every call reads those of its own part."""
    return 1 if step.call.rows and step.call.rows.sums else calls.get(step, 1)


def _weight_bytes(step: Step) -> int:
    """The bytes of the constants that a step reads, but for indices and tables."""
    constants = {value for value in step.read if isinstance(value, Constant)}
    return sum(each.nbytes for each in constants if each.role not in (Role.INDEX, Role.TABLE))


def shown(pairs: Sequence[Pair]) -> Table:
    """The table of one core: every model, then geometric means and the greatest ratios."""
    grid = table(f"By rows on {pairs[0].board}, and ratios to layers", "<", "parts", *_columns(), "<bits", gap=1)
    grid.columns[0].no_wrap = True
    for pair in pairs:
        cells = [cell for field in COMPARED for cell in (*_number(pair, field), _ratio(pair.ratio(field)))]
        grid.add_row(pair.model, f"{pair.rows.parts:,}", *cells, "same" if pair.same_bits else "DIFFER")
    ratios = {field: [pair.ratio(field) for pair in pairs] for field in COMPARED}
    for name, summary in (("geometric mean", geometric_mean), ("greatest", max)):
        cells = [cell for field in COMPARED for cell in (*[""] * (field in NUMBERS), _ratio(summary(ratios[field])))]
        grid.add_row(name, "", *cells, "")
    return grid


def _columns() -> Iterator[str]:
    for field, name in COMPARED.items():
        yield from (name, "") if field in NUMBERS else (name.replace(" ", "\n"),)


def _number(pair: Pair, field: str) -> Iterator[str]:
    """What the plan by rows takes, where there is a column for it."""
    if field in NUMBERS:
        yield f"{getattr(pair.rows, field):,}"


def _ratio(value: float) -> str:
    return f"{value:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="built-in models or .tflite files")
    parser.add_argument("--board", nargs="+", default=BOARDS, help=f"cores (default: {' '.join(BOARDS)})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file, too")
    arguments = parser.parse_args()
    every = [(model, board) for board in arguments.board for model in arguments.models]
    pairs = [measured(*each) for each in track(every, "build and run", console=Console(stderr=True))]
    if arguments.json:
        write_text(arguments.json, json.dumps(document([asdict(pair) for pair in pairs]), indent=1) + "\n")
    for board in arguments.board:
        Console(width=None).print(shown([pair for pair in pairs if pair.board == board]))


if __name__ == "__main__":
    main()
