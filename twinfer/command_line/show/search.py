"""What ``twinfer search`` shows and writes as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from twinfer.bench.measure.report import table
from twinfer.converter.search.auto import SCORES
from twinfer.converter.search.find import Found
from twinfer.converter.search.trial import Trial

#: What a loss is, by metric.
LOSSES = {
    "answers": "share of right answers less than the float model's",
    "error": "relative squared error beyond the float model's",
}


def unmet(outcome: Found) -> str:
    """Why nothing was chosen."""
    count, least = len(outcome.trials), outcome.least
    if least is None:
        return f"all {count} trials failed; the first one: {outcome.trials[0].error}"
    best = f"the least loss found is {least.loss:.5f} ({least.setting})"
    return f"none of {count} trials loses at most {outcome.max_loss:g}: {best}; allow more, or more --trials"


def is_float(outcome: Found) -> bool:
    """Whether the float model itself was chosen."""
    return outcome.chosen is not None and outcome.chosen.setting.precision == "float"


def document(outcome: Found) -> dict[str, Any]:
    """The outcome for JSON; ``rule`` of a setting is that of a recipe file."""
    front = {trial.setting for trial in outcome.front}
    chosen = next((i for i, trial in enumerate(outcome.trials) if trial == outcome.chosen), None)
    return {
        "schema": 1,
        "max_loss": outcome.max_loss,
        **{key: value for key, value in outcome.search.items() if key != "search"},
        "float": {"cost": outcome.float_cost, "score": outcome.job.judge.float_score},
        "chosen": "float" if is_float(outcome) else chosen,
        "trials": [{**_row(trial), "front": trial.setting in front} for trial in outcome.trials],
    }


def _row(trial: Trial) -> dict[str, Any]:
    """A trial for JSON; a failed one has its error in place of figures."""
    about = {"setting": trial.setting.json(), "seconds": trial.seconds}
    if trial.error:
        return {**about, "error": trial.error}
    keys = ("cost", "loss", "score", "snr_db", "instructions", "flash", "ram", "sha256")
    return {**about, **{key: getattr(trial, key) for key in keys}}


def tables(outcome: Found, every: bool = False) -> Iterator[RenderableType]:
    """The Pareto front, or ``every`` trial in the order tried, the chosen one marked; then why trials failed."""
    yield _table(outcome, [t for t in outcome.trials if not t.error] if every else outcome.front)
    search = outcome.search
    by = f"{search['calibrated']:,} samples calibrated on, {search['judged']:,} others judged; seed {search['seed']}"
    yield Text(f"{by}. Loss: {LOSSES[search['metric']]}.")
    if is_float(outcome):
        inside = [trial.cost for trial in outcome.front if trial.loss <= outcome.max_loss]
        rest = f"the cheapest quantised one that is inside the budget {min(inside):,}" if inside else "all others more"
        yield Text(f"The float model is chosen: it costs {outcome.float_cost:,}, {rest}.")
    yield from (Text(f"failed: {t.setting}: {t.error}", style="yellow") for t in outcome.trials if t.error)


def _table(outcome: Found, trials: Sequence[Trial]) -> Table:
    metric, cost = outcome.search["metric"], outcome.search["cost"]
    kind = "Trials" if len(trials) > len(outcome.front) else "Pareto front"
    title = f"{kind} of {len(outcome.trials)}, a loss of at most {outcome.max_loss:g} allowed"
    unit = cost if cost in ("instructions", "balanced") else f"{cost} B"
    heads = (unit, "of float", "loss", SCORES[metric], "SNR dB", "≈ instr.", "≈ flash B", "RAM B")
    lines = table(title, "<", *heads, "<setting", gap=1)
    float_cost = outcome.float_cost
    score = f"{outcome.job.judge.float_score:.4f}"
    own = ("→", "bold green") if is_float(outcome) else ("", "")
    lines.add_row(
        own[0], f"{float_cost:,}", "100.0 %", "", score, "", *_on_target(outcome.job.floats), "float", style=own[1]
    )
    for trial in trials:
        chosen = trial == outcome.chosen
        share = f"{100 * trial.cost / float_cost:.1f} %"
        figures = (f"{trial.cost:,}", share, f"{trial.loss:.5f}", f"{trial.score:.4f}", f"{trial.snr_db:.1f}")
        target = _on_target((trial.instructions, trial.flash, trial.ram))
        style = "bold green" if chosen else ""
        lines.add_row("→" if chosen else "", *figures, *target, Text(str(trial.setting)), style=style)
    return lines


def _on_target(figures: Sequence[float]) -> tuple[str, ...]:
    return tuple(f"{figure:,.0f}" for figure in figures)
