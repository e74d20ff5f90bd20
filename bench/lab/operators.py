"""One operator at a time beside CMSIS-NN: ``python -m twinfer.bench.lab.operators RECORDED [NAME ...]``.

RECORDED is a JSON file of rows: an operator's name, its core, and what CMSIS-NN executed. The model of a row lies
beside that file, in ``ops/NAME.tflite``. Each is compiled and run on its core under QEMU, and its outputs are compared
with the interpreter's.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from twinfer.aot.build.firmware import build
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.bench.measure.embedded import all_agree, host_outputs
from twinfer.bench.measure.report import document, table
from twinfer.bench.models.source import load
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.files import write_text
from twinfer.runtime.run.inputs import random_inputs


@dataclass(frozen=True)
class Beside:
    """An operator on a core: instructions of CMSIS-NN's better variant and ours, our kernels, and if bits are right."""

    name: str
    core: str
    cmsis_instructions: int
    instructions: int
    kernels: tuple[str, ...]
    same_bits: bool

    @property
    def ratio(self) -> float:
        """Ours to CMSIS-NN's: below 1 we are faster."""
        return self.instructions / self.cmsis_instructions


def measured(row: dict[str, Any], folder: Path) -> Beside:
    """A recorded row, and ours beside it. ToolError if it cannot be built or run."""
    source, card = load(str(folder / "ops" / f"{row['name']}.tflite")), find(row["core"])
    inputs = random_inputs(source.graph, 0)
    plan = make_plan(source.graph, card.target)
    (result,) = run_jobs(build(emit(plan, "model"), card), [Job(inputs)])
    recorded = [row[key] for key in ("cmsis_instructions", "cmsis_other_instructions") if key in row]
    kernels = tuple(kernel for step in plan.steps for kernel in step.kernels)
    same = all_agree(result.outputs, host_outputs(source.graph, inputs))
    return Beside(row["name"], row["core"], min(recorded), result.counts[0], kernels, same)


def shown(rows: Sequence[Beside]) -> Table:
    """The table of one core, the worst ratio first."""
    grid = table(f"Beside CMSIS-NN on {rows[0].core}", "<", "CMSIS-NN", "twinfer", "ratio", "<kernels", "<bits", gap=1)
    for row in sorted(rows, key=lambda row: -row.ratio):
        counts = f"{row.cmsis_instructions:,}", f"{row.instructions:,}", f"{row.ratio:.3f}"
        grid.add_row(row.name, *counts, " ".join(row.kernels), "same" if row.same_bits else "DIFFER")
    grid.add_row("geometric mean", "", "", f"{geometric_mean(row.ratio for row in rows):.3f}", "", "")
    return grid


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recorded", type=Path, help="the JSON file of what CMSIS-NN executed")
    parser.add_argument("names", nargs="*", help="operators (default: all rows)")
    parser.add_argument("--board", nargs="+", default=(), help="cores (default: all that were recorded)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file, too")
    arguments = parser.parse_args()
    every = json.loads(arguments.recorded.read_text("utf-8"))["rows"]
    every = [row for row in every if not arguments.names or row["name"] in arguments.names]
    every = [row for row in every if not arguments.board or row["core"] in arguments.board]
    folder = arguments.recorded.parent
    rows = [measured(row, folder) for row in track(every, "build and run", console=Console(stderr=True))]
    if arguments.json:
        figures = [asdict(row) | {"ratio": row.ratio} for row in rows]
        write_text(arguments.json, json.dumps(document(figures), indent=1) + "\n")
    for core in dict.fromkeys(row.core for row in rows):
        Console(width=None).print(shown([row for row in rows if row.core == core]))


if __name__ == "__main__":
    main()
