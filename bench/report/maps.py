"""Maps of a report: the arena over time, and the flash down to symbols."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from twinfer.bench.page.chart import COLOURS, Chart, field, tooltip, values
from twinfer.bench.report.bands import NAMES, Kind

#: Columns of a legend, as many as there is room for.
COLUMNS = "max(1, floor(width / 110))"

#: Lines above the arena: what lives at the operator where the slider stands.
_LINES: Mapping[str, Any] = {
    "text": {"expr": "live[at]"}, "anchor": "start", "fontSize": 12, "fontWeight": "normal", "lineHeight": 16,
    "limit": {"expr": "width"}, "color": "currentColor", "offset": 8, "frame": "group",
}  # fmt: skip

Document = Mapping[str, Any]
Band = Mapping[str, Any]

#: How many moments a band has at most, and how many tensors are named for the moment that is looked at.
MOMENTS, NAMED = 120, 4

#: Colours by what bytes hold, and by groups of the flash.
KINDS: Mapping[Kind, str] = {"tensor": COLOURS[0], "rows": COLOURS[1], "scratch": COLOURS[6], "state": COLOURS[2]}
GROUPS = ("weights", "biases", "multipliers", "code", "params", "tables", "library", "constants", "data")


def arena_chart(document: Document) -> Chart:
    """Which bytes of arena and state hold what, with a slider through the operators."""
    memory, bands = document["memory"], document["memory"]["bands"]
    count = len(memory["operators"])
    live = [[f"operator {name}", *_live(bands, at)] for at, name in enumerate(memory["operators"])]
    peak = min(max(memory["forced_by"]["position"], 0), max(count - 1, 0))
    slider = {"input": "range", "min": 0, "max": max(count - 1, 0), "step": 1, "name": "moment"}
    spec = {
        "params": [{"name": "live", "value": live}, {"name": "at", "value": peak, "bind": slider}],
        "title": _LINES,
        "height": 320,
        "layer": [
            _areas(bands, count),
            {
                "data": {"values": [{}]},
                "transform": [{"calculate": "at + 0.5", "as": "time"}],
                "mark": {"type": "rule", "strokeWidth": 2},
                "encoding": {"x": field("time")},
            },
            {
                "data": values([{"bound": memory["lower_bound_bytes"]}]),
                "mark": {"type": "rule", "strokeDash": [5, 4], "color": COLOURS[5]},
                "encoding": {"y": field("bound"), "tooltip": tooltip("bound")},
            },
        ],
    }
    size = memory["arena_bytes"] + memory["state_bytes"]
    about = f"Areas over time: {len(bands)} tensors in {size:,} bytes; no plan has fewer than the dashed line."
    return Chart("Arena over time; the dashed line is the lower bound", about, spec)


def _areas(bands: Sequence[Band], count: int) -> dict[str, Any]:
    """An area per tensor; those that live where the slider stands are opaque."""
    kinds = [kind for kind in KINDS if any(band["kind"] == kind for band in bands)]
    colours = {"domain": [NAMES[kind] for kind in kinds], "range": [KINDS[kind] for kind in kinds]}
    axis = {"title": "operators, in their order", "format": "d", "tickMinStep": 1}
    return {
        "data": values(list(_moments(bands))),
        "mark": {"type": "area", "interpolate": "step-after", "stroke": "var(--ground)", "strokeWidth": 0.7},
        "encoding": {
            "x": field("time", axis=axis, scale={"domain": [-1, max(count, 1)], "nice": False}),
            "y": field("low", title="bytes"),
            "y2": {"field": "high"},
            "detail": {"field": "band"},
            "color": field("kind", "nominal", scale=colours, legend={"columns": 2}),
            "opacity": {"condition": {"test": "datum.first <= at && at < datum.end", "value": 1}, "value": 0.4},
            "tooltip": tooltip("name", "kind", "bytes"),
        },
    }


def _live(bands: Sequence[Band], at: int) -> list[str]:
    """The largest tensors at an operator, in lines; there are always as many lines."""
    here = [(_bytes(band, at), band) for band in bands if band["times"][0] <= at < band["times"][-1]]
    here.sort(key=lambda pair: -pair[0])
    lines = [f"{size:,} B {band['name']}" for size, band in here[:NAMED]]
    rest = sum(size for size, _ in here[NAMED:])
    lines += [""] * (NAMED - len(lines))
    return [*lines, f"and {rest:,} B in {len(here) - NAMED} others" if len(here) > NAMED else ""]


def _bytes(band: Band, at: int) -> int:
    """The most bytes of a band from an operator to the next."""
    spans = zip(band["times"], band["times"][1:], band["lows"], band["highs"], strict=False)
    return max((high - low for begin, end, low, high in spans if begin < at + 1 and end > at), default=0)


def _moments(bands: Sequence[Band]) -> Iterator[dict[str, Any]]:
    for number, band in enumerate(bands):
        most = max(high - low for low, high in zip(band["lows"], band["highs"], strict=True))
        own = {
            "band": number, "name": band["name"], "kind": NAMES[band["kind"]], "bytes": f"{most:,}",
            "first": band["times"][0], "end": band["times"][-1],
        }  # fmt: skip
        every = list(zip(band["times"], band["lows"], band["highs"], strict=False))
        stride = -(-len(every) // MOMENTS)
        for time, low, high in every[::stride]:
            yield {**own, "time": time, "low": low, "high": high}
        yield {**own, "time": band["times"][-1], "low": band["lows"][-1], "high": band["highs"][-1]}


def flash_chart(document: Document) -> Chart:
    """The flash as a map of areas: groups, and in them symbols."""
    groups = [group for group in GROUPS if any(s["group"] == group for s in document["flash"])]
    tree: list[dict[str, Any]] = [{"id": "flash"}, *({"id": group, "parent": "flash"} for group in groups)]
    for number, symbol in enumerate(document["flash"]):
        size, name = symbol["size"] + symbol["padding"], symbol["name"] or "without a name"
        if symbol["group"] in groups:
            tree.append({"id": number, "parent": symbol["group"], "name": name, "size": size, "group": symbol["group"]})
    whole = document["totals"]["flash_bytes"]
    about = f"Areas by bytes of {whole:,} in flash, one per symbol: {', '.join(groups)}."
    return Chart(f"Flash, symbol by symbol: {whole:,} bytes", about, _treemap(tree, groups))


def _treemap(tree: Sequence[Mapping[str, Any]], groups: Sequence[str]) -> dict[str, Any]:
    """A Vega description, as Vega-Lite has no maps of areas (vega.github.io/vega/docs/transforms/treemap)."""
    wide = "max(200, (containerSize()[0] || 600) - 4)"
    layout = {"type": "treemap", "field": "size", "sort": {"field": "value", "order": "descending"}, "paddingInner": 1}
    layout |= {"method": "squarify", "size": [{"signal": "width"}, {"signal": "height"}]}
    steps = [{"type": "stratify", "key": "id", "parentKey": "parent"}, layout]
    leaf = {"type": "filter", "expr": "isValid(datum.size)"}
    return {
        "$schema": "https://vega.github.io/schema/vega/v6.json",
        "height": 360,
        "signals": [{"name": "width", "init": wide, "on": [{"events": "window:resize", "update": wide}]}],
        "data": [
            {"name": "tree", "values": [dict(row) for row in tree], "transform": steps},
            {"name": "leaves", "source": "tree", "transform": [leaf]},
        ],
        "scales": [{"name": "colour", "type": "ordinal", "domain": list(groups), "range": list(COLOURS)}],
        "legends": [{"fill": "colour", "orient": "top", "columns": {"signal": COLUMNS}, "symbolType": "square"}],
        "marks": _leaves(),
    }


def _leaves() -> list[dict[str, Any]]:
    """A rectangle per leaf of a treemap, and its name where that fits."""
    said = "{'symbol': datum.name, 'bytes': format(datum.size, ','), 'group': datum.group}"
    fits = "datum.x1 - datum.x0 > 6.5 * length(datum.name) + 8 && datum.y1 - datum.y0 > 16 ? datum.name : ''"
    fill = {"fill": {"scale": "colour", "field": "group"}, "tooltip": {"signal": said}}
    corners = {"x": {"field": "x0"}, "x2": {"field": "x1"}, "y": {"field": "y0"}, "y2": {"field": "y1"}}
    text: dict[str, Any] = {"x": {"signal": "datum.x0 + 4"}, "y": {"signal": "datum.y0 + 12"}, "text": {"signal": fits}}
    text |= {"fontSize": {"value": 11}, "fill": {"value": "currentColor"}}
    leaves = {"data": "leaves"}
    states = {
        "enter": fill,
        "update": {**corners, "fillOpacity": {"value": 0.55}},
        "hover": {"fillOpacity": {"value": 1}},
    }
    return [
        {"type": "rect", "from": leaves, "encode": states},
        {"type": "text", "from": leaves, "interactive": False, "encode": {"update": text}},
    ]
