"""The rows of ``compression`` as tables, and as one HTML file with a picture per network: accuracy over flash."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from twinfer.bench.lab.datasets import FOLDS
from twinfer.bench.measure import report
from twinfer.bench.measure.compare import Row
from twinfer.bench.measure.page import COLOURS, page, wide
from twinfer.converter.search.pareto import front
from twinfer.runtime.printable import in_html

_COLUMNS = ("accuracy\n%", "loss\npoints", "logits'\nSNR dB", "zeros\n%", "file\nB", "coded\nB")

#: The picture in pixels: its size, and the room for the axes on its left and below.
_WIDE, _HIGH, _LEFT, _BELOW = 620, 300, 60, 40

#: The greatest loss in the picture, in points. Settings below are of no use.
_WORST = 6.0

#: One colour per family.
_COLOURS = ("#222222", *COLOURS)


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
        "the file, and with weights in their smallest coding, decoders included; ●: no other is both smaller and better"
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
    yield Text(about(folds))
    if rows:
        yield _smallest(rows)
        yield Text(
            "Chosen by all folds together, as a share of int8's bytes; below: what each fold alone would choose."
        )


def _smallest(rows: Sequence[Row]) -> RenderableType:
    """The least flash of every network within some points of int8's accuracy."""
    heads = (f"{loss:g} points\nbelow" if loss else "int8's\naccuracy" for loss in LOSSES)
    shown = report.table("Least flash at", "<", "int8 as\nin file", *heads, gap=1)
    for name, group in networks(rows).items():
        int8 = next(row for row in group if row["setting"] == "int8")
        cells = [least(group, loss) for loss in LOSSES]
        chosen = (Group(f"{each.bytes:,} {each.share}", f"{each.spread} %") for each in cells)
        shown.add_row(name, f"{int8['bytes']:,}", *chosen)
    return shown


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
    """The page: a picture of every network and a table of its Pareto front."""
    note = f"{about(folds)}. The line joins those; settings that lose more than {_WORST:g} points are left out."
    parts = [f"<h2>{in_html(name)}</h2>{picture(group)}{_front(group)}" for name, group in networks(rows).items()]
    return page("Pruned and clustered networks: accuracy over flash", [f"<p>{in_html(note)}</p>\n", *parts])


def picture(group: Sequence[Row]) -> str:
    """One network: one point per quantised setting, and a line along the Pareto front."""
    quantised = [row for row in group if row["family"] != "float"]
    shown = [row for row in quantised if row["loss_points"] <= _WORST] or quantised
    families = list(dict.fromkeys(row["family"] for row in shown))
    colours = {family: _COLOURS[i % len(_COLOURS)] for i, family in enumerate(families)}
    most = max(row["coded"] for row in shown) * 1.05
    top = max(row["accuracy"] for row in shown)
    low = min(row["accuracy"] for row in shown)
    place = _Place(most, low - 0.3, top + 0.3)
    shapes = [*_axes(place), *_line(pareto(shown), place)]
    shapes += [_point(row, place, colours[row["family"]]) for row in shown]
    for i, family in enumerate(families):
        shapes.append(
            f'<text x="{_LEFT + _WIDE + 20}" y="{20 + 20 * i}" style="fill: {colours[family]}">● {family}</text>'
        )
    return wide(_LEFT + _WIDE + 170, _HIGH + _BELOW, shapes)


class _Place:
    """Turns bytes and per cent into pixels."""

    def __init__(self, most: float, low: float, top: float) -> None:
        self.most, self.low, self.top = most, low, top

    def x(self, size: float) -> float:
        return round(_LEFT + _WIDE * size / self.most, 1)

    def y(self, accuracy: float) -> float:
        return round(_HIGH * (self.top - accuracy) / (self.top - self.low), 1)


def _axes(place: _Place) -> Iterator[str]:
    yield f'<path d="M{_LEFT} 0V{_HIGH}H{_LEFT + _WIDE}" fill="none" stroke="#222"/>'
    for i in range(1, 6):
        size = place.most * i / 6
        yield f'<text x="{place.x(size)}" y="{_HIGH + 18}" text-anchor="middle">{size / 1024:.1f} KiB</text>'
        accuracy = place.low + (place.top - place.low) * i / 6
        y = place.y(accuracy)
        yield f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{accuracy:.1f} %</text>'
        yield f'<line x1="{_LEFT}" x2="{_LEFT + _WIDE}" y1="{y}" y2="{y}" stroke="#eee"/>'


def _line(front: Sequence[Row], place: _Place) -> Iterator[str]:
    points = " ".join(f"{place.x(row['coded'])},{place.y(row['accuracy'])}" for row in front)
    yield f'<polyline points="{points}" fill="none" stroke="#999"/>'


def _point(row: Row, place: _Place, colour: str) -> str:
    title = in_html(f"{row['setting']}: {row['accuracy']:.2f} %, {row['coded']:,} bytes")
    at = f'cx="{place.x(row["coded"])}" cy="{place.y(row["accuracy"])}"'
    return f'<circle {at} r="5" fill="{colour}" fill-opacity="0.8"><title>{title}</title></circle>'


def _front(group: Sequence[Row]) -> str:
    heads = "".join(f"<th>{head.replace(chr(10), '<br>')}</th>" for head in ("", *_COLUMNS))
    lines = [(row["setting"], *_cells(row)) for row in pareto(group)]
    body = "".join(f"<tr>{''.join(f'<td>{in_html(cell)}</td>' for cell in line)}</tr>" for line in lines)
    return f"<table><caption>Pareto front</caption><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>\n"
