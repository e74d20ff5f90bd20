"""What solvers work on: sizes of blocks, when they live, and how near to each other two of them may lie."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property


def aligned(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment


@dataclass(frozen=True, eq=False)
class Puzzle:
    """Blocks by number: their ``sizes`` and ``alignments`` in bytes, and ``spans``, first and last step of each.

    Of two blocks that live at one step, one must begin at least ``gap(low, high)`` bytes behind the beginning of the
    other: by the size of the lower one, unless ``gaps`` says less. A gap below 0 lets ``high`` begin first.
    """

    sizes: Sequence[int]
    alignments: Sequence[int]
    spans: Sequence[tuple[int, int]]
    gaps: Mapping[tuple[int, int], int]

    def gap(self, low: int, high: int) -> int:
        return self.gaps.get((low, high), self.sizes[low])

    def height(self, offsets: Sequence[int]) -> int:
        """Bytes that a placement needs."""
        return max((at + size for at, size in zip(offsets, self.sizes, strict=True)), default=0)

    def meetings(self, chosen: Collection[int]) -> Iterator[tuple[int, int]]:
        """Every two blocks that have bytes at a common step, if one of them is ``chosen``."""
        live: tuple[dict[int, None], dict[int, None]] = ({}, {})
        events = [(first, 1, i) for i, (first, _) in enumerate(self.spans) if self.sizes[i]]
        events += [(last + 1, 0, i) for i, (_, last) in enumerate(self.spans) if self.sizes[i]]
        for _, begins, i in sorted(events):
            own = live[i in chosen]
            if not begins:
                del own[i]
                continue
            yield from ((i, j) for j in live[True])
            if i in chosen:
                yield from ((i, j) for j in live[False])
            own[i] = None

    def neighbours(self, chosen: Collection[int]) -> dict[int, list[int]]:
        """Block -> the chosen blocks that it meets."""
        beside: dict[int, list[int]] = {i: [] for i in range(len(self.sizes))}
        for i, j in self.meetings(chosen):
            for one, other in ((i, j), (j, i)):
                if other in chosen:
                    beside[one].append(other)
        return beside

    @cached_property
    def near(self) -> Mapping[int, Sequence[tuple[int, int, int]]]:
        """Block i -> for each block j that it meets: j, gap(i, j), gap(j, i). Blocks without bytes are left out."""
        return {
            i: [(j, self.gap(i, j), self.gap(j, i)) for j in others]
            for i, others in self.neighbours(range(len(self.sizes))).items()
            if self.sizes[i]
        }

    @cached_property
    def pairs(self) -> int:
        """How many pairs of blocks meet, blocks without bytes included."""
        changes = sorted([(first, 1) for first, _ in self.spans] + [(last + 1, 0) for _, last in self.spans])
        live = pairs = 0
        for _, begins in changes:
            pairs += live if begins else 0
            live += 1 if begins else -1
        return pairs

    def lowest(self, i: int, others: Iterable[int], offsets: Sequence[int], at: int = 0) -> int:
        """The lowest place of block ``i`` from ``at`` on that keeps its gaps to ``others``, which have offsets."""
        if self.gaps:
            barred = [(offsets[j] + self.gap(j, i), offsets[j] - self.gap(i, j)) for j in others]
        else:
            sizes, size = self.sizes, self.sizes[i]
            barred = [(offsets[j] + sizes[j], offsets[j] - size) for j in others]
        for high, low in sorted(barred):
            if low < at < high:
                at = aligned(high, self.alignments[i])
        return at
