"""Charts of a page, as Vega-Lite describes them (vega.github.io/vega-lite): data, marks, and what they encode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from math import isfinite
from typing import Any

from twinfer.runtime.printable import printable

#: Colours that everybody can tell apart on white and on black (Okabe and Ito's, the lightest and the black left out).
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a8a8a")

#: The page's own colours, which follow its theme: text, the ground, and what is good or bad.
INK, QUIET, LINE, GROUND = "currentColor", "var(--quiet)", "var(--line)", "var(--ground)"
GOOD, BAD = "var(--good)", "var(--bad)"

#: The version of the language, which the package vl-convert-python has.
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"

#: Pixels of one row of horizontal bars, its gap included.
ROW = 22

#: The axis of bars with names. Long names lose their middle: often only their ends tell them apart.
NAMES: Mapping[str, Any] = {
    "domain": False, "ticks": False, "labelPadding": 5,
    "labelExpr": "truncate(datum.label, max(18, containerSize()[0] / 19), 'center')",
}  # fmt: skip


def room(right: int) -> dict[str, int]:
    """The padding of a chart with figures of up to ``right`` pixels behind its bars."""
    return {"left": 0, "top": 5, "right": right, "bottom": 5}


#: What text, lines and grounds look like in every chart. Narrow charts have fewer ticks, shorter labels and columns.
CONFIG: Mapping[str, Any] = {
    "background": None,
    "font": "system-ui, sans-serif",
    "tooltipFormat": {"numberFormat": ","},
    "mark": {"color": COLOURS[0]},
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal",
        "gridColor": LINE, "domainColor": QUIET, "tickColor": QUIET, "labelOverlap": "greedy", "labelSeparation": 8,
        "labelLimit": {"expr": "max(130, 0.4 * containerSize()[0])"},
    },
    "axisXQuantitative": {"tickCount": {"expr": "max(2, width / 90)"}, "labelFlush": 16},
    "legend": {
        "labelColor": INK, "titleColor": INK, "labelFontSize": 12, "orient": "top", "title": None, "columnPadding": 16,
        "columns": {"expr": "max(1, floor(width / 130))"}, "labelLimit": 240,
    },
    "text": {"fill": INK, "fontSize": 12},
    "rule": {"color": INK},
    "range": {"category": list(COLOURS)},
}  # fmt: skip


@dataclass(frozen=True)
class Chart:
    """``spec`` without what all charts share; ``about`` says in words what it shows, for those who do not see it."""

    title: str
    about: str
    spec: Mapping[str, Any]

    @property
    def whole(self) -> dict[str, Any]:
        """The description as the library takes it: as wide as the page."""
        if "marks" in self.spec:  # a description for Vega, which has no width of the page
            return {"background": None, "config": {"legend": CONFIG["legend"]}, **self.spec}
        usual = {"$schema": SCHEMA, "width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
        return {**usual, "config": CONFIG, **self.spec, **_height(self.spec)}


@dataclass(frozen=True)
class Charts:
    """Small charts of one kind side by side, as many as there is room for; each is at least ``width`` pixels wide."""

    charts: tuple[Chart, ...]
    width: int = 300


def field(name: str, kind: str = "quantitative", **more: Any) -> dict[str, Any]:
    """What a channel encodes: a column of the data."""
    return {"field": name, "type": kind, **more}


def tooltip(*names: str, **kinds: str) -> list[dict[str, Any]]:
    """What is shown where the pointer is: these columns, numbers with separators of thousands."""
    return [{"field": name, "type": kinds.get(name, "nominal")} for name in names]


def values(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The data of a chart, a row per mark. Foreign text is made harmless; NaN and infinity, which JSON lacks, are null,
    and leave a mark out."""
    return {"values": [{name: _plain(value) for name, value in row.items()} for row in rows]}


def distinct(names: Sequence[str], again: str = "{} ({})") -> list[str]:
    """The names as places on an axis: those that come again are numbered."""
    places: dict[str, None] = {}
    for name in names:
        candidates = chain([name], (again.format(name, number) for number in count(2)))
        places[next(each for each in candidates if each not in places)] = None
    return list(places)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    return None if isinstance(value, float) and not isfinite(value) else value


def _height(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The height in pixels, if ``spec`` gives that of a step: with steps Vega-Lite warns of the fit that it drops."""
    layers = [spec, *spec.get("layer", ())]
    rows = next((layer["data"]["values"] for layer in layers if "values" in layer.get("data", ())), ())
    below = next((layer["encoding"]["y"].get("field") for layer in layers if "y" in layer.get("encoding", ())), None)
    height = spec.get("height")
    if not isinstance(height, Mapping):
        return {}
    return {"height": height["step"] * max(1, len({row.get(below) for row in rows}))}
