"""Estimates of cycles, time and energy beside the counts of ``twinfer bench --target``, and never among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from twinfer.aot.build.cycles import Estimate, estimate, modelled
from twinfer.aot.build.firmware import build
from twinfer.aot.build.mca import need_llvm
from twinfer.aot.build.targets import Card
from twinfer.aot.print.emit import Project
from twinfer.bench.measure.compare import Row
from twinfer.bench.measure.report import engine_label, table
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Array

#: Figures of an estimate; ms and microjoules are None unless the card has a clock and an energy.
FIGURES = ("cycles", "cycles_per_instruction", "ms", "microjoules")


def estimate_of(project: Project, card: Card, inputs: Sequence[Array]) -> dict[str, Any]:
    """The entry "estimate" of a row: figures and their source, or "error" where there can be none."""
    try:
        return {"estimate": figures(estimate(build(project, card), inputs), card)}
    except ToolError as error:
        return {"estimate": {"error": str(error)}}


def figures(estimated: Estimate, card: Card) -> dict[str, Any]:
    """Cycles and what the card makes of them: cycles over its clock in ms, cycles times its energy in µJ."""
    cycles, clock, energy = estimated.cycles, card.clock_mhz, card.energy_pj_per_cycle
    return {
        "cycles": cycles,
        "cycles_per_instruction": estimated.cycles_per_instruction,
        "ms": None if clock is None else cycles / (1e3 * clock),
        "microjoules": None if energy is None else cycles * energy / 1e6,
        "branch_cycles": estimated.branch_cycles,
        "flash_cycles": estimated.flash_cycles,
        "unmodelled_share": estimated.unmodelled_share,
        "source": estimated.source,
    }


def need_model(card: Card) -> None:
    """ToolError if llvm-mca is missing, or too old, for a core that it could have a model of."""
    try:
        pipeline = modelled(card)
    except ToolError:
        return  # each row says so
    need_llvm(pipeline.since)


def estimate_tables(rows: Sequence[Row]) -> Iterator[RenderableType]:
    """A table for each core of the rows with estimates, below it where its figures come from."""
    asked = [row for row in rows if "estimate" in row]
    for target in dict.fromkeys(row["target"] for row in asked):
        every = [row for row in asked if row["target"] == target]
        if own := [row for row in every if "error" not in row["estimate"]]:
            yield _table(target, own)
        for source, error in dict.fromkeys((r["estimate"].get("source"), r["estimate"].get("error")) for r in every):
            yield Text(f"No estimate for {target}: {error}", "yellow") if error else Text(f"Source: {source}.")


def _table(target: str, rows: Sequence[Row]) -> RenderableType:
    """One line per model and engine; time and energy only where the card says how long and how much a cycle is."""
    known = [key for key in FIGURES if rows[0]["estimate"][key] is not None]
    heads = {"cycles": "cycles", "cycles_per_instruction": "an instr.", "ms": "ms", "microjoules": "µJ"}
    shown = table(f"Estimated cycles of one inference on {target}", "<", "<", *(heads[k] for k in known), "unmodelled")
    for row in rows:
        label = engine_label(row)
        label = label.append(f", {row['optimize']}") if row["engine"] == "compiled" else label
        own = row["estimate"]
        cells = (f"{own[key]:,}" if key == "cycles" else f"{own[key]:.2f}" for key in known)
        shown.add_row(row["model"], label, *cells, f"{100 * own['unmodelled_share']:.1f} %")
    return shown
