"""What changed between two reports, as tables for a terminal and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from twinfer.bench.measure.report import span, table
from twinfer.bench.page.chart import COLOURS, ROW, Chart, field, tooltip, values
from twinfer.bench.page.page import page
from twinfer.bench.page.table import Cell, Table
from twinfer.bench.report.charts import AS_GIVEN, ONE_LINE, TICKS, heading
from twinfer.bench.report.summary import figure
from twinfer.bench.report.tables import measured
from twinfer.runtime.printable import in_html

Document = Mapping[str, Any]
Row = Mapping[str, Any]

HEADS = ("a", "b", "change", "%")

#: Words behind a layer's figures: so many characters of them in a terminal.
SHORT = 60


def diff_tables(diff: Document) -> Iterator[RenderableType]:
    """The totals, then the layers that changed, the greatest change first."""
    yield Text("\n".join(about(diff)))
    totals = table("Totals", "<", *HEADS, gap=1)
    for row in diff["totals"]:
        totals.add_row(row["label"], *_texts(row, _unit(row, diff)))
    yield totals
    rows = changed_layers(diff)
    if rows:
        layers = table(f"Layers that changed, {_taken(diff)}", "#", "<operator", *HEADS, "<what else", gap=1)
        for row in rows:
            words = "; ".join(row["changed"])
            figures = _texts(row, diff["a"]["unit"]) if diff["comparable"] else ["", "", "", ""]
            layers.add_row(_steps(row), row["op"], *figures, words if len(words) <= SHORT else f"{words[: SHORT - 1]}…")
        yield layers
    else:
        yield Text("No layer changed.")


def about(diff: Document) -> Iterator[str]:
    """What a and b are, and what differs in how they were made."""
    for side in ("a", "b"):
        own = diff[side]
        yield f"{side}: {own['model']} on {own['target']}, {own['sha256'][:12]}, twinfer {own['twinfer']}"
    both = diff["a"]["options"], diff["b"]["options"]
    for key in both[0]:
        if both[0][key] != both[1].get(key):
            yield f"{key}: {both[0][key]} → {both[1].get(key)}"
    if not diff["comparable"]:
        yield "Times and instructions are left out: they are of different targets or computers."


def changed_layers(diff: Document) -> list[Row]:
    """The layers of which a figure or something else changed, the greatest change first."""
    rows = [row for row in diff["layers"] if row["changed"] or (diff["comparable"] and row["a"] != row["b"])]
    return sorted(rows, key=lambda row: -abs((row["b"] or 0) - (row["a"] or 0)))


def diff_html(diff: Document) -> str:
    """One HTML file that needs no other. ToolError without vl-convert-python."""
    title = " and ".join(dict.fromkeys(f"{diff[side]['model']} on {diff[side]['target']}" for side in ("a", "b")))
    lines = "".join(f"<li>{in_html(line)}</li>" for line in about(diff))
    totals = tuple((row["label"], *_cells(row, _unit(row, diff))) for row in diff["totals"])
    parts: list[str | Table | Chart] = [f"<ul>{lines}</ul>\n", Table("Totals", ("<", *HEADS), totals)]
    if diff["comparable"]:
        parts.append(layers_chart(diff))
    unit = diff["a"]["unit"]
    rows = tuple(
        (_steps(row), row["op"], row["name"], *_cells(row, unit, timed=diff["comparable"]), "; ".join(row["changed"]))
        for row in diff["layers"]
    )
    heads = ("<#", "<operator", "<output", *HEADS, "<what else")
    return page(f"What changed: {title}", [*parts, Table(f"Layers, {_taken(diff)}", heads, rows)], diff)


def layers_chart(diff: Document) -> Chart:
    """What every layer takes in both."""
    unit = diff["a"]["unit"]
    rows = [
        {"layer": f"{_steps(row)} {row['op']}".strip(), "report": side, "taken": max(row[side], 0), "name": row["name"],
         "figure": figure(row[side], unit)}
        for row in diff["layers"]
        for side in ("a", "b")
        if row[side] is not None
    ]  # fmt: skip
    spec = {
        "data": values(rows),
        "height": {"step": ROW // 2},
        "mark": {"type": "bar"},
        "encoding": {
            "y": field("layer", "nominal", **AS_GIVEN),
            "yOffset": field("report", "nominal"),
            "x": field("taken", title=unit, axis=TICKS),
            "color": field(
                "report", "nominal", scale={"domain": ["a", "b"], "range": list(COLOURS[:2])}, legend=ONE_LINE
            ),
            "tooltip": tooltip("layer", "name", "report", "figure"),
        },
    }
    return Chart(f"{heading(unit)} of every layer", f"Two bars of {unit} per layer, a and b.", spec)


def _taken(diff: Document) -> str:
    return f"compiled, {diff['a']['unit']}"


def _unit(row: Row, diff: Document) -> str:
    return str(diff["a"]["unit"]) if row["figure"] in ("compiled", "interpreted") else "instructions"


def _steps(row: Row) -> str:
    """The numbers of a layer's operators in both: 3, 2-3, or 3 → 4."""
    ends = [span(row["a_operators"]), span(row["b_operators"])]
    return " → ".join(dict.fromkeys(end for end in ends if end))


def _texts(row: Row, unit: str) -> list[str]:
    return [cell.text for cell in _cells(row, unit)]


def _cells(row: Row, unit: str, *, timed: bool = True) -> tuple[Cell, ...]:
    """Both figures, their difference, and that in percent."""
    a, b = row["a"], row["b"]
    if not timed:
        return (Cell(""),) * 4
    both = [Cell("-") if value is None else measured(value, unit) for value in (a, b)]
    if a is None or b is None:
        return (*both, Cell(""), Cell(""))
    change = b - a
    look = "" if change == 0 else "good" if change < 0 else "bad"
    share = 100 * change / a if a else None
    sign = "+" if change > 0 else ""
    text = f"{sign}{measured(change, unit).text}" if change else "0"
    percent = "" if share is None else f"{share:+.1f}" if change else "0"
    return (*both, Cell(text, change, look), Cell(percent, share, look))
