"""Times several ways to do the same thing, in turn, so that all run on the same machine in the same state."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat

import numpy as np

Run = Callable[[], object]
Clock = Callable[[], int]

#: A batch should take at least this long, in nanoseconds, so that reading the clock does not count.
BATCH_NS = 100_000

#: The most calls in a batch.
MAX_BATCH = 1 << 20

#: The least number of rounds, whatever the time.
MIN_ROUNDS = 5


@dataclass(frozen=True)
class Timing:
    """Times of one call in nanoseconds, one per round: each the mean of a batch of ``batch`` calls."""

    ns: tuple[float, ...]
    batch: int = 1

    @property
    def min(self) -> float:
        return min(self.ns)

    @property
    def median(self) -> float:
        return self.quantile(0.5)

    @property
    def spread(self) -> float:
        """90th minus 10th percentile: how far single measurements differ."""
        return self.quantile(0.9) - self.quantile(0.1)

    def quantile(self, q: float) -> float:
        """The value below which a share ``q`` of the rounds lies, interpolated."""
        return float(np.quantile(self.ns, q))


def interleave(
    runs: Mapping[str, Run],
    *,
    seconds: float = 1.0,
    rounds: int | None = None,
    clock: Clock = time.perf_counter_ns,
    progress: Callable[[float], None] = lambda share: None,
) -> dict[str, Timing]:
    """Times all runs in turn: one batch of each per round, another run first in every round.

    A batch is long enough for the clock. It begins with one call that does not count, because the batch before has
    filled the caches with other data. ``rounds`` fixes the number of rounds; without it they go on for ``seconds`` in
    all, and at least ``MIN_ROUNDS``. ``progress`` gets the share that is done, 0..1.
    """
    if not runs:
        return {}
    names = list(runs)
    with _no_collection():
        batches = {name: _batch_size(run, clock) for name, run in runs.items()}
        taken: dict[str, list[float]] = {name: [] for name in names}
        start, done = clock(), 0
        while done < rounds if rounds else done < MIN_ROUNDS or clock() - start < seconds * 1e9:
            for i in range(len(names)):
                name = names[(i + done) % len(names)]
                taken[name].append(_batch(runs[name], batches[name], clock))
            done += 1
            progress(min(1.0, done / rounds if rounds else (clock() - start) / max(1.0, seconds * 1e9)))
    return {name: Timing(tuple(ns), batches[name]) for name, ns in taken.items()}


def _batch_size(run: Run, clock: Clock) -> int:
    """The number of calls per batch. Trying it also warms everything up."""
    run()
    count = 1
    while count < MAX_BATCH:
        took = min(_batch(run, count, clock), _batch(run, count, clock)) * count
        if took >= BATCH_NS:
            break
        wanted = round(1.2 * count * BATCH_NS / max(took, 1.0))
        count = max(count + 1, min(wanted, 10 * count, MAX_BATCH))
    return count


def _batch(run: Run, count: int, clock: Clock) -> float:
    """Mean nanoseconds of ``count`` calls."""
    run()
    calls = repeat(None, count)
    start = clock()
    for _ in calls:
        run()
    return (clock() - start) / count


@contextmanager
def _no_collection() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
