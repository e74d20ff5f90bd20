"""What changed between two reports: totals, and layers side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from twinfer.bench.measure.report import in_terminal, span
from twinfer.bench.page.chart import COLOURS, ROW, Chart, field, tooltip, values
from twinfer.bench.page.page import page
from twinfer.bench.page.table import Cell, Table
from twinfer.bench.report.charts import AS_GIVEN, ONE_LINE, TICKS, heading
from twinfer.bench.report.summary import figure
from twinfer.bench.report.tables import measured
from twinfer.runtime.printable import in_html

Document = Mapping[str, Any]
Row = dict[str, Any]

#: Rises when a key of the JSON goes or changes its meaning. New keys do not count.
SCHEMA = 1

KIND = "twinfer diff"

#: Figures of the whole model, and their labels. Times and instructions are compared on one target alone.
TOTALS = {
    "compiled": "compiled",
    "interpreted": "interpreted",
    "macs": "MACs",
    "arena_bytes": "arena, bytes",
    "state_bytes": "state, bytes",
    "ram_bytes": "RAM, bytes",
    "flash_bytes": "flash, bytes",
    "code_bytes": "code, bytes",
    "weight_bytes": "weights, bytes",
    "constant_bytes": "constants, bytes",
}

#: What a report is of, and what may differ.
ABOUT = ("model", "sha256", "target", "unit", "twinfer", "options")

#: Columns of a step that are named if they change.
NOTED = ("op", "shape", "type", "kernel", "macs", "code_bytes", "weight_bytes")


def difference(a: Document, b: Document) -> Document:
    """What changed from report ``a`` to report ``b``.

    ``totals`` and ``layers`` have the figures of both as ``a`` and ``b``, None where there is none. A layer joins the
    lines of both ledgers that have steps in common; ``steps`` are their positions, ``operators`` their numbers in the
    files, ``changed`` says what else differs.
    """
    return {
        "kind": KIND,
        "schema": SCHEMA,
        "a": {key: a[key] for key in ABOUT},
        "b": {key: b[key] for key in ABOUT},
        "comparable": comparable(a, b),
        "totals": list(_totals(a, b)),
        "layers": list(_layers(a, b)),
    }


def comparable(a: Document, b: Document) -> bool:
    """Whether times and instructions of both can be compared: of one target and, for times, of one computer."""
    return bool(a["target"] == b["target"] and (a["unit"] == "instructions" or a["machine"] == b["machine"]))


def _totals(a: Document, b: Document) -> Iterator[Row]:
    for key, label in TOTALS.items():
        both = a["totals"][key], b["totals"][key]
        timed = key in ("compiled", "interpreted")
        if any(both) and (comparable(a, b) or not timed):
            yield {"figure": key, "label": f"{label}, {a['unit']}" if timed else label, "a": both[0], "b": both[1]}


def _layers(a: Document, b: Document) -> Iterator[Row]:
    """The layers of both, in the order of ``a``; those that only ``b`` has come last."""
    pairs = list(_pairs(a["nodes"], b["nodes"]))
    lines = [(line, 0) for line in a["layers"]] + [(line, 1) for line in b["layers"]]
    groups = _joined(pairs, lines)
    for group in groups:
        sides = [[lines[i][0] for i in group if lines[i][1] == side] for side in (0, 1)]
        steps = [[at for line in side for at in line["steps"]] for side in sides]
        yield {
            "op": ", ".join(dict.fromkeys(line["op"] for line in sides[0] or sides[1])),
            "name": ", ".join(dict.fromkeys(line["name"] for line in sides[0] or sides[1])),
            "a_steps": steps[0],
            "b_steps": steps[1],
            "a_operators": [node["index"] for node in a["nodes"] if node["position"] in steps[0]],
            "b_operators": [node["index"] for node in b["nodes"] if node["position"] in steps[1]],
            "a": sum(line["compiled"] for line in sides[0]) if sides[0] else None,
            "b": sum(line["compiled"] for line in sides[1]) if sides[1] else None,
            "changed": list(_changed(steps, pairs)),
        }


def _pairs(a: Sequence[Row], b: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
    """Steps that are the same layer in both: of one name or, if few names are, of one kind and shape."""
    common = {node["name"] for node in a} & {node["name"] for node in b}
    by_name = 2 * len(common) >= min(len(a), len(b))

    def key(node: Row) -> tuple[Any, ...]:
        return (node["name"],) if by_name else (node["op"], *node["shape"])

    matcher = SequenceMatcher(None, [key(node) for node in a], [key(node) for node in b], autojunk=False)
    for i, j, length in matcher.get_matching_blocks():
        yield from zip(a[i : i + length], b[j : j + length], strict=True)


def _joined(pairs: Iterable[tuple[Row, Row]], lines: Sequence[tuple[Row, int]]) -> list[list[int]]:
    """Numbers of lines, those in one group that have steps in common; groups in order."""
    home = list(range(len(lines)))
    of = {(side, step): i for i, (line, side) in enumerate(lines) for step in line["steps"]}

    def root(i: int) -> int:
        while home[i] != i:
            i = home[i]
        return i

    around = [i for i, (line, _) in enumerate(lines) if not line["steps"]]
    places = [((0, before["position"]), (1, after["position"])) for before, after in pairs]
    both = [(of[i], of[j]) for i, j in places if i in of and j in of]
    for left, right in [*both, *pairwise(around)]:
        first, last = sorted((root(left), root(right)))
        home[last] = first
    groups: dict[int, list[int]] = {}
    for i in range(len(lines)):
        groups.setdefault(root(i), []).append(i)
    return list(groups.values())


def _changed(steps: Sequence[Sequence[int]], pairs: Iterable[tuple[Row, Row]]) -> Iterator[str]:
    """What else differs between the steps of a group, in words."""
    if bool(steps[0]) != bool(steps[1]):
        yield "new" if steps[1] else "gone"
        return
    here = (pair for pair in pairs if pair[0]["position"] in steps[0] and pair[1]["position"] in steps[1])
    for before, after in here:
        different = (key for key in NOTED if before[key] != after[key])
        yield from (f"{key.replace('_', ' ')} {_short(before[key])} → {_short(after[key])}" for key in different)
    if len(steps[0]) != len(steps[1]):
        yield f"{len(steps[0])} steps → {len(steps[1])}"


def _short(value: Any) -> str:
    if isinstance(value, list):
        return "×".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


# -- tables and page ---------------------------------------------------------------------------------------------------


HEADS = ("a", "b", "change", "%")

#: Words behind a layer's figures: so many characters of them in a terminal.
SHORT = 60


def diff_tables(diff: Document) -> Iterator[RenderableType]:
    """The totals, then the layers that changed, the greatest change first."""
    yield Text("\n".join(about(diff)))
    yield in_terminal(_totals_table(diff), gap=1)
    rows, unit, timed = list[Sequence[Cell | str]](), diff["a"]["unit"], diff["comparable"]
    for row in changed_layers(diff):
        words = "; ".join(row["changed"])
        short = words if len(words) <= SHORT else f"{words[: SHORT - 1]}…"
        rows.append((_steps(row), row["op"], *_cells(row, unit, timed=timed), short))
    heads = ("#", "<operator", *HEADS, "<what else")
    layers = Table(f"Layers that changed, compiled, {unit}", heads, tuple(rows))
    yield in_terminal(layers, gap=1) if rows else Text("No layer changed.")


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
    parts: list[str | Table | Chart] = [f"<ul>{lines}</ul>\n", _totals_table(diff)]
    if diff["comparable"]:
        parts.append(layers_chart(diff))
    unit = diff["a"]["unit"]
    rows = tuple(
        (_steps(row), row["op"], row["name"], *_cells(row, unit, timed=diff["comparable"]), "; ".join(row["changed"]))
        for row in diff["layers"]
    )
    heads = ("<#", "<operator", "<output", *HEADS, "<what else")
    return page(f"What changed: {title}", [*parts, Table(f"Layers, compiled, {unit}", heads, rows)], diff)


def _totals_table(diff: Document) -> Table:
    rows = list[Sequence[Cell | str]]()
    for row in diff["totals"]:
        unit = diff["a"]["unit"] if row["figure"] in ("compiled", "interpreted") else "instructions"
        rows.append((row["label"], *_cells(row, unit)))
    return Table("Totals", ("<", *HEADS), tuple(rows))


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


def _steps(row: Row) -> str:
    """The numbers of a layer's operators in both: 3, 2-3, or 3 → 4."""
    ends = [span(row["a_operators"]), span(row["b_operators"])]
    return " → ".join(dict.fromkeys(end for end in ends if end))


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
