"""Where every block of the arena lies: ``place`` solves, ``check`` proves, ``lower_bound`` is the least needed."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from twinfer.runtime.plan.solve import greedy
from twinfer.runtime.plan.solve.puzzle import Puzzle, aligned


class Block(NamedTuple):
    """``size`` bytes at a multiple of ``alignment`` that keep their value from step ``first`` to ``last``, included."""

    size: int
    first: int
    last: int
    alignment: int = 1


class Overlap(NamedTuple):
    """Block ``over`` is computed row by row from block ``under``, which dies with its last row: they may share bytes.

    That is all that happens to both from the first step of ``over`` to the last of ``under``. Rows are written in
    rising order, and ``over`` must begin at least ``distance`` bytes before ``under`` begins; or ``backwards``, from
    the last row to the first, and ``over`` must end at least ``distance`` bytes behind the end of ``under``. Where two
    blocks have an overlap of both kinds, one of them suffices, as does lying apart.
    """

    over: int
    under: int
    distance: int
    backwards: bool = False


class Placement(NamedTuple):
    """An offset per block, in bytes. ``proven``: no placement of these blocks needs less."""

    offsets: tuple[int, ...]
    proven: bool


def height(blocks: Sequence[Block], offsets: Sequence[int]) -> int:
    """Bytes of arena that the placement needs."""
    return max((offset + block.size for block, offset in zip(blocks, offsets, strict=True)), default=0)


def place(blocks: Sequence[Block], overlaps: Sequence[Overlap] = (), *, exact: bool = False) -> Placement:
    """Offsets of the blocks; deterministic.

    A greedy placement first. Where that is above the lower bound, a search for the lowest, which may give up; then what
    more greedy steps find, and the answer of CP-SAT if ``exact`` asks for it: ToolError without the package ortools.
    """
    puzzle, bound = puzzle_of(blocks, overlaps), lower_bound(blocks, overlaps)
    offsets = greedy.place(puzzle, bound)
    if puzzle.height(offsets) == bound:
        return Placement(tuple(offsets), True)
    from twinfer.runtime.plan.solve import exact as search  # most models are placed by now
    from twinfer.runtime.plan.solve.core import squeeze

    offsets, proven = squeeze(puzzle, offsets, bound, search.decide)
    if not proven:
        offsets = greedy.improve(puzzle, offsets, bound)
    if exact and not proven:
        from twinfer.runtime.plan.solve import sat

        offsets, proven = squeeze(puzzle, offsets, bound, sat.decide)
    return Placement(tuple(offsets), proven or puzzle.height(offsets) == bound)


def fits(blocks: Sequence[Block], overlaps: Sequence[Overlap], nbytes: int) -> bool:
    """Whether ``place`` finds a placement within so many bytes; often known without it."""
    puzzle, bound = puzzle_of(blocks, overlaps), lower_bound(blocks, overlaps)
    if bound > nbytes or puzzle.height(greedy.place(puzzle, nbytes)) <= nbytes:
        return bound <= nbytes
    return height(blocks, place(blocks, overlaps).offsets) <= nbytes


def puzzle_of(blocks: Sequence[Block], overlaps: Sequence[Overlap]) -> Puzzle:
    """The same for solvers: what matters of an overlap is how far one block begins behind the other."""
    sizes = [block.size for block in blocks]
    gaps: dict[tuple[int, int], int] = {}
    for each in overlaps:
        low, high, gap = each.over, each.under, each.distance
        if each.backwards:
            low, high, gap = each.under, each.over, sizes[each.under] + each.distance - sizes[each.over]
        gaps[low, high] = min(gap, gaps.get((low, high), sizes[low]))
    return Puzzle(sizes, [block.alignment for block in blocks], [(block.first, block.last) for block in blocks], gaps)


def lower_bound(blocks: Sequence[Block], overlaps: Sequence[Overlap] = ()) -> int:
    """The largest sum of live bytes over all steps, less what overlaps can save there: no placement can need less.

    Of blocks that are aligned to so many bytes, each but the highest takes whole multiples of that.
    """
    return peak(blocks, overlaps)[0]


def peak(blocks: Sequence[Block], overlaps: Sequence[Overlap] = ()) -> tuple[int, int]:
    """The lower bound, and the first step whose live bytes force it."""
    puzzle = puzzle_of(blocks, overlaps)
    sums = (_peak(puzzle, overlaps, grain) for grain in {1, *puzzle.alignments})
    return max(sums, key=lambda each: (each[0], -each[1]), default=(0, 0))


def peak_unaligned(blocks: Sequence[Block], overlaps: Sequence[Overlap] = ()) -> tuple[int, int]:
    """The same for blocks that may lie at any byte."""
    return _peak(puzzle_of(blocks, overlaps), overlaps, 1)


def _peak(puzzle: Puzzle, overlaps: Sequence[Overlap], grain: int) -> tuple[int, int]:
    """The bound that the blocks give whose alignment is a multiple of ``grain``, and the step that forces it."""
    whole = {i: aligned(puzzle.sizes[i], grain) for i, each in enumerate(puzzle.alignments) if each % grain == 0}
    change: defaultdict[int, int] = defaultdict(int)
    padding: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for i, taken in whole.items():
        for step, sign in ((puzzle.spans[i][0], 1), (puzzle.spans[i][1] + 1, -1)):
            change[step] += sign * taken
            if grain > 1:
                padding[step][taken - puzzle.sizes[i]] += sign
    for first, end, saved in _savings(puzzle, overlaps, whole, grain):
        change[first] -= saved
        change[end] += saved
    most, at, total, live = 0, 0, 0, Counter[int]()
    for step in sorted(change):
        total += change[step]
        needed = total
        if grain > 1:
            live.update(padding[step])
            needed -= max((unused for unused, count in live.items() if count), default=0)
        if needed > most:
            most, at = needed, step
    return most, at


def _savings(
    puzzle: Puzzle, overlaps: Sequence[Overlap], whole: Mapping[int, int], grain: int
) -> Iterator[tuple[int, int, int]]:
    """First step, step behind the last, and the bytes that a block can share then with all that are over it."""
    pairs = dict.fromkeys((each.under, each.over) for each in overlaps if {each.under, each.over} <= whole.keys())
    shared: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for under, over in pairs:
        first = max(puzzle.spans[under][0], puzzle.spans[over][0])
        end = min(puzzle.spans[under][1], puzzle.spans[over][1]) + 1
        most = max(whole[low] - aligned(puzzle.gap(low, high), grain) for low, high in ((under, over), (over, under)))
        if first < end:
            shared[under].append((first, end, most))
    for under, lives in shared.items():
        for first, end in pairwise(sorted({step for begin, behind, _ in lives for step in (begin, behind)})):
            saved = sum(most for begin, behind, most in lives if begin <= first < behind)
            yield first, end, min(saved, whole[under])


def check(blocks: Sequence[Block], offsets: Sequence[int], overlaps: Sequence[Overlap] = ()) -> list[str]:
    """What is wrong with a placement, one line per fault or pair that overlaps. Shares no code with ``place``.

    Step by step it keeps the live blocks in the order of their offsets, and looks up there each block that begins.
    """
    faults = [
        f"block {i} at {at}: not a multiple of {block.alignment}"
        for i, (block, at) in enumerate(zip(blocks, offsets, strict=True))
        if at < 0 or at % block.alignment
    ]
    faults += _contradictions(blocks, overlaps)
    ends = [at + block.size for at, block in zip(offsets, blocks, strict=True)]
    allowed: defaultdict[frozenset[int], list[Overlap]] = defaultdict(list)
    for each in overlaps:
        allowed[frozenset((each.over, each.under))].append(each)
    for j, i in sorted(_collisions(blocks, offsets, ends)):
        ways = allowed[frozenset((j, i))]
        if not any(_far_enough(each, offsets, ends) for each in ways):
            pair = f"blocks {j} [{offsets[j]}, {ends[j]}) and {i} [{offsets[i]}, {ends[i]}) overlap while both live"
            faults.append("; ".join([pair, *map(_wanted, ways)]))
    return faults


def _contradictions(blocks: Sequence[Block], overlaps: Sequence[Overlap]) -> Iterator[str]:
    """Overlaps that no rows can have."""
    below: dict[int, int] = {}
    for each in overlaps:
        over, under = blocks[each.over], blocks[each.under]
        if each.distance < 0:
            yield f"block {each.over} over {each.under}: a distance of {each.distance} bytes"
        if not under.first <= over.first <= under.last <= over.last:
            yield f"block {each.over} over {each.under}: it does not follow on that"
        if below.setdefault(each.over, each.under) != each.under:
            yield f"block {each.over} over {each.under}: it is over {below[each.over]}, too"


def _far_enough(each: Overlap, offsets: Sequence[int], ends: Sequence[int]) -> bool:
    if each.backwards:
        return ends[each.over] - ends[each.under] >= each.distance
    return offsets[each.under] - offsets[each.over] >= each.distance


def _wanted(each: Overlap) -> str:
    where = "end {} bytes behind" if each.backwards else "begin {} bytes before"
    return f"block {each.over} may {where.format(each.distance)} block {each.under} or farther"


def _collisions(blocks: Sequence[Block], offsets: Sequence[int], ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Pairs of blocks that share a byte at a step. ``apart``: the live blocks that share none; ``odd``: the others."""
    apart: list[tuple[int, int, int]] = []
    odd: set[int] = set()
    events = [(block.first, 1, i) for i, block in enumerate(blocks) if block.size]
    events += [(block.last + 1, 0, i) for i, block in enumerate(blocks) if block.size]
    for _, begins, i in sorted(events):
        entry = (offsets[i], ends[i], i)
        if not begins:
            if i in odd:
                odd.remove(i)
            else:
                del apart[bisect_left(apart, entry)]
            continue
        near = apart[max(0, bisect_left(apart, entry) - 1) : bisect_left(apart, (ends[i], ends[i], 0))]
        others = [j for _, end, j in near if end > offsets[i]]
        others += [j for j in odd if offsets[j] < ends[i] and offsets[i] < ends[j]]
        yield from ((min(i, j), max(i, j)) for j in others)
        if others:
            odd.add(i)
        else:
            insort(apart, entry)
