"""Collects what cannot be converted in the whole model, so that one error says it all."""

from __future__ import annotations

from twinfer.runtime.errors import UnsupportedOperatorError

#: How many nodes are named per reason; the others are counted.
NAMED = 8


class Problems:
    """Operators and reasons, in the order of the model, each with the nodes that have it."""

    def __init__(self) -> None:
        self.by_reason: dict[tuple[str, str], list[str]] = {}

    def add(self, op: str, reason: str, node: str) -> None:
        self.by_reason.setdefault((op, reason), []).append(node)

    def report(self) -> None:
        """UnsupportedOperatorError with every operator, count, reason and node names; nothing if there is none."""
        if not self.by_reason:
            return
        nodes = sum(map(len, self.by_reason.values()))
        lines = [f"{op} ({len(names)}x): {reason}; {_list(names)}" for (op, reason), names in self.by_reason.items()]
        raise UnsupportedOperatorError(f"{nodes} nodes cannot be converted:\n  " + "\n  ".join(lines))


def _list(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"node{'s' * (len(names) > 1)} {', '.join(names[:NAMED])}{more}"
