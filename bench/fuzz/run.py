"""A campaign: models in batches until the time is over; what differs is shrunk and saved."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path

from twinfer.bench.fuzz.engines import QUICK, USUAL
from twinfer.bench.fuzz.generate import model
from twinfer.bench.fuzz.judge import Court, Finding
from twinfer.bench.fuzz.save import save
from twinfer.bench.fuzz.shrink import shrunk
from twinfer.bench.fuzz.tally import Tally
from twinfer.runtime.registry import operators

#: Models that are compiled together, and how many such batches are compiled quickly before one as users do.
BATCH, USUAL_EVERY = 48, 6

#: The most findings that are shrunk and saved.
MOST_SAVED = 40


class Campaign:
    """Random models from one seed. ``tell`` is called with the seconds so far and a line of text."""

    def __init__(self, seed: int, chosen: Sequence[str], out: Path, tell: Callable[[float, str], None]) -> None:
        self.seed, self.chosen, self.out, self.tell = seed, chosen, out, tell
        self.tally = Tally(chosen)
        self.findings: dict[tuple[object, ...], Finding] = {}

    def run(self, seconds: float, most: int | None = None) -> None:
        """Tries models for so long, or until there were ``most``; the last batch is finished."""
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="twinfer-fuzz-") as cache, closing(Court(cache)) as court:
            for batch in count():
                size = BATCH if most is None else min(BATCH, most - self.tally.models)
                self.tally.seconds = time.monotonic() - started
                if self.tally.seconds >= seconds or size <= 0:
                    return
                self._batch(court, batch, size)
                self.tell(time.monotonic() - started, self._line())

    def _batch(self, court: Court, batch: int, size: int) -> None:
        ops = list(operators())
        numbers = range(batch * BATCH, batch * BATCH + size)
        models = [model(self.seed, n, ops, self.chosen, self.tally.refused) for n in numbers]
        level = USUAL if batch % USUAL_EVERY == USUAL_EVERY - 1 else QUICK
        for verdict in court.judged(models, level):
            self.tally.add(verdict)
            for finding in verdict.findings:
                self._found(court, finding)

    def _found(self, court: Court, finding: Finding) -> None:
        """Shrinks and saves what is new."""
        if finding.key in self.findings or len(self.findings) >= MOST_SAVED:
            return
        self.findings[finding.key] = finding
        smallest = shrunk(court, finding)
        self.findings.setdefault(smallest.key, smallest)
        self.tally.note(smallest)
        save(smallest, self.out, self.seed)

    def _line(self) -> str:
        return f"{self.tally.models} models, {len(self.findings)} different"
