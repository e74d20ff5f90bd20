"""Drifted figures as a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from twinfer.bench.drift.drift import Drift, Drifts, Limits
from twinfer.bench.measure.report import number, table


def drift_tables(outcome: Drifts, limits: Limits) -> Iterator[RenderableType]:
    """A line for every drifted figure, if there are any, then what was compared."""
    if outcome.every:
        yield _table(outcome, limits)
    better = len(outcome.every) - len(outcome.worse)
    counts = f"{len(outcome.worse)} got worse, {better} better"
    text = f"{outcome.compared:,} figures compared with those saved: {counts}."
    yield Text("\n".join([text, *outcome.remarks]), style="bold red" if outcome.worse else "")


def _table(outcome: Drifts, limits: Limits) -> Table:
    title = f"Drift of more than {limits.exact:g} %"
    title += "" if limits.exact == limits.time else f", of times more than {limits.time:g} %"
    shown = table(title, "<model", "<target", "<engine", "<layer", "<figure", "before", "after", "%")
    for drift in outcome.every:
        model, target, engine, *options = drift.key
        layer = "" if drift.layer is None else f"{drift.layer.index} {drift.layer.op}"
        figures = _figure(drift, drift.before), _figure(drift, drift.after)
        percent = Text(_percent(drift), style="bold red" if drift.worse else "green")
        setting = ", ".join([engine, *options[:1]]) if options[0] and engine == "compiled" else engine
        shown.add_row(model, target, setting, layer, drift.figure.replace("_", " "), *figures, percent)
    return shown


def _figure(drift: Drift, value: float) -> str:
    return number(value) if drift.figure.endswith("_us") else f"{value:,.0f}"


def _percent(drift: Drift) -> str:
    return "new" if drift.percent is None else f"{drift.percent:+.1f}"


def kept_in(paths: list[Path]) -> str:
    """The line that says where figures were kept."""
    return f"kept in {paths[0]}" + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
