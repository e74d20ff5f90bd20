"""What docs/explain.md and README.md show of ledgers and ladders, made from the JSON of ``make bench-explain``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from twinfer.bench.explain.causes import CAUSES
from twinfer.bench.explain.techniques import TECHNIQUES
from twinfer.bench.measure.compare import Row
from twinfer.bench.measure.report import number
from twinfer.bench.report.summary import figure

#: A cause that is worth less stands in the tables only.
LEAST = 0.015

#: Models of a file -> the name in the tables.
_SHORT = {"tflm_micro_speech_quantized": "micro_speech"}

Document = Mapping[str, Any]
Lines = list[list[str]]


def ledgers(document: Document) -> Lines:
    """One line per model and target: both sides, their ratio, and the share of the interpreter's in each cause."""
    causes = list(CAUSES)
    heads = [" ".join(CAUSES[key].label.replace("-\n", "").split()) for key in causes]
    lines = [["Interpreted and compiled", "target", "interpreted", "compiled", "×", *heads]]
    for row in document["rows"]:
        every = row["total"]
        both = [figure(every[side], row["unit"]) for side in ("interpreted", "compiled")]
        shares = [_share(every["causes"].get(key), every["interpreted"]) for key in causes]
        lines.append([_name(row), row["target"], *both, f"{every['interpreted'] / every['compiled']:.2f}", *shares])
    return lines


def starts(document: Document) -> Lines:
    """One line per model: what happens on this computer from the file to the first inference, in ms."""
    rows = [row for row in document["rows"] if row["target"] == "host"]
    parts = list(rows[0]["start"]["interpreted"])
    lines = [["First inference, ms", *parts, "together", "compiled: load", "first run"]]
    for row in rows:
        own, loaded = row["start"]["interpreted"], row["start"]["compiled"]
        times = [*(own[part] for part in parts), sum(own.values()), loaded["load"], loaded["first run"]]
        lines.append([_name(row), *map(number, times)])
    return lines


def ladder(target: str, document: Document) -> Lines:
    """One line per technique: per model how many times as much is taken before it is added, and when it is left out."""
    rows = [row for row in document["rows"] if row["target"] == target]
    names = [rung["technique"] for rung in rows[0]["ladder"]["rungs"]]
    text = [[f"Techniques on {target}", *map(_name, rows)]]
    text += [[TECHNIQUES[key].label, *(_both_ways(row, i) for row in rows)] for i, key in enumerate(names)]
    text.append(["all together", *(_together(row, "taken") for row in rows)])
    return [*text, ["RAM, none / all", *(_together(row, "ram_bytes") for row in rows)]]


def _both_ways(row: Document, i: int) -> str:
    rungs = row["ladder"]["rungs"]
    before = rungs[i - 1]["added"] if i else row["ladder"]["none"]
    when_added = before["taken"] / rungs[i]["added"]["taken"]
    return f"{when_added:.2f} / {rungs[i]['removed']['taken'] / rungs[-1]['added']['taken']:.2f}"


def _together(row: Document, field: str) -> str:
    first, last = row["ladder"]["none"][field], row["ladder"]["rungs"][-1]["added"][field]
    return f"{first / last:.1f}"


def headline(document: Document) -> str:
    """What compiling is worth, by cause, in the geometric mean of the models."""
    host = document["machine"]["cpu"]
    targets = {"host": f"a computer ({host})", "cortex-m4": "a Cortex-M4", "cortex-m55": "a Cortex-M55"}
    told = [_worth([row for row in document["rows"] if row["target"] == key], where) for key, where in targets.items()]
    models = {row["model"] for row in document["rows"]}
    text = f"What compiling is worth by cause, geometric mean of {len(models)} models: "
    return f"{text}{'; '.join(told)}."


def _worth(rows: Sequence[Document], where: str) -> str:
    """The mean ratio on a target, and those of its causes."""
    whole = geometric_mean([row["total"]["interpreted"] / row["total"]["compiled"] for row in rows])
    parts = []
    for key, cause in CAUSES.items():
        if key not in rows[0]["total"]["causes"]:
            continue
        without = [row["total"]["compiled"] + row["total"]["causes"][key] for row in rows]
        worth = geometric_mean([more / row["total"]["compiled"] for more, row in zip(without, rows, strict=True)])
        if abs(worth - 1) >= LEAST:
            parts.append(f"{cause.word} {worth:.2f}\N{NO-BREAK SPACE}×")
    return f"on {where} {whole:.2f}\N{NO-BREAK SPACE}× ({', '.join(parts)})"


def _name(row: Document) -> str:
    return _SHORT.get(str(row["model"]), str(row["model"]))


def _share(saved: float | None, whole: float) -> str:
    return "" if saved is None else f"{100 * saved / whole:.1f} %"


# -- cycles that others measured ---------------------------------------------------------------------------------------


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
    recorded = [row for row in rows if (row["model"], row["target"], row["engine"]) == (model, core, "tflm-cmsis")]
    cycles = [each.cycles(model) for each in there if "CMSIS-NN" in each.engine and recorded]
    return [model, core, *counts, shown, "; ".join(f"{each / recorded[0]['instructions']:.2f}" for each in cycles)]
