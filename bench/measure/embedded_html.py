"""The comparison with TFLM as one HTML file that needs no other: a picture and a table per core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twinfer.bench.measure.compare import Row
from twinfer.bench.measure.embedded_report import standing_table
from twinfer.bench.measure.limits import INSTRUCTIONS, Standing, Verdict, mean, settings_of, standings
from twinfer.bench.page.chart import BAD, GROUND, NAMES, ROW, Chart, Charts, distinct, field, room, tooltip, values
from twinfer.bench.page.page import Part, page

_INTRODUCTION = """<p>Instructions of one inference under QEMU against TFLM + CMSIS-NN at -O3; bytes of code, params and
tables against TFLM's smallest build (-Os, int8 registrations); weights against weights + bias + 5 B per channel; RAM
without stack against the least that any placement needs, and against TFLM's arena. Green: within the limit that the
project set itself.</p>
"""

_PICTURES = """<p class="quiet">Instructions as a share of TFLM + CMSIS-NN's, which are the broken line at 1. The red
line is the geometric mean.</p>
"""

#: The scale of all bars: the share of TFLM's instructions.
_RATIO = "instructions / TFLM + CMSIS-NN's"


def embedded_html(rows: Sequence[Row]) -> str:
    """The page of ``twinfer bench``'s figures on microcontrollers. It leaves out models that TFLM did not run.

    ToolError if vl-convert-python is missing.
    """
    every, title = standings(rows), "twinfer beside TFLM on Cortex-M"
    if not every:
        return page(title, [_INTRODUCTION, "<p>There are no figures of TFLM for these models.</p>"])
    cores = [[s for s in every if s.target == target] for target in dict.fromkeys(s.target for s in every)]
    parts: list[Part] = [_INTRODUCTION, _PICTURES, pictures(cores), *map(standing_table, cores)]
    return page(title, parts, {"rows": list(rows)})


def pictures(cores: Sequence[Sequence[Standing]]) -> Charts:
    """The instructions on every core as bars, all to one scale."""
    ratios = [v.value for own in cores for s in own if (v := s.instructions.get(shown(own)))]
    return Charts(tuple(_picture(own, max([*ratios, 1.0])) for own in cores))


def _picture(own: Sequence[Standing], most: float) -> Chart:
    """One bar per model; a line across the bars is their geometric mean."""
    setting, target = shown(own), own[0].target
    average, limit = mean(own, setting), INSTRUCTIONS.get(target)
    known = f" (≤ {limit[0]:.2f})" if limit and setting == "speed" else ""
    verdicts = [standing.instructions.get(setting) for standing in own]
    rows = [
        {"model": model, "ratio": verdict and verdict.value, "to TFLM": str(verdict or "not measured")}
        for model, verdict in zip(distinct([standing.model for standing in own]), verdicts, strict=True)
    ]
    told = ", ".join(f"{row['model']} {row['to TFLM']}" for row in rows)
    return Chart(
        f"{target}, {setting}" + (f": mean {average[0]}{known}" if average else ""),
        f"Bars: instructions on {target} as a share of TFLM's with CMSIS-NN. {told}.",
        {
            "height": ROW * len(rows),
            "padding": room(36),
            "data": values(rows),
            "layer": _layers(average, most),
        },
    )


def _layers(average: tuple[Verdict, int] | None, most: float) -> list[dict[str, Any]]:
    """Bars, the lines across them, and last the figures, with a rim so that no line goes through one."""
    x = field("ratio", title=_RATIO, scale={"domain": [0, 1.02 * most], "nice": False})
    y = field("model", "nominal", sort=None, title=None, axis=NAMES)
    figure = {"type": "text", "align": "left", "dx": 4, "stroke": GROUND, "strokeWidth": 4, "strokeJoin": "round"}
    lines: list[dict[str, Any]] = [_upright(1.0, strokeDash=[6, 4])]
    if average:
        lines.append(_upright(average[0].value, color=BAD, strokeWidth=2))
    return [
        {"mark": "bar", "encoding": {"x": x, "y": y, "tooltip": tooltip("model", "to TFLM")}},
        *lines,
        {"mark": figure, "encoding": {"x": x, "y": y, "text": field("to TFLM", "nominal")}},
    ]


def _upright(ratio: float, **look: Any) -> dict[str, Any]:
    return {"mark": {"type": "rule", **look}, "data": {"values": [{}]}, "encoding": {"x": {"datum": ratio}}}


def shown(own: Sequence[Standing]) -> str:
    """The setting in the picture: the fastest one measured."""
    settings = settings_of(own)
    return next((setting for setting in ("speed", "balanced", "size") if setting in settings), "")
