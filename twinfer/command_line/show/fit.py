"""What ``twinfer fit`` shows and writes as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from twinfer.bench.fit.fit import Fitted, Way
from twinfer.bench.measure.report import table

_ABOUT = (
    "ms, flash and RAM are estimated; flash is constants and code, RAM arena, state, stack and data of libraries. "
    "twinfer bench --target counts instructions under QEMU."
)


def tables(found: Fitted) -> Iterator[RenderableType]:
    """All ways that are good enough, the cheapest first; the one taken, or what is short; and what would help."""
    title = f"{found.name} on {found.board.name}: {found.chosen.goal} is good enough"
    rows = table(title, "<", *heads(found), gap=2)
    for way in found.ways:
        mark, style = ("→", "bold green") if found.fits and way == found.best else ("", "")
        last = Text(", ".join(filter(None, [way.options, way.short])), "" if way.fits else "red")
        rows.add_row(mark, str(way.trial.setting), *(text for text, _ in figures(found, way)), last, style=style)
    yield rows
    yield Text(_ABOUT)
    for words in found.advice:
        yield Text(words)


def heads(found: Fitted) -> tuple[str, ...]:
    judge = found.chosen.job.judge.metric
    scored = found.chosen.goal.max_loss is not None
    score = ["right" if judge == "answers" else "error"] if scored else []
    return "<precisions", *score, "SNR dB", "≈ ms", "flash B", "RAM B", "<with"


def figures(found: Fitted, way: Way) -> Iterator[tuple[str, float | None]]:
    """A way's columns between the first and the last: the text, and what it sorts by."""
    trial, need, ms = way.trial, way.match.need, way.match.estimate.ms
    if found.chosen.goal.max_loss is not None:
        yield f"{trial.score:.4f}", trial.score
    yield f"{trial.snr_db:.1f}", trial.snr_db
    yield ("-", None) if ms is None else (f"{ms:,.1f}", ms)
    yield f"{need.flash:,}", need.flash
    yield f"{need.ram:,}", need.ram


def described(found: Fitted) -> dict[str, Any]:
    return {
        "schema": 1,
        "model": found.name,
        "board": found.board.name,
        "goal": {"max_loss": found.chosen.goal.max_loss, "min_snr": found.chosen.goal.min_snr},
        "fits": found.fits,
        "best": found.ways.index(found.best),
        "ways": [_way(way) for way in found.ways],
        "advice": list(found.advice),
    }


def _way(way: Way) -> dict[str, Any]:
    trial, match = way.trial, way.match
    need = {"ram": match.need.ram, "flash": match.need.flash, "ms": match.estimate.ms}
    short = {"ram": match.fit.ram_short, "flash": match.fit.flash_short, "ms": way.slow if isfinite(way.slow) else None}
    judged = {"loss": trial.loss, "score": trial.score, "snr_db": trial.snr_db}
    s = way.streaming
    stream = None if s is None else {"axis": s.axis, "rows": s.rows, "new_rows": s.hop}
    about = {"setting": trial.setting.json(), "options": match.words, "stream": stream}
    return {**about, **need, "instructions": match.estimate.instructions, **judged, "short": short}
