"""How often every operator ran, and who judged it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rich.table import Table

from twinfer.bench.fuzz.judge import Finding, Verdict
from twinfer.runtime.control import CONTROL

#: Columns of the table: heading and what it counts.
COLUMNS = ("ran", "refused", "tflm", "litert-ref", "excused", "different")


class Tally:
    """Counts by operator. ``refused`` counts nodes that ``infer`` or the planner did not take."""

    def __init__(self, ops: Iterable[str]) -> None:
        self.ops = [*ops, *CONTROL]
        self.models, self.seconds = 0, 0.0
        self.refused: Counter[str] = Counter()
        self.excuses: Counter[str] = Counter()
        self._counts: dict[str, Counter[str]] = {column: Counter() for column in COLUMNS}
        self._found: list[Finding] = []

    def add(self, verdict: Verdict) -> None:
        """Counts a model for each of its operators."""
        self.models += 1
        self._counts["refused" if verdict.refusal else "ran"].update(verdict.model.ops)
        if verdict.peer:
            self._counts[verdict.peer].update(verdict.model.ops)
        if verdict.excuse:
            self.excuses[verdict.excuse] += 1
            self._counts["excused"].update(verdict.model.ops)
        if verdict.findings:
            self._counts["different"].update(verdict.model.ops)

    def note(self, finding: Finding) -> None:
        """Keeps a finding for the summary."""
        self._found.append(finding)

    def count(self, column: str, op: str) -> int:
        """One cell of the table."""
        return self._counts[column][op] + (self.refused[op] if column == "refused" else 0)

    def unreached(self) -> list[str]:
        """The operators that no model ran."""
        return [op for op in self.ops if not self.count("ran", op)]

    def table(self) -> Table:
        """A row per operator."""
        table = Table("operator", *COLUMNS, title="Random models by operator")
        for op in self.ops:
            if any(self.count(column, op) for column in COLUMNS):
                table.add_row(op, *(str(self.count(column, op)) for column in COLUMNS))
        return table

    def summary(self) -> str:
        """Speed, what was not reached, and every finding in a line."""
        rate = self.models / max(self.seconds, 1e-9)
        lines = [f"{self.models} models in {self.seconds:.0f} s: {rate:.1f} per second"]
        if unreached := self.unreached():
            lines.append(f"not reached: {', '.join(unreached)}")
        lines += [f"excused {count} times: {why}" for why, count in self.excuses.most_common()]
        lines += [f"{f.model.name}: {f.engine}: {f.detail}" for f in self._found]
        return "\n".join(lines)
