"""Which figures drifted from those that were saved, and where: model, target, engine, layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from twinfer.bench.drift.runs import KEY, TIME, Key, Layer, Part, Run
from twinfer.bench.drift.saved import Saved, same_machine
from twinfer.bench.measure.report import number, table

#: How far figures may drift by default, in per cent. Counts and bytes are exact; a little is left for a change that
#: moves code about. Times are not, even the shortest of many.
EXACT_PERCENT, TIME_PERCENT = 1.0, 25.0


@dataclass(frozen=True)
class Drift:
    """A figure that changed by more than it may; ``layer`` is None for a whole run."""

    key: Key
    layer: Layer | None
    figure: str
    before: float
    after: float

    @property
    def percent(self) -> float | None:
        """The change in per cent of the figure before; None if that was 0."""
        return 100 * (self.after - self.before) / self.before if self.before else None

    @property
    def worse(self) -> bool:
        """All figures are costs: more is worse."""
        return self.after > self.before

    @property
    def document(self) -> dict[str, Any]:
        """The entry in the JSON document. Options are left out where the target has none."""
        layer = self.layer and {"index": self.layer.index, "op": self.layer.op, "output": self.layer.output}
        return {
            **{name: value for name, value in zip(KEY, self.key, strict=True) if value},
            "layer": layer,
            "figure": self.figure,
            "before": self.before,
            "after": self.after,
            "percent": self.percent,
            "worse": self.worse,
        }


@dataclass
class Drifts:
    """What came of a comparison: every drifted figure, how many were ``compared``, and ``remarks`` on what was not."""

    every: list[Drift] = field(default_factory=list)
    compared: int = 0
    remarks: list[str] = field(default_factory=list)

    @property
    def worse(self) -> list[Drift]:
        return [drift for drift in self.every if drift.worse]

    @property
    def document(self) -> dict[str, Any]:
        """What it adds to the JSON document."""
        return {"drift": [drift.document for drift in self.every], "compared": self.compared, "remarks": self.remarks}


@dataclass(frozen=True)
class Limits:
    """How far figures may drift, in per cent of what they were."""

    exact: float = EXACT_PERCENT
    time: float = TIME_PERCENT

    def drifted(self, figure: str, before: float, after: float, noise_us: float) -> bool:
        """Whether a figure changed by more than it may; a time also by more than its noise."""
        change = abs(after - before)
        if figure == TIME:
            return change > noise_us and change > self.time / 100 * before
        return change > self.exact / 100 * before


def drifts(now: Sequence[Run], machine: Mapping[str, Any], saved: Sequence[Saved], limits: Limits) -> Drifts:
    """Every run of ``now``, measured on ``machine``, beside the saved one of the same key."""
    before = {run.key: (run, each) for each in saved for run in each.runs}
    outcome = Drifts(remarks=_compilers(now, machine, saved))
    for run in now:
        old, source = before.get(run.key, (None, None))
        if old is None or source is None:
            outcome.remarks.append(f"{run}: left out, nothing was saved of it")
        elif run.target == "host" and not same_machine(machine, source.machine):
            cpu = source.machine.get("cpu", "?")
            outcome.remarks.append(f"{run}: left out, it was measured on another machine ({cpu})")
        else:
            _compare(outcome, run, old, limits)
    return outcome


def _compilers(now: Sequence[Run], machine: Mapping[str, Any], saved: Sequence[Saved]) -> list[str]:
    """A line for every compiler that is another one now, if figures that are compared come from it."""
    host, boards = (any((run.target == "host") is there for run in now) for there in (True, False))
    pairs = [
        (each.machine.get(name), machine[name])
        for each in saved
        for name in machine
        if (host and name == "compiler" and same_machine(machine, each.machine))
        or (boards and name.endswith("_compiler"))
    ]
    about = "the compiler is another one, which changes figures, too"
    return list(dict.fromkeys(f"{about}: {then}, now {today}" for then, today in pairs if then != today))


def _compare(outcome: Drifts, run: Run, old: Run, limits: Limits) -> None:
    _add(outcome, run.key, run.whole, old.whole, limits)
    if run.layers is None:
        return
    if old.layers is None:
        outcome.remarks.append(f"{run}: its layers are left out, it was saved without --layers")
        return
    for name, part in run.layers.items():
        if name in old.layers:
            _add(outcome, run.key, part, old.layers[name], limits)
    if other := len(run.layers.keys() ^ old.layers.keys()):
        outcome.remarks.append(f"{run}: left out of its layers, only there now or only before: {other}")


def _add(outcome: Drifts, key: Key, part: Part, old: Part, limits: Limits) -> None:
    noise = max(part.noise_us, old.noise_us)
    for figure, after in part.figures.items():
        before = old.figures[figure]
        outcome.compared += 1
        if limits.drifted(figure, before, after, noise):
            outcome.every.append(Drift(key, part.layer, figure, before, after))


# -- tables ------------------------------------------------------------------------------------------------------------


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
        change = "new" if drift.percent is None else f"{drift.percent:+.1f}"
        percent = Text(change, style="bold red" if drift.worse else "green")
        setting = ", ".join([engine, *options[:1]]) if options[0] and engine == "compiled" else engine
        shown.add_row(model, target, setting, layer, drift.figure.replace("_", " "), *figures, percent)
    return shown


def _figure(drift: Drift, value: float) -> str:
    return number(value) if drift.figure.endswith("_us") else f"{value:,.0f}"
