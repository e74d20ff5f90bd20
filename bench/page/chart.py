"""Charts of a page, as Vega-Lite describes them (vega.github.io/vega-lite): data, marks, and what they encode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Colours that everybody can tell apart on white and on black (Okabe and Ito's, the lightest and the black left out).
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a8a8a")

#: The version of the language, which the package vl-convert-python has.
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"

#: What text, lines and grounds look like in every chart: the page's own colours.
_INK, _QUIET, _LINE = "currentColor", "var(--quiet)", "var(--line)"
CONFIG: Mapping[str, Any] = {
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": _INK, "titleColor": _INK, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal",
        "gridColor": _LINE, "domainColor": _QUIET, "tickColor": _QUIET, "labelOverlap": "greedy", "labelLimit": 150,
    },
    "legend": {"labelColor": _INK, "titleColor": _INK, "labelFontSize": 12, "orient": "top", "title": None},
    "text": {"fill": _INK, "fontSize": 12},
    "rule": {"color": _INK},
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
        return {**usual, "config": CONFIG, **self.spec}


def field(name: str, kind: str = "quantitative", **more: Any) -> dict[str, Any]:
    """What a channel encodes: a column of the data."""
    return {"field": name, "type": kind, **more}


def tooltip(*names: str, **kinds: str) -> list[dict[str, Any]]:
    """What is shown where the pointer is: these columns, numbers with separators of thousands."""
    return [{"field": name, "type": kinds.get(name, "nominal")} for name in names]


def values(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The data of a chart, a row per mark."""
    return {"values": [dict(row) for row in rows]}
