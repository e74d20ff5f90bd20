"""The order in which settings are tried. Every round depends only on the results of the rounds before.

First every precision with every method, then corrections on the best of each. Where that misses the budget, the most
sensitive layers are raised, 1, 2, 4, … of them, and the least number that meets the budget is bisected. The trials that
are left go to random neighbours of the two settings between which the budget lies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from itertools import product
from typing import Any

import numpy as np

from twinfer.converter.quantize.forms import precision_of
from twinfer.converter.search.journal import Journal
from twinfer.converter.search.space import CORRECTIONS, PRECISIONS, Setting, Space
from twinfer.converter.search.trial import Trial
from twinfer.converter.search.workers import Run
from twinfer.runtime.graph import Graph

#: Cost and loss; for both, less is better.
Point = tuple[float, float]


def front(points: Sequence[Point]) -> list[int]:
    """Positions of the points that no other point equals or beats in both, by rising cost (so by falling loss).

    Of equal points the first one counts.
    """
    best: list[int] = []
    for i in sorted(range(len(points)), key=lambda i: (*points[i], i)):
        if not best or points[i][1] < points[best[-1]][1]:
            best.append(i)
    return best


#: Neighbours in one round. The number does not depend on the workers, so that they do not change the result.
ROUND = 8

#: ``told(done, total, what)``: trials done, the most there may be, and the last one.
Told = Callable[[int, int, str], None]


class Ledger:
    """The trials so far, in the order in which they were proposed, not in which they ended.

    ``limit``: the most trials, including those of the journal.
    """

    def __init__(self, run: Run, journal: Journal, limit: int, max_loss: float, told: Told | None = None) -> None:
        self.trials: dict[Setting, Trial] = {}
        self.max_loss = max_loss
        self._run, self._journal, self._limit = run, journal, limit
        self._told = told or (lambda done, total, what: None)

    @property
    def full(self) -> bool:
        return len(self.trials) >= self._limit

    def attempt(self, settings: Sequence[Setting]) -> None:
        """Tries the new ones among the settings, as far as the limit allows."""
        new = [setting for setting in dict.fromkeys(settings) if setting not in self.trials]
        new = new[: self._limit - len(self.trials)]
        noted = ((setting, self._journal.get({"trial": setting.json()})) for setting in new)
        done = {setting: Trial(setting, **value) for setting, value in noted if _is_trial(value)}
        try:
            for setting, trial in self._run("trial", [setting for setting in new if setting not in done]):
                self._journal.add({"trial": setting.json()}, {name: getattr(trial, name) for name in _VALUES})
                done[setting] = trial
                self._told(len(self.trials) + len(done), self._limit, str(setting))
        finally:  # Ctrl-C may come in the middle of a round
            self.trials |= {setting: done[setting] for setting in new if setting in done}

    def orders(self, settings: Sequence[Setting]) -> dict[Setting, tuple[str, ...]]:
        """Setting -> its layers, the most sensitive first."""
        keys = {setting: {"order": setting.json()} for setting in settings}
        noted = {setting: self._journal.get(key) for setting, key in keys.items()}
        whole = {s for s, value in noted.items() if isinstance(value, list) and all(isinstance(v, str) for v in value)}
        missing = [setting for setting in keys if setting not in whole]
        for setting, names in self._run("order", missing):
            self._journal.add(keys[setting], names)
        return {setting: tuple(self._journal.get(key)) for setting, key in keys.items()}

    def good(self) -> list[Trial]:
        return [trial for trial in self.trials.values() if not trial.error]

    def front(self) -> list[Trial]:
        """The Pareto front, by rising cost and falling loss."""
        good = sorted(self.good(), key=lambda trial: trial.badness)  # the least noisy of equal points counts
        return [good[i] for i in front([(trial.cost, trial.loss) for trial in good])]

    def chosen(self) -> Trial | None:
        return next((trial for trial in self.front() if trial.loss <= self.max_loss), None)

    def around(self) -> list[Setting]:
        """The settings of the front between which the budget lies, the one inside it first.

        The last of the front if none is inside; none if the cheapest of all is inside.
        """
        known = self.front()
        inside = [trial.loss <= self.max_loss for trial in known]
        if not known or inside[0]:
            return []
        first = inside.index(True) if any(inside) else len(known) - 1
        return [trial.setting for trial in (known[first], *known[first - 1 : first])]


_VALUES = [field.name for field in fields(Trial) if field.name != "setting"]


def _is_trial(value: Any) -> bool:
    """Whether a journal's value has the form of a trial. One of another version or by hand is tried again."""
    if not isinstance(value, dict) or set(value) != set(_VALUES):
        return False
    texts, figures = ("sha256", "error"), ("loss", "score", "snr_db", "seconds")
    return (
        type(value["cost"]) is int
        and all(isinstance(value[name], str) for name in texts)
        and all(isinstance(value[name], float) and math.isfinite(value[name]) for name in figures)
    )


def explore(ledger: Ledger, space: Space, graph: Graph, seed: int) -> None:
    ledger.attempt(space.grid())
    _correct(ledger, space)
    _walk(ledger, space, graph)
    _refine(ledger, space, graph, np.random.default_rng(seed))


def _best(ledger: Ledger, space: Space) -> list[Trial]:
    """The trial of least loss for every precision and recipe, before layers are raised."""
    best = []
    for base, recipe in product(space.bases, ("", *space.recipes)):
        own = [t for t in ledger.good() if (t.setting.precision, t.setting.recipe) == (base, recipe)]
        best += [min(own, key=lambda t: t.badness)] if own else []
    return best


def _correct(ledger: Ledger, space: Space) -> None:
    """Tries every correction by itself, then all that reduce the loss together."""
    best = _best(ledger, space)
    ledger.attempt([trial.setting.corrected(name) for trial in best for name in CORRECTIONS])
    both = []
    for trial in best:
        tried = {name: ledger.trials.get(trial.setting.corrected(name)) for name in CORRECTIONS}
        helps = [name for name, t in tried.items() if t is not None and not t.error and t.badness < trial.badness]
        both.append(trial.setting.corrected(*helps))
    ledger.attempt(both)


def _walk(ledger: Ledger, space: Space, graph: Graph) -> None:
    """Raises the most sensitive layers of settings that miss the budget: 1, 2, 4, … of them, then bisects."""
    missed = [trial.setting for trial in _best(ledger, space) if trial.loss > ledger.max_loss]
    missed = [setting for setting in missed if space.raised(setting.precision)]
    if ledger.full or not missed:
        return
    orders = ledger.orders(missed)
    walks: list[list[Setting]] = []
    for setting in missed:
        for to in space.raised(setting.precision):
            can = raisable(graph, setting, [to])
            walk = [setting]  # with none of the layers raised, with the first one, with the first two, …
            for name in (name for name in orders[setting] if name in can):
                walk.append(walk[-1].at(name, to))
            walks.append(walk)
    rounds = list[list[Setting]]()
    for walk in walks:
        counts = {1 << i for i in range(len(walk).bit_length())} | {len(walk) - 1}
        rounds.append([walk[i] for i in sorted(counts) if 0 < i < len(walk)])
    while any(rounds) and not ledger.full:
        ledger.attempt([setting for some in rounds for setting in some])
        rounds = [_middle(ledger, walk) for walk in walks]


def _middle(ledger: Ledger, walk: Sequence[Setting]) -> list[Setting]:
    """The step halfway between the first that is known to meet the budget and the last before it that misses it."""
    known = {i: ledger.trials[setting] for i, setting in enumerate(walk) if setting in ledger.trials}
    meets = [i for i, trial in known.items() if not trial.error and trial.loss <= ledger.max_loss]
    if not meets:
        return []
    low = max(i for i in known if i < min(meets))
    return [walk[(low + min(meets)) // 2]] if min(meets) - low > 1 else []


def raisable(graph: Graph, setting: Setting, to: Sequence[str]) -> dict[str, None]:
    """Names of the layers that one of those precisions would make finer than the setting does, in their order."""
    recipe, rank = setting.as_recipe(), PRECISIONS.index
    names: dict[str, None] = {}
    for node in graph.nodes:
        choice = recipe.of_node(node)
        now = rank(precision_of(node, choice).precision)
        if any(rank(precision_of(node, replace(choice, precision=p)).precision) > now for p in to):
            names[node.output.name] = None
    return names


def _refine(ledger: Ledger, space: Space, graph: Graph, rng: np.random.Generator) -> None:
    """Random neighbours of the settings around the budget, one round at a time."""
    while not ledger.full and (around := ledger.around()):
        new: dict[Setting, None] = {}
        for setting in around:
            plain = replace(setting, layers=())
            layers = list(raisable(graph, plain, space.raised(setting.precision)))
            new |= dict.fromkeys(s for s in space.neighbours(setting, layers) if s not in ledger.trials)
        if not new:
            return
        picked = rng.choice(len(new), min(ROUND, len(new)), replace=False)
        ledger.attempt([list(new)[i] for i in picked])
