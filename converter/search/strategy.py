"""The order in which settings are tried. Every round depends only on the results of the rounds before.

First every precision with every method, then corrections on the best of each. Where the cheapest precision misses the
goal, mixes of precisions from the cheapest to the least noisy are bisected for the first that meets it. The trials that
are left go to random neighbours of the two settings between which the goal lies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import reduce
from itertools import product
from typing import Any

import numpy as np

from twinfer.converter.quantize.forms import precision_of
from twinfer.converter.quantize.recipe import Recipe
from twinfer.converter.search.journal import Journal
from twinfer.converter.search.loss import Goal
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

#: Mixes before the first that meets the goal, and behind it, that are measured, too.
BEFORE, BEHIND = 3, 2

#: The most mixes between these two that are measured where their costs differ by more than this share.
THINNED, GAP = 6, 0.02

#: ``told(done, total, what)``: trials done, the most there may be, and the last one.
Told = Callable[[int, int, str], None]


class Ledger:
    """The trials so far, in the order in which they were proposed, not in which they ended.

    ``limit``: the most trials, including those of the journal.
    """

    def __init__(self, run: Run, journal: Journal, limit: int, goal: Goal, told: Told | None = None) -> None:
        self.trials: dict[Setting, Trial] = {}
        self.goal = goal
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

    def mixes(self, setting: Setting) -> list[Setting]:
        """The setting with mixes of precisions, from the cheapest to the least noisy (``mix.mixes``)."""
        key = {"mixes": setting.json()}
        if not _are_mixes(self._journal.get(key)):
            for _, mixed in self._run("mixes", [setting]):
                self._journal.add(key, mixed)
        settings = []
        for mix in self._journal.get(key):
            alike = {precision for _, precision in mix}
            whole = alike.pop() if len(alike) == 1 and "float" not in alike else None
            plain = replace(setting, precision=whole or setting.precision, layers=())
            settings.append(plain if whole else reduce(lambda s, layer: s.at(*layer), mix, plain))
        return settings

    def good(self) -> list[Trial]:
        return [trial for trial in self.trials.values() if not trial.error]

    def badness(self, trial: Trial) -> tuple[float, float]:
        """The key to compare trials by: the goal's, then the noise."""
        return self.goal.badness(trial.loss, trial.sure_db), -trial.snr_db

    def met(self, trial: Trial) -> bool:
        return not trial.error and self.goal.met(trial.loss, trial.sure_db)

    def front(self) -> list[Trial]:
        """The Pareto front, by rising cost and falling badness."""
        good = sorted(self.good(), key=self.badness)  # the least noisy of equal points counts
        return [good[i] for i in front([(trial.cost, self.badness(trial)[0]) for trial in good])]

    def chosen(self) -> Trial | None:
        return next(filter(self.met, self.front()), None)

    def around(self) -> list[Setting]:
        """The settings of the front between which the goal lies, the one that meets it first.

        The last of the front if none does; none if the cheapest of all does.
        """
        known = self.front()
        inside = list(map(self.met, known))
        if not known or inside[0]:
            return []
        first = inside.index(True) if any(inside) else len(known) - 1
        return [trial.setting for trial in (known[first], *known[first - 1 : first])]


_VALUES = [field.name for field in fields(Trial) if field.name != "setting"]


def _is_trial(value: Any) -> bool:
    """Whether a journal's value has the form of a trial. One of another version or by hand is tried again."""
    if not isinstance(value, dict) or set(value) != set(_VALUES):
        return False
    texts, figures = ("sha256", "error"), ("loss", "score", "snr_db", "sure_db", "seconds")
    return (
        all(type(value[name]) is int for name in ("cost", "instructions", "flash", "ram"))
        and all(isinstance(value[name], str) for name in texts)
        and all(isinstance(value[name], float) and math.isfinite(value[name]) for name in figures)
    )


def _are_mixes(value: Any) -> bool:
    """Whether a journal's value has the form of mixes."""
    layers = [layer for mix in value if isinstance(mix, list) for layer in mix] if isinstance(value, list) else [None]
    return bool(value) and all(isinstance(n, list) and len(n) == 2 and n[1] in PRECISIONS for n in layers)


def explore(ledger: Ledger, space: Space, graph: Graph, seed: int) -> None:
    ledger.attempt(space.grid())
    correct(ledger, space)
    mix(ledger, space, [node.output.name for node in graph.nodes])
    _refine(ledger, space, graph, np.random.default_rng(seed))


def _best(ledger: Ledger, space: Space) -> list[Trial]:
    """The best trial for every recipe and precision, from the cheapest precision on, before precisions are mixed."""
    best = []
    for base, recipe in product(space.bases, ("", *space.recipes)):
        own = [t for t in ledger.good() if (t.setting.precision, t.setting.recipe) == (base, recipe)]
        best += [min(own, key=ledger.badness)] if own else []
    return best


def correct(ledger: Ledger, space: Space) -> None:
    """Tries every correction by itself, then all that make the model better together."""
    best = _best(ledger, space)
    ledger.attempt([trial.setting.corrected(name) for trial in best for name in CORRECTIONS])
    both = []
    for trial in best:
        tried = {name: ledger.trials.get(trial.setting.corrected(name)) for name in CORRECTIONS}
        helps = [n for n, t in tried.items() if t and not t.error and ledger.badness(t) < ledger.badness(trial)]
        both.append(trial.setting.corrected(*helps))
    ledger.attempt(both)


def mix(ledger: Ledger, space: Space, order: Sequence[str]) -> None:
    """Where the cheapest precision misses the goal: bisects the mixes for the cheapest that meets it. ``order``: names
    of layers as they run."""
    best = {trial.setting.recipe: trial for trial in reversed(_best(ledger, space))}
    for recipe, rules in {"": (), **space.recipes}.items():
        trial = best.get(recipe)
        if len(space.precisions) < 2 or ledger.full or (trial is not None and ledger.met(trial)):
            continue
        plain = Setting(space.bases[0], space.methods[0], recipe=recipe, rules=rules)
        mixed = ledger.mixes(plain if trial is None else trial.setting)
        low, high = 0, len(mixed)  # those before low miss the goal, those from high on meet it
        while low < high and not ledger.full:
            middle = (low + high) // 2
            ledger.attempt([mixed[middle]])
            low, high = (low, middle) if ledger.met(ledger.trials[mixed[middle]]) else (middle + 1, high)
        missed = Trial(plain, error="not tried")
        ledger.attempt(mixed[max(0, low - BEFORE) : low + BEHIND + 1])  # costs and noises are not quite as estimated
        found, below = (ledger.trials.get(mixed[i], missed) for i in (min(low, len(mixed) - 1), low - 1))
        if 0 < low < len(mixed) and ledger.met(found) and found.cost > (1 + GAP) * below.cost:
            _thin(ledger, mixed[low], mixed[low - 1], order)


def _thin(ledger: Ledger, good: Setting, cheap: Setting, order: Sequence[str]) -> None:
    """Between a mix that meets the goal and a cheaper one that misses it: gives halves, quarters … of the layers in
    which they differ, as they run, the cheap precision, and keeps what still meets the goal."""
    differ = [name for name in order if good.of(name) != cheap.of(name)]
    left, size = THINNED, len(differ)
    while size > 1 and left:
        size = -(-size // 2)
        for low in range(0, len(differ), size):
            block = [name for name in differ[low : low + size] if good.of(name) != cheap.of(name)]
            tried = reduce(lambda setting, name: setting.at(name, cheap.of(name)), block, good)
            if left and block:
                ledger.attempt([tried])
                left, found = left - 1, ledger.trials.get(tried)
                good = tried if found and ledger.met(found) and found.cost < ledger.trials[good].cost else good


def polish(ledger: Ledger, space: Space) -> None:
    """Tries what costs nothing in use on the setting that misses the goal most closely: methods and corrections."""
    for missed in ledger.around()[1:]:
        ledger.attempt([missed.corrected(name) for name in CORRECTIONS])
        ledger.attempt([replace(missed, method=name) for name in space.methods])


def choices(graph: Graph, setting: Setting, precisions: Sequence[str]) -> list[str]:
    """Names of the layers to which one of these precisions gives another than they have, in their order, but for those
    whose precision a rule sets."""
    recipe, names, rules = setting.as_recipe(), dict[str, None](), Recipe(setting.rules)
    for node in graph.nodes:
        choice = recipe.of_node(node)
        if rules.sets_precision(node):
            continue
        now = precision_of(node, choice).precision
        if any(precision_of(node, replace(choice, precision=p)).precision != now for p in precisions):
            names[node.output.name] = None
    return list(names)


def _refine(ledger: Ledger, space: Space, graph: Graph, rng: np.random.Generator) -> None:
    """Random neighbours of the settings around the goal, one round at a time."""
    while not ledger.full and (around := ledger.around()):
        new: dict[Setting, None] = {}
        for setting in around:
            layers = choices(graph, replace(setting, layers=()), space.precisions)
            new |= dict.fromkeys(s for s in space.neighbours(setting, layers) if s not in ledger.trials)
        if not new:
            return
        picked = rng.choice(len(new), min(ROUND, len(new)), replace=False)
        ledger.attempt([list(new)[i] for i in picked])
