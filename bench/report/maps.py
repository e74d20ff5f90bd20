"""Maps of a report: the arena over time, and the flash down to symbols."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from twinfer.bench.page.chart import COLOURS, Chart, field, tooltip, values
from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.by_rows.schedule import ChainRun, RowPart
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.program import Chain

#: Columns of a legend, as many as there is room for.
COLUMNS = "max(1, floor(width / 110))"

#: Lines above the arena: what lives at the operator where the slider stands.
_LINES: Mapping[str, Any] = {
    "text": {"expr": "live[at]"}, "anchor": "start", "fontSize": 12, "fontWeight": "normal", "lineHeight": 16,
    "limit": {"expr": "width"}, "color": "currentColor", "offset": 8, "frame": "group",
}  # fmt: skip

Document = Mapping[str, Any]

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


def _areas(bands: Sequence[Document], count: int) -> dict[str, Any]:
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


def _live(bands: Sequence[Document], at: int) -> list[str]:
    """The largest tensors at an operator, in lines; there are always as many lines."""
    here = [(_bytes(band, at), band) for band in bands if band["times"][0] <= at < band["times"][-1]]
    here.sort(key=lambda pair: -pair[0])
    lines = [f"{size:,} B {band['name']}" for size, band in here[:NAMED]]
    rest = sum(size for size, _ in here[NAMED:])
    lines += [""] * (NAMED - len(lines))
    return [*lines, f"and {rest:,} B in {len(here) - NAMED} others" if len(here) > NAMED else ""]


def _bytes(band: Document, at: int) -> int:
    """The most bytes of a band from an operator to the next."""
    spans = zip(band["times"], band["times"][1:], band["lows"], band["highs"], strict=False)
    return max((high - low for begin, end, low, high in spans if begin < at + 1 and end > at), default=0)


def _moments(bands: Sequence[Document]) -> Iterator[dict[str, Any]]:
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


# -- bands of bytes ----------------------------------------------------------------------------------------------------


#: What a band of bytes is.
Kind = Literal["tensor", "rows", "scratch", "state"]

#: How the legend calls each kind.
NAMES: dict[Kind, str] = {"tensor": "tensor", "rows": "rows in a ring", "scratch": "scratch", "state": "state"}

#: A time, and the first byte and the end of what a tensor holds from then on.
Moment = tuple[float, tuple[int, int]]


@dataclass(frozen=True)
class Band:
    """The bytes of one tensor over time.

    From ``times[i]`` to ``times[i + 1]`` it holds the bytes from ``lows[i]`` to before ``highs[i]``. Times are numbers
    of operators, -1 before the first one.
    """

    name: str
    kind: Kind
    times: tuple[float, ...]
    lows: tuple[int, ...]
    highs: tuple[int, ...]


def bands(plan: Plan) -> list[Band]:
    """What lies where and when in arena and state, in the order in which it begins to live."""
    chains = [_Rows(plan, part) for part in plan.program if isinstance(part, Chain) and part.layers]
    rings = {ring.memory for chain in plan.chains.values() for ring in chain.rings.values()}
    here = [tensor for tensor in plan.places if tensor.nbytes and tensor not in rings and tensor is not plan.borrowed]
    whole = [_life(plan, tensor, chains) for tensor in here]
    every = (*whole, *(_band(t, "rows", each.moments(t), each.end) for each in chains for t in each.chain.rings))
    return sorted(every, key=lambda band: (band.times[0], band.lows[0]))


def _life(plan: Plan, tensor: Tensor, chains: Sequence[_Rows]) -> Band:
    """A tensor for its whole life: all its bytes but while a chain computes or eats it."""
    first, last = plan.lives[tensor]
    scratch = any(tensor is step.scratch for step in plan.steps)
    free: Kind = "scratch" if scratch else "tensor"
    kind: Kind = "state" if plan.places[tensor].region == Region.STATE else free
    low, time, moments = plan.offsets[tensor], first, list[Moment]()
    whole = low, low + tensor.nbytes
    for chain in chains:
        if tensor in chain.heights:
            moments += [(time, whole)] if chain.first > time else []
            moments += chain.moments(tensor)
            time = chain.end
    moments += [(time, whole)] if last + 1 > time else []
    return _band(tensor, kind, moments, max(last + 1, time))


class _Rows:
    """The tensors of a chain that come and go row by row."""

    def __init__(self, plan: Plan, chain: Chain) -> None:
        self._plan, self.chain = plan, chain
        positions = [layer.step.position for layer in chain.layers]
        self.first, self.end = -1 if chain.feed else min(positions), max(positions) + 1
        self._run = ChainRun(chain.links, [link.out for link in chain.links if link.out not in chain.rings])
        self.heights = {**self._eaten(), **{link.out: link.height for link in chain.links}}
        self._there = [[self._rows(part, tensor) for tensor in self.heights] for part in self._run.parts()]

    def _eaten(self) -> dict[Tensor, int]:
        """The height of every tensor from before the chain that nobody needs after it."""
        made, lives = self._run.producer, self._plan.lives
        sources = [(tensor, height) for link in self.chain.links for _, tensor, height in link.sources]
        return {tensor: height for tensor, height in sources if tensor not in made and lives[tensor][1] < self.end}

    def _rows(self, part: RowPart, tensor: Tensor) -> tuple[int, int]:
        """The rows of a tensor that are there while a part is computed, the part's own among them."""
        number = self._run.producer.get(tensor)
        if number is None:
            height = self.heights[tensor]
            return min(self._run.low(tensor), height), height
        done = part.end if number == part.link else self._run.done[number]
        return min(self._run.low(tensor), done) if tensor in self.chain.rings else 0, done

    def moments(self, tensor: Tensor) -> list[Moment]:
        """The bytes of a tensor in every part."""
        span, place = (self.end - self.first) / len(self._there), list(self.heights).index(tensor)
        return [(self.first + span * k, self._bytes(tensor, *rows[place])) for k, rows in enumerate(self._there)]

    def _bytes(self, tensor: Tensor, low: int, end: int) -> tuple[int, int]:
        """The bytes of some rows of a tensor, which in a ring lie at its beginning."""
        ring, height = self.chain.rings.get(tensor), self.heights[tensor]
        start, row = self._plan.offsets[ring.memory if ring else tensor], tensor.nbytes // height
        if ring:
            low, end = 0, end - low
        elif self.chain.backwards:
            low, end = height - end, height - low
        return start + low * row, start + end * row


def _band(tensor: Tensor, kind: Kind, moments: Sequence[Moment], end: float) -> Band:
    """The band of a tensor that holds bytes from each moment to the next, the last one ``end``."""
    lows, highs = zip(*(there for _, there in moments), strict=True)
    return Band(tensor.name, kind, (*(time for time, _ in moments), end), lows, highs)
