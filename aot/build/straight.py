"""The straight runs of a program's executed instructions: what is executed equally often, one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from twinfer.aot.build.runner import ByAddress

_LINE = re.compile(r"^\s*([0-9a-f]+):\s+([a-z][\w.]*)[ \t]*(.*)$")


@dataclass(frozen=True)
class Instruction:
    """An instruction of the listing: where it lies, and its text without comments."""

    address: int
    mnemonic: str
    operands: str


@dataclass(frozen=True)
class Straight:
    """A run of instructions: ``count`` executions of all of them in order, ``taken`` of which end with a branch.

    ``nbytes``: what it takes of the memory.
    """

    instructions: tuple[Instruction, ...]
    count: int
    taken: int
    nbytes: int


def listed(listing: str) -> dict[int, Instruction]:
    """Address -> instruction, from a listing of llvm-objdump's without bytes."""
    found = (_LINE.match(line.split("@")[0]) for line in listing.splitlines())
    each = (Instruction(int(m[1], 16), m[2], m[3].strip()) for m in found if m)
    return {instruction.address: instruction for instruction in each}


def straights(code: Mapping[int, Instruction], executed: ByAddress) -> Iterator[Straight]:
    """All executed instructions, in straight runs.

    A run ends where a branch was taken, and where the count changes: what is executed as often as the one before it,
    which never branched, was executed after it each time. KeyError if something was executed that is not in ``code``.
    """
    sizes = _sizes(code)
    run: list[Instruction] = []
    for address in sorted(a for a, count in executed.counts.items() if count):
        before = run[-1].address if run else None
        if before is not None and (
            before in executed.taken
            or before + sizes[before] != address
            or executed.counts[before] != executed.counts[address]
        ):
            yield _straight(run, executed, sizes)
            run = []
        run.append(code[address])
    if run:
        yield _straight(run, executed, sizes)


def _sizes(code: Mapping[int, Instruction]) -> dict[int, int]:
    """Bytes of every instruction: up to the next, at most 4."""
    places = sorted(code)
    return {at: min(following - at, 4) for at, following in pairwise([*places, places[-1] + 4])} if places else {}


def _straight(run: list[Instruction], executed: ByAddress, sizes: Mapping[int, int]) -> Straight:
    last = run[-1].address
    nbytes = last + sizes[last] - run[0].address
    return Straight(tuple(run), executed.counts[last], executed.taken.get(last, 0), nbytes)
