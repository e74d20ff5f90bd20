"""The straight runs of a program's executed instructions: what is executed equally often, one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from twinfer.aot.build.runner import ByAddress

_LINE = re.compile(r"^\s*([0-9a-f]+): ([0-9a-f ]+?)\s*\t([a-z][\w.]*)(?:\t(.*))?$")


@dataclass(frozen=True)
class Instruction:
    """An instruction of the listing: where it lies, its bytes, and its text without comments."""

    address: int
    nbytes: int
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
    """Address -> instruction, from a listing of llvm-objdump's; it has two digits for every byte."""
    found = (_LINE.match(line.split("@")[0].rstrip()) for line in listing.splitlines())
    each = (Instruction(int(m[1], 16), len(m[2].replace(" ", "")) // 2, m[3], m[4] or "") for m in found if m)
    return {instruction.address: instruction for instruction in each}


def straights(code: Mapping[int, Instruction], executed: ByAddress) -> Iterator[Straight]:
    """All executed instructions, in straight runs.

    A run ends where a branch was taken, and where the count changes: what is executed as often as the one before it,
    which never branched, was executed after it each time. KeyError if something was executed that is not in ``code``.
    """
    run: list[Instruction] = []
    for address in sorted(at for at, count in executed.counts.items() if count):
        if run and not _goes_on(run[-1], address, executed):
            yield _straight(run, executed)
            run = []
        run.append(code[address])
    if run:
        yield _straight(run, executed)


def _goes_on(before: Instruction, address: int, executed: ByAddress) -> bool:
    """Whether the instruction at ``address`` follows ``before`` each time that this is executed, and only then."""
    at = before.address
    same = executed.counts[at] == executed.counts[address]
    return same and at + before.nbytes == address and at not in executed.taken


def _straight(run: list[Instruction], executed: ByAddress) -> Straight:
    at = run[-1].address
    return Straight(tuple(run), executed.counts[at], executed.taken.get(at, 0), sum(each.nbytes for each in run))
