"""What ``twinfer fit`` shows and writes as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from twinfer.bench.fit.fit import Fitted, Way
from twinfer.bench.measure.report import table

_ABOUT = (
    "ms, flash and RAM are estimated; flash is constants and code, RAM arena, state and stack. twinfer bench --target "
    "counts instructions under QEMU."
)


def tables(found: Fitted) -> Iterator[RenderableType]:
    """All ways that are good enough, the cheapest first; the one taken, or what is short and what would help."""
    judge = found.chosen.job.judge.metric
    scored = found.chosen.goal.max_loss is not None
    heads = ("<precisions", *(["right" if judge == "answers" else "error"] if scored else []), "SNR dB")
    title = f"{found.name} on {found.board.name}: {found.chosen.goal} is good enough"
    rows = table(title, "<", *heads, "≈ ms", "flash B", "RAM B", "<with", gap=2)
    for way in found.ways:
        mark, style = ("→", "bold green") if found.fits and way == found.best else ("", "")
        score = [f"{way.trial.score:.4f}"] if scored else []
        ms, need = way.match.estimate.ms, way.match.need
        figures = ("-" if ms is None else f"{ms:,.1f}", f"{need.flash:,}", f"{need.ram:,}")
        last = Text(way.match.words if way.fits else way.short, "" if way.fits else "red")
        rows.add_row(mark, str(way.trial.setting), *score, f"{way.trial.snr_db:.1f}", *figures, last, style=style)
    yield rows
    yield Text(_ABOUT)
    for change in found.changes:
        yield Text(f"{'It would fit with' if change.enough else 'To fit,'} {change.words}.")


def described(found: Fitted) -> dict[str, Any]:
    return {
        "schema": 1,
        "model": found.name,
        "board": found.board.name,
        "goal": {"max_loss": found.chosen.goal.max_loss, "min_snr": found.chosen.goal.min_snr},
        "fits": found.fits,
        "best": found.ways.index(found.best),
        "ways": [_way(way) for way in found.ways],
        "changes": [{"words": change.words, "enough": change.enough} for change in found.changes],
    }


def _way(way: Way) -> dict[str, Any]:
    trial, match = way.trial, way.match
    need = {"ram": match.need.ram, "flash": match.need.flash, "ms": match.estimate.ms}
    short = {"ram": match.fit.ram_short, "flash": match.fit.flash_short, "ms": way.slow}
    judged = {"loss": trial.loss, "score": trial.score, "snr_db": trial.snr_db}
    return {"setting": trial.setting.json(), "options": match.words, **need, **judged, "short": short}
