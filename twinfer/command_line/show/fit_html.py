"""What ``twinfer fit`` found as one HTML file: the ways over flash, RAM, time and loss, and the board's limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from twinfer.bench.fit.fit import Fitted, Way
from twinfer.bench.page.chart import BAD, COLOURS, GROUND, Chart, Charts, field, tooltip, values
from twinfer.bench.page.page import Part, page
from twinfer.bench.page.table import Cell, Table
from twinfer.command_line.show.fit import described, figures, heads
from twinfer.command_line.show.search_html import KINDS, look_of_kinds
from twinfer.runtime.printable import in_html

_KINDS = {**KINDS, "mixed": (COLOURS[3], "cross")}

#: A limit is drawn if it is at most so many times the greatest figure; others would press the points into a corner.
_FAR = 3

_COLUMNS = {"ms": "≈ ms", "instructions": "≈ instructions", "flash": "≈ flash, bytes", "ram": "≈ RAM, bytes"}
_COLUMNS |= {"snr_db": "SNR, dB", "loss": "loss"}
_AXES = {**_COLUMNS, "drawn_db": "SNR, dB (float: at the upper edge)"}


#: By axis a limit, if there is one, and what it is.
Limits = dict[str, tuple[float | None, str]]


def fit_html(found: Fitted) -> str:
    """The page. ToolError if vl-convert-python is missing."""
    scored = found.chosen.goal.max_loss is not None
    best = found.best
    said = f"{best.trial.setting}{f' ({best.options})' if best.options else ''}"
    about = f"The cheapest that fits: {said}." if found.fits else f"Nothing fits. The nearest, {said}: {best.short}."
    parts: list[Part] = [f"<p>{in_html(about)} {in_html(_LEGEND)}</p>\n"]
    parts += [f"<p>{in_html(words)}</p>\n" for words in found.advice]
    rows = list(_rows(found))
    time = "instructions" if any(row["ms"] is None for row in rows) else "ms"
    board = found.board
    ram = board.ram_bytes if board.ram_budget is None else min(board.ram_budget, board.ram_bytes)
    flash_limits: Limits = {"x": (board.flash, "flash of the board"), "y": (ram, "RAM")}
    late: Limits = {"x": (found.max_ms, "most ms")} if time == "ms" and found.max_ms is not None else {}
    judged = "loss" if scored else "drawn_db"
    least: Limits = {"y": (found.chosen.goal.max_loss if scored else found.chosen.goal.min_snr, "good enough")}
    charts = (
        _chart("RAM over flash", rows, ("flash", "ram"), flash_limits),
        _chart(f"{'Loss' if scored else 'Quality'} over time", rows, (time, judged), late | least),
    )
    parts += [Charts(charts, 400), _table(found)]
    return page(f"{found.name} on {board.name}: {found.chosen.goal} is good enough", parts, described(found))


_LEGEND = (
    "Filled points are on the front: no other is better in one of flash, RAM, time and quality, and as good in the "
    "rest. The large one is taken. Broken lines are limits. Time, flash and RAM are estimated."
)


def _rows(found: Fitted) -> Iterator[dict[str, Any]]:
    every = [_costs(way) for way in found.ways]
    most = max((way.trial.snr_db for way in found.ways if way.trial.setting.precision != "float"), default=0.0) + 6
    for way, own in zip(found.ways, every, strict=True):
        beaten = any(other != own and all(a <= b for a, b in zip(other, own, strict=True)) for other in every)
        setting, match = way.trial.setting, way.match
        yield {
            "setting": str(setting),
            "with": ", ".join(filter(None, [way.options, way.short])),
            "kind": "mixed" if setting.layers else setting.precision,
            "ms": match.estimate.ms,
            "instructions": match.estimate.instructions or way.trial.instructions,
            "flash": match.need.flash,
            "ram": match.need.ram,
            "snr_db": way.trial.snr_db,
            "drawn_db": min(way.trial.snr_db, most),
            "loss": way.trial.loss,
            "front": not beaten,
            "taken": way == found.best,
        }


def _costs(way: Way) -> tuple[float, ...]:
    need, estimate = way.match.need, way.match.estimate
    return need.flash, need.ram, estimate.instructions or way.trial.instructions, way.trial.loss, -way.trial.snr_db


def _chart(title: str, rows: Sequence[dict[str, Any]], over: tuple[str, str], limits: Limits) -> Chart:
    """A point per way; limits that are near are lines."""
    axes: dict[str, Any] = {}
    lines, told = [], f"{title} of {len(rows)} ways. "
    for axis, name in zip("xy", over, strict=True):
        scale = {"zero": False, "nice": True, "padding": 14}
        axes[axis] = field(name, title=_AXES[name], scale=scale, axis={"grid": True})
        limit, what = limits.get(axis, (None, ""))
        if limit is not None:
            far = limit > _FAR * max((row[name] or 0) for row in rows)
            told += f"{what}: {limit:,}{', beyond the picture' if far else ''}. "
            lines += [] if far else [_line(axis, limit, what)]
    told += "; ".join(f"{row['setting']} {row[over[0]]:,} {row[over[1]]:,}" for row in rows if row["front"])
    look = look_of_kinds(_KINDS, "kind", {row["kind"] for row in rows}, "taken")
    figured = dict.fromkeys(_COLUMNS, "quantitative")
    shown = [{**each, "format": ",.4~g"} if each["field"] in ("ms", "snr_db", "loss") else each
             for each in tooltip("setting", "with", *_COLUMNS, **figured)]  # fmt: skip
    mark = {"type": "point", "strokeWidth": 1.5, "opacity": 1}
    points = {"mark": mark, "encoding": {**axes, **look, "tooltip": shown}}
    return Chart(title, told, {"height": 320, "data": values(rows), "layer": [*lines, points]})


def _line(axis: str, limit: float, what: str) -> dict[str, Any]:
    """A limit, named at its end."""
    text = {"type": "text", "text": what, "align": "right", "fill": BAD, "stroke": GROUND, "strokeWidth": 3}
    text |= {"angle": 270, "dx": -4, "dy": -8} if axis == "x" else {"dx": -4, "dy": -8}
    end = {"y": {"value": 0}} if axis == "x" else {"x": {"value": "width"}}
    rule = {"mark": {"type": "rule", "color": BAD, "strokeDash": [6, 4]}}
    return {
        "data": {"values": [{}]},
        "encoding": {axis: {"datum": limit}},
        "layer": [rule, {"mark": text, "encoding": end}],
    }


def _table(found: Fitted) -> Table:
    rows = list[list[Cell]]()
    for way in found.ways:
        look = "good" if found.fits and way == found.best else ""
        last = Cell(", ".join(filter(None, [way.options, way.short])), look=look if way.fits else "bad")
        cells = [Cell(text, value, look) for text, value in figures(found, way)]
        rows.append([Cell(str(way.trial.setting), look=look), *cells, last])
    return Table("All ways that are good enough, the cheapest first", heads(found), tuple(rows))
