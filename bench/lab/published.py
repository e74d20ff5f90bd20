"""Estimated cycles beside cycles that others measured on boards, of other code for the same topologies."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from twinfer.bench.measure.compare import Row

_PATH = Path(__file__).resolve().parent / "data" / "published_cycles.toml"

HEADS = ("Estimated cycles", "core", "instructions", "cycles", "an instr.", "published, of other engines", "an instr.")


@dataclass(frozen=True)
class Published:
    """What an engine takes on a board: inferences ``per_second`` by model, at ``clock_mhz``, and where that stands."""

    engine: str
    board: str
    core: str
    clock_mhz: float
    version: str
    files: str
    per_second: Mapping[str, float]

    def cycles(self, model: str) -> int:
        """Cycles of one inference: the clock over inferences per second."""
        return round(1e6 * self.clock_mhz / self.per_second[model])


@cache
def published() -> tuple[Published, ...]:
    """The records of the file."""
    return tuple(Published(**each) for each in tomllib.loads(_PATH.read_text(encoding="utf-8"))["published"])


def beside_published(document: Any) -> list[list[str]]:
    """The lines of the table: one for each estimate, and what boards took for the same topology.

    The last column is cycles per instruction of those that call CMSIS-NN, by the instructions that TFLM takes with it.
    """
    rows: Sequence[Row] = document["rows"]
    own = [row for row in rows if "cycles" in row.get("estimate", {}) and row["engine"] == "compiled"]
    return [[*HEADS], *(_line(row, rows) for row in own)]


def _line(row: Row, rows: Sequence[Row]) -> list[str]:
    model, core, estimate = row["model"], row["target"], row["estimate"]
    there = [each for each in published() if each.core == core and model in each.per_second]
    shown = "; ".join(f"{each.engine} {each.cycles(model):,}" for each in there)
    counts = [f"{row['instructions']:,}", f"{estimate['cycles']:,}", f"{estimate['cycles_per_instruction']:.2f}"]
    return [model, core, *counts, shown, "; ".join(_per_instruction(there, model, core, rows))]


def _per_instruction(there: Sequence[Published], model: str, core: str, rows: Sequence[Row]) -> Iterator[str]:
    recorded = [row for row in rows if (row["model"], row["target"], row["engine"]) == (model, core, "tflm-cmsis")]
    for each in there:
        if "CMSIS-NN" in each.engine and recorded:
            yield f"{each.cycles(model) / recorded[0]['instructions']:.2f}"
