"""Cycles, time and energy beside the counts of ``twinfer bench --target``: counted where the core is simulated.

Elsewhere they are estimates, in a table of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from twinfer.aot.build.cycles import Estimate, estimate, modelled
from twinfer.aot.build.firmware import build
from twinfer.aot.build.mca import need_llvm
from twinfer.aot.build.runner import Result, runner_of
from twinfer.aot.build.targets import Card
from twinfer.aot.print.emit import Project
from twinfer.bench.measure.compare import Row
from twinfer.bench.measure.report import engine_label, table
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Array

#: Figures of cycles; ms and microjoules are None unless the card has a clock and an energy.
FIGURES = ("cycles", "cycles_per_instruction", "ms", "microjoules")


def estimate_of(project: Project, card: Card, inputs: Sequence[Array]) -> dict[str, Any]:
    """The entry "estimate" of a row: figures and their source, or "error" where there can be none."""
    try:
        return {"estimate": figures(estimate(build(project, card), inputs), card)}
    except ToolError as error:
        return {"estimate": {"error": str(error)}}


def counted_of(result: Result, card: Card) -> dict[str, Any]:
    """The entry "cycles" of a row: figures and their source; none where the machine has no cycles."""
    if not result.cycles:
        return {}
    own = _figures(result.cycles[0], result.counts[0], card)
    return {"cycles": {**own, "source": f"counted in {runner_of(card).place}"}}


def figures(estimated: Estimate, card: Card) -> dict[str, Any]:
    """The figures of an estimate, and what is in them."""
    return {
        **_figures(estimated.cycles, estimated.instructions, card),
        "branch_cycles": estimated.branch_cycles,
        "flash_cycles": estimated.flash_cycles,
        "unmodelled_share": estimated.unmodelled_share,
        "source": estimated.source,
    }


def _figures(cycles: int, instructions: int, card: Card) -> dict[str, Any]:
    """Cycles and what the card makes of them: cycles over its clock in ms, cycles times its energy in µJ."""
    clock, energy = card.clock_mhz, card.energy_pj_per_cycle
    return {
        "cycles": cycles,
        "cycles_per_instruction": cycles / instructions,
        "ms": None if clock is None else cycles / (1e3 * clock),
        "microjoules": None if energy is None else cycles * energy / 1e6,
    }


def need_model(card: Card) -> None:
    """ToolError if llvm-mca is missing, or too old, for a core that it could have a model of."""
    try:
        pipeline = modelled(card)
    except ToolError:
        return  # each row says so
    need_llvm(pipeline.since)


def cycle_tables(rows: Sequence[Row]) -> Iterator[RenderableType]:
    """A table for each core of the rows with cycles, below it where its figures come from."""
    for key, what in (("cycles", "Cycles"), ("estimate", "Estimated cycles")):
        asked = [row for row in rows if key in row]
        for target in dict.fromkeys(row["target"] for row in asked):
            every = [row for row in asked if row["target"] == target]
            if own := [row for row in every if "error" not in row[key]]:
                yield _table(f"{what} of one inference on {target}", own, key)
            for source, error in dict.fromkeys((r[key].get("source"), r[key].get("error")) for r in every):
                yield Text(f"No estimate for {target}: {error}", "yellow") if error else Text(f"Source: {source}.")


def _table(title: str, rows: Sequence[Row], key: str) -> RenderableType:
    """One line per model and engine; time and energy only where the card says how long and how much a cycle is."""
    known = [figure for figure in FIGURES if rows[0][key][figure] is not None]
    heads = {"cycles": "cycles", "cycles_per_instruction": "an instr.", "ms": "ms", "microjoules": "µJ"}
    share = "unmodelled_share" in rows[0][key]
    shown = table(title, "<", "<", *(heads[figure] for figure in known), *(["unmodelled"] if share else []))
    for row in rows:
        label = engine_label(row)
        label = label.append(f", {row['optimize']}") if row["engine"] == "compiled" else label
        own = row[key]
        cells = (f"{own[figure]:,}" if figure == "cycles" else f"{own[figure]:.2f}" for figure in known)
        shown.add_row(row["model"], label, *cells, *([f"{100 * own['unmodelled_share']:.1f} %"] if share else []))
    return shown
