"""Which bin every unit goes into, so that all fit and the sum of their costs is least.

A generalised assignment problem (Martello and Toth, Knapsack Problems, 1990, chapter 7) whose bins say themselves what
fits: branch and bound, depth first, the cheapest bin first, so that the first answer is the greedy one. The bound gives
every unit that is left its cheapest bin. The search is exact, or gives up after a fixed number of tries, however long
they take; then units are moved and swapped as long as that pays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

#: The most often that a search asks whether units fit into a bin.
MOST_LOOKS = 2000

#: Whether a bin has room for units, both by number.
Fits = Callable[[int, frozenset[int]], bool]


class Split(NamedTuple):
    """The bin of every unit. ``proven``: no split that fits costs less."""

    bins: tuple[int, ...]
    proven: bool


def split(costs: Sequence[Sequence[int]], sizes: Sequence[int], fits: Fits) -> Split | None:
    """The cheapest split that was found, None for none; deterministic.

    ``costs`` has for every unit what it costs in each bin; ``sizes`` say which units to decide first. It never costs
    more than all units in one bin, if there is a bin that has room for them.
    """
    if not costs:
        return Split((), True)
    search = _Search(costs, fits)
    search.try_one_bin()
    dear_first = sorted(range(len(sizes)), key=lambda i: ((min(costs[i]) - max(costs[i])) / max(sizes[i], 1), i))
    large_first = sorted(range(len(sizes)), key=lambda i: (-sizes[i], i))
    proven = search.run(dear_first) or search.run(large_first)
    if search.best is None:
        return None
    if not proven:
        search.improve()
    return Split(tuple(search.best), proven)


class _Search:
    """``best`` is the cheapest split so far."""

    def __init__(self, costs: Sequence[Sequence[int]], fits: Fits) -> None:
        self._costs, self._fits = costs, fits
        self._bins = range(len(costs[0]))
        self.best: list[int] | None = None

    def _cost(self, bins: Sequence[int]) -> int:
        return sum(costs[b] for costs, b in zip(self._costs, bins, strict=True))

    def _keep(self, bins: list[int]) -> None:
        if self.best is None or self._cost(bins) < self._cost(self.best):
            self.best = bins

    def try_one_bin(self) -> None:
        """All units in one bin, wherever they fit."""
        everything = frozenset(range(len(self._costs)))
        for b in self._bins:
            if self._fits(b, everything):
                self._keep([b] * len(everything))

    def run(self, order: Sequence[int]) -> bool:
        """Decides unit after unit; whether that looked at every split that could be better."""
        rest = [*accumulate((min(self._costs[i]) for i in reversed(order)), initial=0)][::-1]
        stack: list[tuple[int, tuple[int, ...]]] = [(0, ())]  # cost, and the bins of the first units
        looks = 0
        while stack:
            cost, chosen = stack.pop()
            if self.best is not None and cost + rest[len(chosen)] >= self._cost(self.best):
                continue
            if looks == MOST_LOOKS:
                return False
            looks += 1
            if chosen and not self._fits(chosen[-1], _content(order, chosen, chosen[-1])):
                continue
            if len(chosen) < len(order):
                costs = self._costs[order[len(chosen)]]
                stack += [(cost + costs[b], (*chosen, b)) for b in sorted(self._bins, key=lambda b: (-costs[b], -b))]
            else:
                bins = dict(zip(order, chosen, strict=True))
                self._keep([bins[i] for i in range(len(order))])
        return True

    def improve(self) -> None:
        """Takes the first change that pays and fits, again and again."""
        looks = iter(range(MOST_LOOKS))
        while True:
            cheaper = zip(self._cheaper(), looks, strict=False)
            better = next((bins for bins, _ in cheaper if self._all_fit(bins)), None)
            if better is None:
                return
            self.best = better

    def _all_fit(self, bins: Sequence[int]) -> bool:
        return all(self._fits(b, _content(range(len(bins)), bins, b)) for b in self._bins)

    def _cheaper(self) -> Iterator[list[int]]:
        """The best split with one unit elsewhere, or two swapped, where that costs less."""
        best = self.best or []
        moves = [{i: b} for i in range(len(best)) for b in self._bins]
        swaps = [{i: best[j], j: best[i]} for i in range(len(best)) for j in range(i) if best[i] != best[j]]
        for change in (*moves, *swaps):
            if sum(self._costs[i][b] - self._costs[i][best[i]] for i, b in change.items()) < 0:
                yield [change.get(i, b) for i, b in enumerate(best)]


def _content(units: Sequence[int], bins: Sequence[int], b: int) -> frozenset[int]:
    """The units in bin ``b``; of the first units, if there are fewer bins than units."""
    return frozenset(unit for unit, chosen in zip(units, bins, strict=False) if chosen == b)
