"""A search as one HTML file: loss over cost with the Pareto front, and the trials on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from twinfer.bench.measure.page import COLOURS, page, wide
from twinfer.converter.search.find import Found
from twinfer.converter.search.trial import Trial
from twinfer.runtime.printable import in_html

#: The picture in pixels: the plot, and what its axes take.
_WIDTH, _HEIGHT, _LEFT, _BELOW, _ABOVE = 720, 360, 80, 50, 32

#: The picture reaches up to this many times the budget; trials that lose more lie on its upper edge.
_TOP = 4

_KINDS = {"int4": COLOURS[1], "int8": COLOURS[0], "int16x8": COLOURS[2]}


def search_html(outcome: Found, name: str) -> str:
    """The page of a search about the model ``name``."""
    search, good = outcome.search, [trial for trial in outcome.trials if not trial.error]
    about = f"{len(outcome.trials)} trials ({len(outcome.trials) - len(good)} failed), seed {search['seed']}; "
    about += f"{search['calibrated']:,} samples calibrated on, {search['judged']:,} others judged. "
    about += f"Float model: {search['cost']} {outcome.float_cost:,}, score {outcome.job.judge.float_score:.4f}. "
    about += "Losses beyond the picture lie on its upper edge."
    parts = [f"<p>{in_html(about)}</p>\n", *([_picture(outcome, good)] if good else []), _table(outcome)]
    return page(f"{name}: cheapest quantisation that loses at most {outcome.max_loss:g}", parts)


def _picture(outcome: Found, good: Sequence[Trial]) -> str:
    x, y = _scales(outcome, good)
    budget = y(outcome.max_loss)
    shapes = [*_axes(outcome, good, x, y)]
    line = f'x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{budget:.1f}" y2="{budget:.1f}"'
    shapes.append(f'<line {line} stroke="#c00000" stroke-dasharray="6 4"/>')
    shapes.append(f'<text x="{_LEFT + 4}" y="{budget - 4:.1f}" style="fill: #c00000">budget</text>')
    steps = [(x(t.cost), y(t.loss)) for t in outcome.front]
    corners = [p for (a, b), (c, d) in zip(steps, [*steps[1:], steps[-1]], strict=True) for p in ((a, b), (c, b))]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in corners)
    shapes.append(f'<polyline points="{path}" fill="none" stroke="#222"/>')
    shapes += [_point(outcome, trial, x(trial.cost), y(trial.loss)) for trial in good]
    legend = "".join(f'<tspan fill="{colour}" dx="14">● {kind}</tspan>' for kind, colour in _KINDS.items())
    shapes.append(f'<text x="{_LEFT}" y="{_ABOVE + _HEIGHT + 44}">{legend}</text>')
    return wide(_LEFT + _WIDTH + 20, _ABOVE + _HEIGHT + _BELOW, shapes)


Scale = Callable[[float], float]


def _scales(outcome: Found, good: Sequence[Trial]) -> tuple[Scale, Scale]:
    """The functions from costs and from losses to pixels; losses beyond the top are drawn there."""
    costs = [trial.cost for trial in good]
    low, wide = min(costs), max(max(costs) - min(costs), 1)
    base, top = _ends(outcome, good)
    x: Scale = lambda cost: _LEFT + 12 + (cost - low) / wide * (_WIDTH - 24)  # noqa: E731
    y: Scale = lambda loss: _ABOVE + (1 - (min(loss, top) - base) / (top - base)) * _HEIGHT  # noqa: E731
    return x, y


def _ends(outcome: Found, good: Sequence[Trial]) -> tuple[float, float]:
    """The least and the greatest loss in the picture."""
    losses = [trial.loss for trial in good]
    base = min(0.0, *losses)
    most = max(*losses, outcome.max_loss)
    top = min(most, max(_TOP * outcome.max_loss, outcome.front[0].loss)) if outcome.max_loss else most
    return base, top if top > base else base + 1e-6


def _axes(outcome: Found, good: Sequence[Trial], x: Scale, y: Scale) -> Iterator[str]:
    costs = [trial.cost for trial in good]
    base, top = _ends(outcome, good)
    for i in range(5):
        loss = base + (top - base) * i / 4
        yield f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y(loss):.1f}" y2="{y(loss):.1f}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 8}" y="{y(loss) + 5:.1f}" text-anchor="end">{loss:.4g}</text>'
    for cost in sorted({min(costs), (min(costs) + max(costs)) // 2, max(costs)}):
        yield f'<text x="{x(cost):.1f}" y="{_ABOVE + _HEIGHT + 20}" text-anchor="middle">{cost:,}</text>'
    label = outcome.search["cost"]
    yield f'<text x="{_LEFT + _WIDTH}" y="{_ABOVE + _HEIGHT + 44}" text-anchor="end">{in_html(label)}</text>'
    yield f'<text x="0" y="{_ABOVE - 16}">loss</text>'


def _point(outcome: Found, trial: Trial, x: float, y: float) -> str:
    """A trial as a circle: the chosen one is large, those of the front are filled."""
    colour = _KINDS[trial.setting.precision]
    fill = colour if trial in outcome.front else "none"
    size = 9 if trial == outcome.chosen else 4
    title = f"<title>{in_html(f'{trial.setting}: cost {trial.cost:,}, loss {trial.loss:.5f}')}</title>"
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" fill="{fill}" stroke="{colour}">{title}</circle>'


def _table(outcome: Found) -> str:
    heads = ("setting", outcome.search["cost"], "loss", "score", "SNR dB")
    rows = "".join(_line(outcome, trial) for trial in outcome.front)
    head = "".join(f"<th>{in_html(h)}</th>" for h in heads)
    return f"<table><caption>Pareto front</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>\n"


def _line(outcome: Found, trial: Trial) -> str:
    figures = (f"{trial.cost:,}", f"{trial.loss:.5f}", f"{trial.score:.4f}", f"{trial.snr_db:.1f}")
    style = ' class="good"' if trial == outcome.chosen else ""
    cells = "".join(f"<td{style}>{figure}</td>" for figure in figures)
    return f"<tr><td{style}>{in_html(str(trial.setting))}</td>{cells}</tr>\n"
