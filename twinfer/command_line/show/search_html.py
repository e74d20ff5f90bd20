"""A search as one HTML file: loss over cost with the Pareto front, and the trials on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from twinfer.bench.page.chart import BAD, COLOURS, GROUND, QUIET, Chart, field, tooltip, values
from twinfer.bench.page.page import Part, page
from twinfer.bench.page.table import Cell, Table
from twinfer.command_line.show.search import document
from twinfer.converter.search.find import Found
from twinfer.converter.search.trial import Trial
from twinfer.runtime.printable import in_html

#: The picture reaches up to this many times the budget; trials that lose more lie on its upper edge.
_TOP = 4

#: The colour and the shape of each precision.
KINDS = {"int4": (COLOURS[1], "triangle-up"), "int8": (COLOURS[0], "circle"), "int16x8": (COLOURS[2], "square")}
KINDS |= {"dynamic": (COLOURS[4], "triangle-down"), "float": (COLOURS[6], "diamond")}


def search_html(outcome: Found, name: str) -> str:
    """The page of a search about the model ``name``. ToolError if vl-convert-python is missing."""
    search, good = outcome.search, [trial for trial in outcome.trials if not trial.error]
    about = f"{len(outcome.trials)} trials ({len(outcome.trials) - len(good)} failed), seed {search['seed']}; "
    about += f"{search['calibrated']:,} samples calibrated on, {search['judged']:,} others judged. "
    about += f"Float model: {search['cost']} {outcome.float_cost:,}, score {outcome.job.judge.float_score:.4f}. "
    about += "Losses beyond the picture lie on its upper edge."
    parts: list[Part] = [f"<p>{in_html(about)}</p>\n", *([_picture(outcome, good)] if good else []), _table(outcome)]
    title = f"{name}: cheapest quantisation that loses at most {outcome.max_loss:g}"
    return page(title, parts, document(outcome))


def _picture(outcome: Found, good: Sequence[Trial]) -> Chart:
    """A point per trial: those of the front are filled, the chosen one is large. Broken: the budget."""
    told = f"Loss over {outcome.search['cost']} of {len(good)} trials. On the Pareto front: "
    told += ", ".join(f"{trial.setting} ({trial.cost:,}, {trial.loss:.5f})" for trial in outcome.front)
    most = max(*(trial.loss for trial in good), outcome.max_loss)  # the greatest loss in the picture
    if outcome.max_loss:
        most = min(most, max(_TOP * outcome.max_loss, outcome.front[0].loss))
    rows = [
        {
            "setting": str(trial.setting),
            "precision": trial.setting.precision,
            "cost": trial.cost,
            "loss": trial.loss,
            "drawn": min(trial.loss, most),
            "front": trial in outcome.front,
            "chosen": trial == outcome.chosen,
        }
        for trial in good
    ]
    layers = [_budget(outcome), _front(outcome, good, most), _points(outcome, good)]
    kept = {"height": 360, "data": values(rows), "layer": layers}
    return Chart("Loss over cost: filled on the Pareto front, the large one chosen", told, kept)


def _axes(outcome: Found) -> dict[str, Any]:
    cost = field("cost", title=outcome.search["cost"], scale={"zero": False, "nice": True, "padding": 12})
    return {"x": cost, "y": field("drawn", title="loss", scale={"nice": True}, axis={"grid": True})}


def _budget(outcome: Found) -> dict[str, Any]:
    """The line of the greatest loss allowed, named at its right end."""
    text = {"type": "text", "text": "budget", "align": "right", "dx": -4, "dy": -8, "fill": BAD, "stroke": GROUND}
    return {
        "data": {"values": [{}]},
        "encoding": {"y": {"datum": outcome.max_loss}},
        "layer": [
            {"mark": {"type": "rule", "color": BAD, "strokeDash": [6, 4]}},
            {"mark": {**text, "strokeWidth": 3}, "encoding": {"x": {"value": "width"}}},
        ],
    }


def _front(outcome: Found, good: Sequence[Trial], most: float) -> dict[str, Any]:
    """A step per trial of the front, up to the greatest cost."""
    steps = [{"cost": trial.cost, "drawn": min(trial.loss, most)} for trial in outcome.front]
    steps.append({**steps[-1], "cost": max(trial.cost for trial in good)})
    line = {"type": "line", "interpolate": "step-after", "color": QUIET, "strokeWidth": 1.5}
    return {"mark": line, "data": values(steps), "encoding": {**_axes(outcome), "order": field("cost")}}


def look_of_kinds(kinds: Mapping[str, tuple[str, str]], column: str, present: Set[str], large: str) -> dict[str, Any]:
    """How points look: by ``column`` the colour and the shape of their kind, of those present; filled if they are on
    the front; larger where the column ``large`` is true."""
    shown = [kind for kind in kinds if kind in present]
    colours, shapes = ([kinds[kind][i] for kind in shown] for i in (0, 1))
    colour = field(column, "nominal", scale={"domain": shown, "range": colours})
    return {
        "fill": colour,
        "stroke": colour,
        "shape": field(column, "nominal", scale={"domain": shown, "range": shapes}),
        "fillOpacity": {"condition": {"test": "datum.front", "value": 1}, "value": 0},
        "size": {"condition": {"test": f"datum.{large}", "value": 320}, "value": 70},
    }


def _points(outcome: Found, good: Sequence[Trial]) -> dict[str, Any]:
    look = look_of_kinds(KINDS, "precision", {trial.setting.precision for trial in good}, "chosen")
    seen = tooltip("setting", "cost", "loss", cost="quantitative", loss="quantitative")
    return {
        "mark": {"type": "point", "strokeWidth": 1.5, "opacity": 1},
        "encoding": {**_axes(outcome), **look, "tooltip": seen},
    }


def _table(outcome: Found) -> Table:
    heads = ("<setting", outcome.search["cost"], "loss", "score", "SNR dB")
    rows = list[list[Cell]]()
    for trial in outcome.front:
        look = "good" if trial == outcome.chosen else ""
        figures = (f"{trial.cost:,}", f"{trial.loss:.5f}", f"{trial.score:.4f}", f"{trial.snr_db:.1f}")
        numbers = (trial.cost, trial.loss, trial.score, trial.snr_db)
        cells = (Cell(*pair, look) for pair in zip(figures, numbers, strict=True))
        rows.append([Cell(str(trial.setting), look=look), *cells])
    return Table("Pareto front", heads, tuple(rows))
