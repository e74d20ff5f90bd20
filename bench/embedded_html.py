"""The standing beside TFLM as one HTML file that needs nothing else: a picture and a table a core."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from twinfer.bench.compare import Row
from twinfer.bench.limits import INSTRUCTIONS, Standing, Verdict, mean, settings_of, standings
from twinfer.bench.page import COLOURS, page, svg

_INTRODUCTION = """<p>Instructions of one inference under QEMU against TFLM + CMSIS-NN at -O3; bytes of code, params and
tables against TFLM's smallest build (-Os, int8 registrations); weights against weights + bias + 5 B a channel; RAM
without stack against the least that any placement needs, and against TFLM's arena. Green: within the limit that the
project set itself.</p>
"""

#: The picture in pixels: its height above the axis, what a ratio of 1 takes of it, a bar's width, the gap of groups.
_HEIGHT, _ONE, _BAR, _GAP, _LEFT = 260, 180, 14, 30, 40


def embedded_html(rows: Sequence[Row]) -> str:
    """The page of what ``twinfer bench`` has measured on microcontrollers; models TFLM did not run are not in it."""
    found = standings(rows)
    cores = [[s for s in found if s.target == target] for target in dict.fromkeys(s.target for s in found)]
    parts = (
        [picture(cores), *map(_table, cores)] if cores else ["<p>TFLM's figures are known of none of these models.</p>"]
    )
    return page("twinfer beside TFLM on Cortex-M", [_INTRODUCTION, *parts])


def picture(cores: Sequence[Sequence[Standing]]) -> str:
    """Bars of instructions by core, TFLM + CMSIS-NN being 1; a line across a core's bars is their geometric mean."""
    models = list(dict.fromkeys(s.model for own in cores for s in own))
    colours = {model: COLOURS[i % len(COLOURS)] for i, model in enumerate(models)}
    shapes: list[str] = []
    x = _LEFT + _GAP
    for own in cores:
        shapes += _group(own, x, colours)
        x += len(own) * _BAR + _GAP
    one = _HEIGHT - _ONE
    shapes.append(f'<line x1="{_LEFT}" x2="{x}" y1="{one}" y2="{one}" stroke="#222" stroke-dasharray="6 4"/>')
    shapes.append(f'<text x="{_LEFT}" y="{one - 6}">1: TFLM + CMSIS-NN</text>')
    legend = "".join(f'<tspan fill="{colours[model]}" dx="14">■ {escape(model)}</tspan>' for model in models)
    shapes.append(f'<text x="{_LEFT}" y="{_HEIGHT + 46}">{legend}</text>')
    return svg(x + 20, _HEIGHT + 60, shapes)


def _group(own: Sequence[Standing], x: int, colours: dict[str, str]) -> Iterator[str]:
    """One core's bars, its name and a line at its mean; above them what that is, and its limit."""
    setting, top = shown(own), 0
    for i, standing in enumerate(own):
        verdict = standing.instructions.get(setting)
        if verdict is None:
            continue
        high = min(_HEIGHT, round(verdict.value * _ONE))
        top = max(top, high)
        title = f"<title>{escape(standing.model)} on {escape(standing.target)}, {setting}: {verdict}</title>"
        place = f'x="{x + i * _BAR}" y="{_HEIGHT - high}" width="{_BAR - 2}" height="{high}"'
        yield f'<rect {place} fill="{colours[standing.model]}">{title}</rect>'
    yield f'<text x="{x}" y="{_HEIGHT + 18}">{escape(own[0].target)}</text>'
    if average := mean(own, setting):
        y, end = _HEIGHT - round(average[0].value * _ONE), x + len(own) * _BAR
        limit = INSTRUCTIONS.get(own[0].target)
        asked = f" (≤ {limit[0]:.2f})" if limit else ""
        yield f'<line x1="{x - 4}" x2="{end}" y1="{y}" y2="{y}" stroke="#c00000" stroke-width="2"/>'
        yield f'<text x="{x}" y="{_HEIGHT - top - 6}" style="fill: #c00000">mean {average[0]}{asked}</text>'


def shown(own: Sequence[Standing]) -> str:
    """The setting in the picture: the fastest that was measured."""
    settings = settings_of(own)
    return next((setting for setting in ("speed", "balanced", "size") if setting in settings), "")


def _table(own: Sequence[Standing]) -> str:
    settings = settings_of(own)
    heads = [*(f"instr.<br>{s}" for s in settings), *(f"code<br>{s}" for s in settings)]
    heads += ["weights<br>/ floor", "RAM<br>/ bound", "RAM<br>/ arena"]
    body = "".join(_line(standing, settings) for standing in own)
    means = [mean(own, setting) for setting in settings]
    count = next((m[1] for m in means if m), 0)
    foot = "".join(_cell(m and m[0]) for m in means)
    return f"""<table><caption>{escape(own[0].target)}</caption>
<thead><tr><th></th>{"".join(f"<th>{head}</th>" for head in heads)}</tr></thead><tbody>{body}</tbody>
<tfoot><tr><td>geometric mean of {count}</td>{foot}</tr></tfoot></table>
"""


def _line(standing: Standing, settings: Sequence[str]) -> str:
    verdicts = [*(standing.instructions.get(s) for s in settings), *(standing.code.get(s) for s in settings)]
    cells = "".join(map(_cell, [*verdicts, standing.weights, standing.ram, standing.arena]))
    return f"<tr><td>{escape(standing.model)}</td>{cells}</tr>"


def _cell(verdict: Verdict | None) -> str:
    if verdict is None:
        return "<td>-</td>"
    style = "" if verdict.good is None else ' class="good"' if verdict.good else ' class="bad"'
    return f"<td{style}>{verdict}</td>"
