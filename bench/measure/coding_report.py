"""What coded weights cost and save on microcontrollers, beside the same model with plain weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from twinfer.bench.measure.compare import Row
from twinfer.bench.measure.report import models, table


def coding_tables(rows: Sequence[Row]) -> Iterator[Table]:
    """One table per core, of the models and settings that were measured with weights stored in several ways."""
    for target in dict.fromkeys(row["target"] for row in rows):
        own = [row for row in rows if row["target"] == target and row.get("instructions") and "weights" in row]
        shown = table(f"Weights stored coded on {target}", "<", "flash", "", "RAM", "", "instructions", "")
        for model in models(own):
            _add(shown, [row for row in own if row["model"] == model])
        if shown.row_count:
            yield shown


def _add(shown: Table, rows: Sequence[Row]) -> None:
    """One heading per mode and setting of a model, and below it one line per way to store weights."""
    for engine, setting in dict.fromkeys((row["engine"], row["optimize"]) for row in rows):
        own = [row for row in rows if (row["engine"], row["optimize"]) == (engine, setting)]
        plain = next((row for row in own if row["weights"] == "plain"), None)
        if plain is None or len(own) < 2:
            continue
        shown.add_row(Text(f"{plain['model']}, {engine}, {setting}", style="bold"))
        for row in own:
            shown.add_row(f"  {stored(row)}", *coded_figures(row, plain))


def stored(row: Row) -> str:
    """How a row's weights are stored and when they are decoded, in words."""
    how = str(row["weights"])
    return {"file": "as in the file", "plain": "plain"}.get(how, f"{how} at the {row['decode']}")


def coded_figures(row: Row, plain: Row) -> Iterator[str]:
    """Flash, RAM and instructions, each with its ratio to the same with plain weights."""
    for value, base in zip(_figures(row), _figures(plain), strict=True):
        yield f"{value:,}"
        yield f"{value / max(base, 1):.2f}"


def _figures(row: Row) -> tuple[int, int, int]:
    return row["code_bytes"] + row["weight_bytes"], row["ram_bytes"] + row["stack_bytes"], row["instructions"]
