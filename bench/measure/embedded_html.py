"""The comparison with TFLM as one HTML file that needs no other: a picture and a table per core."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twinfer.bench.measure.compare import Row
from twinfer.bench.measure.limits import INSTRUCTIONS, Standing, Verdict, mean, settings_of, standings, ways_of
from twinfer.bench.measure.page import COLOURS, page, svg
from twinfer.runtime.printable import in_html

_INTRODUCTION = """<p>Instructions of one inference under QEMU against TFLM + CMSIS-NN at -O3; bytes of code, params and
tables against TFLM's smallest build (-Os, int8 registrations); weights against weights + bias + 5 B per channel; RAM
without stack against the least that any placement needs, and against TFLM's arena. Green: within the limit that the
project set itself.</p>
"""

#: The picture of a core in pixels: where its bars begin, length of the longest one, a bar's height, room for a figure.
_LEFT, _LONG, _BAR, _FIGURE = 104, 176, 18, 40

#: Pixels above the bars, for the core's name and mean, and below them, for the label of ratio 1.
_ABOVE, _BELOW = 44, 22


def embedded_html(rows: Sequence[Row]) -> str:
    """The page of ``twinfer bench``'s figures on microcontrollers. It leaves out models that TFLM did not run."""
    every = standings(rows)
    cores = [[s for s in every if s.target == target] for target in dict.fromkeys(s.target for s in every)]
    parts = [*pictures(cores), *map(_table, cores)] or ["<p>There are no figures of TFLM for these models.</p>"]
    return page("twinfer beside TFLM on Cortex-M", [_INTRODUCTION, *parts])


def pictures(cores: Sequence[Sequence[Standing]]) -> list[str]:
    """The instructions on every core as bars, all to one scale. As many pictures stand side by side as the window has
    room for."""
    ratios = [v.value for own in cores for s in own if (v := s.instructions.get(shown(own)))]
    return [_picture(own, _LONG / max([*ratios, 1.0])) for own in cores]


def _picture(own: Sequence[Standing], one: float) -> str:
    """One bar per model; ``one`` pixels are TFLM + CMSIS-NN. A line across the bars is their geometric mean."""
    setting, end = shown(own), _ABOVE + len(own) * _BAR
    shapes = [f'<text x="0" y="14" font-weight="bold">{in_html(own[0].target)}</text>']
    rows = [(standing, setting, _ABOVE + i * _BAR, one) for i, standing in enumerate(own)]
    for row in rows:
        shapes += _bar(*row)
    shapes.append(_upright(_LEFT + one, end + 4, 'stroke="#222" stroke-dasharray="6 4"'))
    shapes.append(f'<text x="{_LEFT + one:.1f}" y="{end + 18}" text-anchor="end">1: TFLM + CMSIS-NN</text>')
    if average := mean(own, setting):
        limit = INSTRUCTIONS.get(own[0].target)
        asked = f" (≤ {limit[0]:.2f})" if limit and setting == "speed" else ""
        shapes.append(_upright(_LEFT + average[0].value * one, end, 'stroke="#c00000" stroke-width="2"'))
        shapes.append(f'<text x="{_LEFT}" y="{_ABOVE - 12}" style="fill: #c00000">mean {average[0]}{asked}</text>')
    for row in rows:  # last, so that no line goes through a figure
        shapes += _ratio(*row)
    return svg(_LEFT + _LONG + _FIGURE, end + _BELOW, shapes)


def _upright(x: float, end: int, style: str) -> str:
    return f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_ABOVE - 4}" y2="{end}" {style}/>'


def _bar(standing: Standing, setting: str, y: int, one: float) -> Iterator[str]:
    """A model's name and its bar; no bar if this setting was not measured."""
    model, verdict = in_html(standing.model), standing.instructions.get(setting)
    yield f'<text x="{_LEFT - 8}" y="{y + 13}" text-anchor="end">{model}</text>'
    if verdict is None:
        return
    long = verdict.value * one
    title = f"<title>{model} on {in_html(standing.target)}, {setting}: {verdict}</title>"
    place = f'x="{_LEFT}" y="{y}" width="{long:.1f}" height="{_BAR - 4}"'
    yield f'<rect {place} fill="{COLOURS[0]}">{title}</rect>'


def _ratio(standing: Standing, setting: str, y: int, one: float) -> Iterator[str]:
    """The figure behind a bar, on white."""
    if verdict := standing.instructions.get(setting):
        halo = 'style="paint-order: stroke; stroke: #fff; stroke-width: 4px"'
        yield f'<text x="{_LEFT + verdict.value * one + 4:.1f}" y="{y + 13}" {halo}>{verdict}</text>'


def shown(own: Sequence[Standing]) -> str:
    """The setting in the picture: the fastest one measured."""
    settings = settings_of(own)
    return next((setting for setting in ("speed", "balanced", "size") if setting in settings), "")


def _table(own: Sequence[Standing]) -> str:
    settings = settings_of(own)
    heads = [*(f"instr.<br>{s}" for s in settings), *(f"code<br>{s}" for s in settings)]
    ways = ways_of(own)
    heads += ["weights<br>/ floor", "RAM<br>/ bound", *(f"/ arena<br>{way}" for way in ways)]
    body = "".join(_line(standing, settings, ways) for standing in own)
    means = [mean(own, setting) for setting in settings]
    count = next((m[1] for m in means if m), 0)
    foot = "".join(_cell(m and m[0]) for m in means)
    return f"""<table><caption>{in_html(own[0].target)}</caption>
<thead><tr><th></th>{"".join(f"<th>{head}</th>" for head in heads)}</tr></thead><tbody>{body}</tbody>
<tfoot><tr><td>geometric mean of {count}</td>{foot}</tr></tfoot></table>
"""


def _line(standing: Standing, settings: Sequence[str], ways: Sequence[str]) -> str:
    verdicts = [*(standing.instructions.get(s) for s in settings), *(standing.code.get(s) for s in settings)]
    verdicts += [standing.weights, standing.ram, *(standing.arena.get(way) for way in ways)]
    cells = "".join(map(_cell, verdicts))
    return f"<tr><td>{in_html(standing.model)}</td>{cells}</tr>"


def _cell(verdict: Verdict | None) -> str:
    if verdict is None:
        return "<td>-</td>"
    style = "" if verdict.good is None else ' class="good"' if verdict.good else ' class="bad"'
    return f"<td{style}>{verdict}</td>"
