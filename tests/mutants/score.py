"""The score: how many mutants the tests notice, by area, as a table and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from mutants.judge import EQUIVALENT, HUNG, KILLED, SURVIVED, Verdict
from mutants.table import Mutant

#: The share of the mutants of an area, without equivalent ones, that tests should notice.
GOAL = 0.9

Judged = Sequence[tuple[Mutant, Verdict]]


def counts(judged: Judged) -> dict[str, Counter[str]]:
    """Verdicts by area, and of ``all``, last."""
    by_area: dict[str, Counter[str]] = {}
    for mutant, verdict in judged:
        by_area.setdefault(mutant.area, Counter())[verdict["verdict"]] += 1
    return {**by_area, "all": sum(by_area.values(), Counter())}


def share(count: Counter[str]) -> float | None:
    """The share of noticed mutants, without equivalent ones; None if there are no others."""
    noticed = count[KILLED] + count[HUNG]
    return noticed / (noticed + count[SURVIVED]) if noticed + count[SURVIVED] else None


def reached(judged: Judged) -> bool:
    """Whether every area reaches the goal."""
    return all(score is None or score >= GOAL for score in map(share, counts(judged).values()))


def report(judged: Judged) -> Iterator[Table | Text]:
    """The table by area, and the mutants that no test notices or that only the time limit ended."""
    table = Table(title=f"Mutants that the tests notice (goal: {GOAL:.0%} in every area)")
    for name in ("area", "mutants", "killed", "of them hung", "survived", "equivalent", "score"):
        table.add_column(name, justify="left" if name == "area" else "right")
    for area, count in counts(judged).items():
        score = share(count)
        numbers = (count.total(), count[KILLED] + count[HUNG], count[HUNG], count[SURVIVED], count[EQUIVALENT])
        table.add_row(area, *map(str, numbers), "" if score is None else f"{score:.0%}")
    yield table
    for word in (SURVIVED, HUNG):
        for mutant in (m for m, verdict in judged if verdict["verdict"] == word):
            yield Text(f"{word}: {mutant} ({mutant.breaks})")


def as_json(judged: Judged) -> dict[str, Any]:
    """Scores and verdicts."""
    areas = {area: {**count, "score": share(count)} for area, count in counts(judged).items()}
    return {"goal": GOAL, "areas": areas, "mutants": [{**asdict(mutant), **verdict} for mutant, verdict in judged]}
