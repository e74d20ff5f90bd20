"""The rows of ``compression`` as tables, and as one HTML file with a picture per network: accuracy over flash."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from twinfer.bench.lab.datasets import FOLDS
from twinfer.bench.measure import report
from twinfer.bench.measure.compare import Row
from twinfer.bench.page.chart import QUIET, Chart, field, tooltip, values
from twinfer.bench.page.page import Section, page
from twinfer.bench.page.table import Cell, Table
from twinfer.converter.search.strategy import front
from twinfer.runtime.printable import in_html

_COLUMNS = ("accuracy\n%", "loss\npoints", "logits'\nSNR dB", "zeros\n%", "file\nB", "coded\nB")

#: The greatest loss in the picture, in points. Settings below are of no use.
_WORST = 6.0


def pareto(rows: Sequence[Row]) -> list[Row]:
    """The rows of one network that no other row beats in both coded bytes and accuracy, the smallest first."""
    return [rows[i] for i in front([(row["coded"], row["loss_points"]) for row in rows])]


def networks(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows by set and model."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(f"{row['set']} {row['model']}", []).append(row)
    return groups


def about(folds: int) -> str:
    """What was measured, in one line."""
    return (
        f"{folds} of {FOLDS} folds held out, ±: their standard deviation; bytes of all constants on Cortex-M4: as in "
        "the file, and with weights in their smallest coding, decoders included"
    )


def tables(rows: Sequence[Row], folds: int) -> Iterator[RenderableType]:
    """The table, then what its figures mean."""
    shown = report.table("Accuracy and flash of compressed networks", "<", *_COLUMNS, gap=1)
    for name, group in networks(rows).items():
        shown.add_row(Text(f"{name}, {group[0]['samples']:,} samples", style="bold"))
        best = pareto(group)
        for row in group:
            mark = "● " if row in best else "  "
            shown.add_row(f"{mark}{row['setting']}", *_cells(row), style="green" if row in best else "")
    yield shown
    yield Text(f"{about(folds)}; ●: no other is both smaller and better")
    if not rows:
        return
    heads = (f"{loss:g} points\nbelow" if loss else "int8's\naccuracy" for loss in LOSSES)
    shown = report.table("Least flash at", "<", "int8 as\nin file", *heads, gap=1)
    for name, group in networks(rows).items():
        int8 = next(row for row in group if row["setting"] == "int8")
        cells = [least(group, loss) for loss in LOSSES]
        chosen = (Group(f"{each.bytes:,} {each.share}", f"{each.spread} %") for each in cells)
        shown.add_row(name, f"{int8['bytes']:,}", *chosen)
    yield shown
    yield Text("Chosen by all folds together, as a share of int8's bytes; below: what each fold alone would choose.")


#: Points below int8's accuracy at which the least flash is given.
LOSSES = (0.0, 0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Least:
    """Bytes (mean of the folds) of the setting that all folds together choose. ``shares`` of int8's bytes that each
    fold alone would choose: they show how far the choice depends on the network."""

    bytes: int
    file: int
    shares: Sequence[float]

    @property
    def share(self) -> str:
        return f"{self.bytes / self.file:.0%}".replace("%", " %")

    @property
    def spread(self) -> str:
        return f"{100 * min(self.shares):.0f}-{100 * max(self.shares):.0f}"


def least(group: Sequence[Row], points: float) -> Least:
    """The smallest setting of one network that loses at most ``points`` more than int8; int8 itself counts."""
    quantised = [row for row in group if row["family"] != "float"]
    int8 = next(row for row in group if row["setting"] == "int8")
    chosen = min(row["coded"] for row in quantised if row["accuracy"] >= int8["accuracy"] - points - 1e-9)
    alone = [
        min(row["folds_coded"][i] for row in quantised if row["folds"][i] >= accuracy - points - 1e-9)
        for i, accuracy in enumerate(int8["folds"])
    ]
    return Least(chosen, int8["bytes"], [coded / int8["bytes"] for coded in alone])


def _cells(row: Row) -> list[str]:
    return [
        report.spread(row["accuracy"], row["folds"]),
        f"{row['loss_points']:+.2f}",
        "-" if row["snr_db"] is None or row["snr_db"] > 100 else f"{row['snr_db']:.1f}",
        f"{100 * row['zeros']:.0f}",
        f"{row['bytes']:,}",
        f"{row['coded']:,}",
    ]


def compression_html(rows: Sequence[Row], folds: int) -> str:
    """The page: a picture of every network and a table of its Pareto front. ToolError if vl-convert-python is
    missing."""
    note = f"{about(folds)}. The line joins those that no other beats in both size and accuracy; settings that lose "
    note += f"more than {_WORST:g} points are left out of the pictures."
    sections = [Section(name, (picture(name, group), _front(group))) for name, group in networks(rows).items()]
    kept = {"folds": folds, "rows": list(rows)}
    return page("Pruned and clustered networks: accuracy over flash", [f"<p>{in_html(note)}</p>\n", *sections], kept)


def picture(name: str, group: Sequence[Row]) -> Chart:
    """One network: one point per quantised setting, and a line along the Pareto front."""
    quantised = [row for row in group if row["family"] != "float"]
    shown = [row for row in quantised if row["loss_points"] <= _WORST] or quantised
    best = pareto(shown)
    points = [{**_point(row), "best": row in best} for row in shown]
    told = f"{name}: accuracy over flash of {len(shown)} settings. On the Pareto front, the smallest first: "
    told += ", ".join(f"{row['setting']} {row['accuracy']:.2f} % in {row['coded']:,} bytes" for row in best)
    return Chart("Accuracy over flash", told, {"height": 320, "data": values(points), "layer": _layers()})


def _point(row: Row) -> dict[str, Any]:
    return {
        "setting": row["setting"],
        "family": row["family"],
        "accuracy": round(row["accuracy"], 2),
        "points lost": round(row["loss_points"], 2),
        "bytes": row["coded"],
        "KiB": row["coded"] / 1024,
    }


def _layers() -> list[dict[str, Any]]:
    """The line along the front, and the points, which differ in colour and shape."""
    x = field("KiB", title="KiB of flash, weights in their smallest coding")
    y = field("accuracy", title="accuracy, %", scale={"zero": False, "nice": True, "padding": 8})
    families = {"sort": None}
    figures = ("accuracy", "points lost", "bytes")
    seen = tooltip("setting", "family", *figures, **dict.fromkeys(figures, "quantitative"))
    look = {"color": field("family", "nominal", **families), "shape": field("family", "nominal", **families)}
    return [
        {
            "mark": {"type": "line", "color": QUIET, "strokeWidth": 1.5},
            "transform": [{"filter": "datum.best"}],
            "encoding": {"x": x, "y": y, "order": field("KiB")},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 80, "opacity": 0.85},
            "encoding": {"x": x, "y": y, **look, "tooltip": seen},
        },
    ]


def _front(group: Sequence[Row]) -> Table:
    keys = ("accuracy", "loss_points", "snr_db", "zeros", "bytes", "coded")  # what the cells sort by
    rows = [[row["setting"], *map(Cell, _cells(row), (row[key] for key in keys))] for row in pareto(group)]
    return Table("Pareto front", ("<setting", *_COLUMNS), tuple(rows))
