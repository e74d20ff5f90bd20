"""The charts of a report, made from its document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from twinfer.bench.explain.causes import CAUSES, ordered
from twinfer.bench.explain.techniques import TECHNIQUES
from twinfer.bench.measure.tflm import LABELS
from twinfer.bench.page.chart import COLOURS, NAMES, ROW, Chart, field, tooltip, values
from twinfer.bench.report.summary import behind, figure, layer_label

Document = Mapping[str, Any]

#: Pixels of a figure behind a bar.
FIGURE = 90

#: A legend of a few short words.
ONE_LINE = {"columns": 3}

#: Ticks as 1.5M.
TICKS = {"format": "~s"}

#: Colours of what a layer takes in both programs, of savings and of costs.
INTERPRETED, COMPILED = COLOURS[4], COLOURS[0]
KINDS = {"whole": COMPILED, "saved": COLOURS[2], "cost": COLOURS[5]}

#: Sorting as given; y of one bar per row, its label on the left: words of ours, which are short and stay whole.
AS_GIVEN = {"sort": None, "axis": {**NAMES, "title": None, "labelExpr": "datum.label", "labelLimit": 190}}


def layers_chart(ledger: Document) -> Chart:
    """What every layer takes, interpreted and compiled."""
    unit, rows = ledger["unit"], []
    for layer in ledger["layers"]:
        shown = {side: figure(layer[side], unit) for side in ("interpreted", "compiled")}
        told = {"name": layer["name"], **{f"{side} ({unit})": text for side, text in shown.items()}}
        rows += [{"layer": layer_label(layer), "program": side, "taken": max(layer[side], 0), **told} for side in shown]
    spec = {
        "data": values(rows),
        "height": {"step": ROW},
        "encoding": {
            "y": field("layer", "nominal", **AS_GIVEN),
            "tooltip": tooltip("layer", "name", *(f"{side} ({unit})" for side in ("interpreted", "compiled"))),
        },
        "layer": [_bars("interpreted", INTERPRETED, 16, unit), _bars("compiled", COMPILED, 8, unit)],
    }
    whole = ledger["total"]
    about = f"Bars of {unit} per layer: {figure(whole['interpreted'], unit)} interpreted (wide, light), "
    return Chart(
        f"{heading(unit)} of every layer: interpreted (light) and compiled (dark)",
        f"{about}{figure(whole['compiled'], unit)} compiled (narrow, dark) in all.",
        spec,
    )


def _bars(program: str, colour: str, height: int, unit: str) -> dict[str, Any]:
    return {
        "transform": [{"filter": f"datum.program === '{program}'"}],
        "mark": {"type": "bar", "color": colour, "height": height},
        "encoding": {"x": field("taken", title=unit, axis=TICKS)},
    }


def heading(unit: str) -> str:
    """A unit as the first word of a heading."""
    return "Time" if unit == "µs" else f"{unit[0].upper()}{unit[1:]}"


def waterfall(ledger: Mapping[str, Any]) -> Chart:
    """From what the interpreter takes to what compiled code takes, cause by cause."""
    unit, total = ledger["unit"], ledger["total"]
    causes = ordered(total["causes"])
    rest = list(accumulate((-total["causes"][cause] for cause in causes), initial=total["interpreted"]))
    rows = [_bar("interpreted", 0, total["interpreted"], "whole", unit)]
    for cause, before, after in zip(causes, rest, rest[1:], strict=False):
        kind = "saved" if before >= after else "cost"
        rows.append(_bar(_word(cause), before, after, kind, unit))
    rows.append(_bar("compiled", 0, total["compiled"], "whole", unit))
    bars = {
        "x": field("from", title=unit, axis=TICKS, scale=_with_room(total["interpreted"])),
        "x2": {"field": "to"},
        "color": field(
            "kind", "nominal", scale={"domain": list(KINDS), "range": list(KINDS.values())}, legend=ONE_LINE
        ),
        "tooltip": tooltip("cause", "figure"),
    }
    spec = {
        "data": values(rows),
        "height": {"step": ROW + 4},
        "encoding": {"y": field("cause", "nominal", **AS_GIVEN)},
        "layer": [{"mark": {"type": "bar", "height": 16}, "encoding": bars}, _figures({"x": field("end")})],
    }
    said = ", ".join(f"{_word(cause)} {figure(total['causes'][cause], unit)}" for cause in causes)
    return Chart("What compiling saves, by cause", f"From interpreted to compiled, saved by cause: {said}.", spec)


def _word(cause: str) -> str:
    return CAUSES[cause].word


def _figures(place: Mapping[str, Any]) -> dict[str, Any]:
    """The figures behind bars that end at a place."""
    mark = {"type": "text", "align": "left", "dx": 6}
    return {"mark": mark, "encoding": {**place, "text": field("figure", "nominal")}}


def _bar(cause: str, begin: float, end: float, kind: str, unit: str) -> dict[str, Any]:
    """A bar from a value to another one, with its length as text."""
    long = figure(abs(end - begin), unit)
    sign = {"whole": "", "saved": "-", "cost": "+"}[kind]
    return {"cause": cause, "from": begin, "to": end, "end": max(begin, end), "kind": kind, "figure": sign + long}


def _with_room(most: float) -> dict[str, Any]:
    """A scale on which a figure has room behind the longest bar."""
    return {"domainMax": {"expr": f"{most} * width / max(1, width - {FIGURE})"}, "nice": False}


def ladder_chart(ladder: Document) -> Chart:
    """What the program takes after each technique, and those of others, on a scale of logarithms."""
    unit, rows = ladder["unit"], list(_rungs(ladder))
    ends = min(row["taken"] for row in rows), max(row["taken"] for row in rows)
    point = {**_log("taken", unit, ends), "color": field("whose", "nominal", legend=ONE_LINE)}
    line = {**_log("before", unit, ends), "x2": {"field": "taken"}}
    spec = {
        "data": values(rows),
        "height": {"step": ROW},
        "encoding": {"y": field("program", "nominal", **AS_GIVEN), "tooltip": tooltip("program", "figure")},
        "layer": [
            {"mark": {"type": "rule", "strokeWidth": 2, "color": INTERPRETED}, "encoding": line},
            {"mark": {"type": "point", "filled": True, "size": 90, "opacity": 1}, "encoding": point},
            _figures(_log("end", unit, ends)),
        ],
    }
    worth = ladder["none"]["taken"] / ladder["rungs"][-1]["added"]["taken"]
    about = f"Points of {unit} after each technique, together {worth:.1f} times fewer."
    return Chart(f"Techniques added one after the other: {unit}, logarithmic", about, spec)


def _rungs(ladder: Document) -> Iterator[dict[str, Any]]:
    """The programs of a ladder, then those of others."""
    unit, before = ladder["unit"], ladder["none"]["taken"]
    yield _point("none", before, before, "twinfer", unit)
    for rung in ladder["rungs"]:
        taken = rung["added"]["taken"]
        yield _point(f"+ {TECHNIQUES[rung['technique']].label}", taken, before, "twinfer", unit)
        before = taken
    for peer in ladder["peers"]:
        if taken := peer.get("instructions"):
            yield _point(LABELS[peer["engine"]], taken, taken, "others", unit)


def _log(name: str, unit: str, ends: tuple[float, float]) -> dict[str, Any]:
    """A place on a scale of logarithms that has room for a figure behind the highest end."""
    least, most = 0.9 * ends[0], 1.1 * ends[1]
    room = {"expr": f"{least} * pow({most / least}, width / max(1, width - {FIGURE}))"}
    scale = {"type": "log", "nice": False, "domainMin": least, "domainMax": room}
    return {"x": field(name, title=unit, axis=TICKS, scale=scale)}


def _point(program: str, taken: float, before: float, whose: str, unit: str) -> dict[str, Any]:
    """A program; ``before`` is what the one before it takes."""
    ends = {"taken": taken, "before": before, "end": max(taken, before)}
    return {"program": program, "whose": whose, **ends, "figure": figure(taken, unit)}


def noise_chart(document: Document) -> Chart:
    """Signal to noise of every quantised layer, of its own rounding and of all so far."""
    rows = [
        {"layer": node["index"], "operator": node["op"], "noise": name, "dB": node[key]}
        for node in document["nodes"]
        for key, name in (("own_snr_db", "of the layer alone"), ("total_snr_db", "with all before it"))
        if node[key] is not None
    ]
    spec = {
        "data": values(rows),
        "height": 220,
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": field("layer", axis={"title": "operator", "tickMinStep": 1, "format": "d"}),
            "y": field("dB", title="signal to noise in dB", scale={"zero": False}),
            "color": field("noise", "nominal"),
            "tooltip": tooltip("layer", "operator", "noise", "dB"),
        },
    }
    least = min(rows, key=lambda row: row["dB"])
    about = f"Lines in dB per layer; the least is {least['dB']} dB at {least['operator']}."
    return Chart("Quantisation noise on random inputs: more dB is better", about, spec)


# -- the graph ---------------------------------------------------------------------------------------------------------


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
