"""The graph of a report: a line per operator, from top to bottom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from twinfer.bench.page.chart import Chart, field, tooltip, values
from twinfer.bench.report.summary import behind

Document = Mapping[str, Any]

#: Pixels between the lanes of a graph, and of a line of it.
LANE, LINE = 12, 24

#: Pixels beside a dot.
MARGIN = 12


def graph_chart(document: Document) -> Chart:
    """The graph from top to bottom: a line per operator, values that skip operators in lanes at the left."""
    lines = list(_lines(document))
    place = {name: i for i, line in enumerate(lines) for name in line["outputs"]}
    edges = sorted({(place[name], i) for i, line in enumerate(lines) for name in line["inputs"] if name in place})
    lanes, points = _lanes(edges)
    wide = max(*lanes, 1)
    right = MARGIN + LANE * max(lanes)
    x = field("lane", scale={"domain": [0, wide], "range": [right, right - LANE * wide]}, axis=None)
    y = field("line", axis=None, scale={"reverse": True, "domain": [-0.5, len(lines) - 0.5], "nice": False})
    spec = {
        "height": LINE * len(lines),
        "encoding": {"x": x, "y": y},
        "layer": [
            {
                "data": values(points),
                "mark": {"type": "line", "color": "var(--quiet)", "strokeWidth": 1.5},
                "encoding": {"detail": {"field": "edge"}, "order": field("order")},
            },
            _dots(lines, right),
        ],
    }
    return Chart("The graph", f"A line per operator, {len(lines)} in all, with {len(edges)} values between them.", spec)


def _dots(lines: Sequence[Mapping[str, Any]], right: int) -> dict[str, Any]:
    """A dot per line, ``right`` pixels from the left, and its text."""
    families = field("family", "nominal", legend={"columns": {"expr": "max(1, floor(width / 105))"}})
    text = {"type": "text", "align": "left", "dx": MARGIN, "limit": {"expr": f"width - {right + MARGIN}"}}
    return {
        "data": values([{"lane": 0, "line": i, **line} for i, line in enumerate(lines)]),
        "encoding": {"tooltip": tooltip("name", "kernel", "share")},
        "layer": [
            {"mark": {"type": "circle", "size": 110, "opacity": 1}, "encoding": {"color": families}},
            {"mark": text, "encoding": {"text": field("text", "nominal")}},
        ],
    }


def _lines(document: Document) -> Iterator[dict[str, Any]]:
    """A line per input and operator: its ``text``, and names of what it reads and writes."""
    views, whole = document["views"], max(document["totals"]["compiled"], 1e-9)
    taken = {at: layer["compiled"] for layer in document["layers"] for at in layer["steps"] if len(layer["steps"]) == 1}
    for name in document["inputs"]:
        empty = {"kernel": "", "share": "", "inputs": []}
        yield {"text": f"input {name}", "name": name, "family": "input", "outputs": [name], **empty}
    for node in document["nodes"]:
        share = f"{100 * taken[node['position']] / whole:.1f} %" if node["position"] in taken else ""
        words = (str(node["index"]), node["op"], "×".join(map(str, node["shape"])), node["type"], share)
        inputs = [behind(name, views) for name in node["inputs"]]
        own = {key: node[key] for key in ("name", "kernel", "family", "outputs")}
        yield {**own, "text": " ".join(filter(None, words)), "share": share, "inputs": inputs}


def _lanes(edges: Sequence[tuple[int, int]]) -> tuple[list[int], list[dict[str, Any]]]:
    """The lane of every edge, 0 for one to the next line, and the points of all."""
    ends, lanes, points = list[int](), list[int](), list[dict[str, Any]]()
    for number, (begin, end) in enumerate(edges):
        lane = 0
        if end > begin + 1:
            lane = next((i for i, last in enumerate(ends, 1) if last <= begin), len(ends) + 1)
            ends[lane - 1 : lane] = [end]
        lanes.append(lane)
        way = [(0, begin), (0, end)] if lane == 0 else [(0, begin), (lane, begin + 0.5), (lane, end - 0.5), (0, end)]
        points += [{"edge": number, "order": i, "lane": x, "line": y} for i, (x, y) in enumerate(way)]
    return lanes or [0], points
