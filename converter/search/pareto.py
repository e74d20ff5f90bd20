"""Finds the settings that no other setting beats in both cost and loss."""

from __future__ import annotations

from collections.abc import Sequence

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
