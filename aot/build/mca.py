"""The straight runs of a program's executed instructions, and how many cycles each takes by LLVM's scheduling models.

A straight run is executed as often everywhere, one instruction after the other; llvm-mca knows what it takes.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from twinfer.aot.build.architecture import Pipeline
from twinfer.aot.build.runner import ByAddress
from twinfer.runtime.errors import ToolError
from twinfer.runtime.tools import run_tool

#: The versions whose programs carry their number in their name, as Debian's do beside its usual one.
VERSIONS = range(30, 13, -1)

#: Executions of each run in a row; the latter half is measured, when the pipeline is in its steady state.
_ROUNDS = 16
_TIMELINE = ("-timeline", f"-timeline-max-iterations={_ROUNDS}", "-timeline-max-cycles=0")
_OPTIONS = ("-json", *_TIMELINE, f"-iterations={_ROUNDS}")

_LINE = re.compile(r"^\s*([0-9a-f]+): ([0-9a-f ]+?)\s*\t([a-z][\w.]*)(?:\t(.*))?$")
_VERSION = re.compile(r"LLVM version (\d+)")
_UNSUPPORTED = re.compile(r"note: instruction:\s+(\S+)")
_UNREAD = re.compile(r"code\.s:(\d+):\d+: error")
_LABEL = re.compile(r"(?:#[-+]?\w+|0x[0-9a-f]+)(?: <[^>]*>)?$|<[^>]*>$")
_BRANCHES = re.compile(
    r"(b|bl|cbn?z|le|letp|wls|wlstp\.\w+|b(eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le))(\.[nw])?"
)
_CALLS = {"bl": "b", "blx": "bx"}
_IT = re.compile(r"i(t[te]{0,3})")


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


@dataclass(frozen=True)
class Llvm:
    """LLVM's programs of one version: ``suffix`` is what their names end with."""

    version: int
    suffix: str

    def listing(self, elf: Path, pipeline: Pipeline) -> dict[int, Instruction]:
        """Address -> instruction of a program."""
        how = ["-d", f"--triple={pipeline.triple}", f"--mcpu={pipeline.cpu}"]
        return listed(run_tool([f"llvm-objdump{self.suffix}", *how, str(elf)]))

    def costs(
        self, runs: Sequence[Sequence[Instruction]], pipeline: Pipeline
    ) -> tuple[list[list[float]], frozenset[str]]:
        """For every run the cycles of its instructions, and the mnemonics that the model lacks: 1 cycle each.

        The cycles of an instruction are those until the next one can begin, or the first of the same run again: these
        cores issue in order, so they add up to the time of the run. ToolError if llvm-mca fails.
        """
        lacking: set[str] = set()
        while True:
            texts = [_texts(run, frozenset(lacking)) for run in runs]
            try:
                told = self._ask(texts, pipeline)
            except ToolError as error:
                new = _complaint(str(error), _source(texts)) - lacking
                if not new:
                    raise
                lacking |= new
                continue
            return [_filled(text, cycles) for text, cycles in zip(texts, told, strict=True)], frozenset(lacking)

    def _ask(self, texts: Sequence[Sequence[str | None]], pipeline: Pipeline) -> list[list[float]]:
        """The cycles of the instructions that are not None, run by run."""
        with tempfile.TemporaryDirectory(prefix="twinfer-") as work:
            (Path(work) / "code.s").write_text(_source(texts))
            how = [f"-mtriple={pipeline.triple}", f"-mcpu={pipeline.cpu}", *_OPTIONS]
            told = json.loads(run_tool([f"llvm-mca{self.suffix}", *how, "code.s"], Path(work)))
        regions = {region["Name"]: _gaps(region) for region in told["CodeRegions"]}
        return [regions.get(str(i), []) for i in range(len(texts))]


def need_llvm(since: int = 0) -> Llvm:
    """LLVM of that version or newer: the one without a number in its names if it fits, else the newest.

    ToolError, with the package to install, if there is none.
    """
    there = [*_installed()]
    if not there:
        raise ToolError("llvm-mca is not installed, which estimates cycles: apt-get install llvm")
    for llvm in there:
        if llvm.version >= since:
            return llvm
    said = f"llvm-mca {there[0].version} has no scheduling model of this core"
    raise ToolError(f"{said}: apt-get install llvm-{since}, or a newer one")


def _installed() -> Iterator[Llvm]:
    for suffix in ("", *(f"-{version}" for version in VERSIONS)):
        if shutil.which(f"llvm-mca{suffix}") and shutil.which(f"llvm-objdump{suffix}"):
            yield Llvm(_version(f"llvm-mca{suffix}"), suffix)


@cache
def _version(program: str) -> int:
    said = _VERSION.search(run_tool([program, "--version"]))
    return int(said[1]) if said else 0


def _texts(run: Sequence[Instruction], lacking: frozenset[str]) -> list[str | None]:
    """The instructions as an assembler reads them; None for those that the model lacks.

    Targets of branches become a label. Calls become branches, for llvm-mca takes 100 cycles for what they call. Without
    the IT before them, instructions must lose their condition.
    """
    texts: list[str | None] = []
    conditions: list[str] = []
    for each in run:
        mnemonic, operands = each.mnemonic, each.operands
        if (block := _IT.fullmatch(mnemonic)) and mnemonic in lacking:
            conditions = [_INVERSE[operands] if letter == "e" else operands for letter in block[1]]
        elif conditions:
            base, dot, width = mnemonic.partition(".")
            mnemonic = base.removesuffix(conditions.pop(0)) + dot + width
        if _BRANCHES.fullmatch(each.mnemonic):
            operands = _LABEL.sub(".Ltarget", operands)
        plain = _CALLS.get(mnemonic, mnemonic)
        texts.append(None if plain in lacking else f"{plain} {operands}".strip())
    return texts


_PAIRS = (
    ("eq", "ne"), ("hs", "lo"), ("cs", "cc"), ("mi", "pl"), ("vs", "vc"), ("hi", "ls"), ("ge", "lt"), ("gt", "le"),
)  # fmt: skip
_INVERSE = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])}


def _source(texts: Sequence[Sequence[str | None]]) -> str:
    """Assembly with a region for every run, named by its number, if the model has anything of it."""
    lines = [".syntax unified", ".thumb"]
    for i, text in enumerate(texts):
        if known := [line for line in text if line is not None]:
            lines += [f"# LLVM-MCA-BEGIN {i}", *known, f"# LLVM-MCA-END {i}"]
    return "\n".join(lines) + "\n"


def _complaint(message: str, source: str) -> set[str]:
    """The mnemonics that llvm-mca complains of."""
    lines = source.splitlines()
    unread = {lines[int(number) - 1].split()[0] for number in _UNREAD.findall(message)}
    return unread | set(_UNSUPPORTED.findall(message))


def _gaps(region: Any) -> list[float]:
    """The cycles from each instruction's issue to the next one's, in the mean of the latter rounds."""
    issued = [entry["CycleIssued"] for entry in region["TimelineView"]["TimelineInfo"]]
    size, first = len(issued) // _ROUNDS, _ROUNDS // 2
    rounds = _ROUNDS - 1 - first
    gaps = [after - before for before, after in pairwise(issued)][first * size : (_ROUNDS - 1) * size]
    return [sum(gaps[i::size]) / rounds for i in range(size)]


def _filled(text: Sequence[str | None], cycles: Sequence[float]) -> list[float]:
    """The cycles of all instructions: 1 for those that the model lacks."""
    known = iter(cycles)
    return [1.0 if line is None else next(known) for line in text]
