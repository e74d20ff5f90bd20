"""What ``twinfer boards`` shows: the boards that there are, and those that a model fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from twinfer.aot.build.catalogue import Board
from twinfer.aot.build.estimates import STACK_BYTES
from twinfer.aot.build.matching import Match
from twinfer.bench.measure.report import table

#: The version of the JSON: it rises when a key changes its meaning or goes.
SCHEMA = 1

_ABOUT = (
    f"RAM is arena, state and {STACK_BYTES:,} bytes for the stack; flash is constants and code. Code, ms and µJ are "
    "estimates from measured prices of kernels, not measurements: wait states of data, misses of caches "
    "and slow external flash are not in them. twinfer report, or bench --target BOARD, counts under QEMU."
)


def size(nbytes: int) -> str:
    """Bytes as boards are sold: 128 KB, 2 MB."""
    for unit, name in ((1 << 20, "MB"), (1 << 10, "KB")):
        if nbytes >= unit:
            return f"{nbytes / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{nbytes} B"


def board_table(boards: Sequence[Board]) -> Iterator[RenderableType]:
    """All boards, by maker."""
    shown = table(f"{len(boards)} boards", "<maker", "<board", "<chip", "<core", "MHz", "<RAM", "flash", gap=1)
    before = ""
    for board in boards:
        ram = ", ".join(f"{memory.name} {size(memory.nbytes)}" for memory in board.ram)
        maker = "" if board.maker == before else board.maker
        shown.add_row(maker, board.name, board.chip, board.core_name, f"{board.clock_mhz:g}", ram, size(board.flash))
        before = board.maker
    yield shown


def match_tables(name: str, matches: Sequence[Match]) -> Iterator[RenderableType]:
    """What each board says to a model."""
    heads = ("<board", "<core", "MHz", "RAM", "of", "flash", "of", "≈ ms", "≈ µJ", "<with")
    shown = table(f"{name} on {len(matches)} boards", *heads, gap=1)
    for match in matches:
        board, fit, need = match.board, match.fit, match.need
        ram = Text(f"{need.ram:,}", "red" if fit.ram_short else "green")
        flash = Text(f"{need.flash:,}", "red" if fit.flash_short else "green")
        row = (board.name, board.core_name, f"{board.clock_mhz:g}", ram, size(board.ram_bytes), flash)
        shown.add_row(
            *row, size(board.flash), *map(_figure, (match.estimate.ms, match.estimate.microjoules)), _with(match)
        )
    yield shown
    good = sum(bool(match.fit) for match in matches)
    yield Text(f"{name} fits {good} of {len(matches)} boards.", "green" if good else "red")
    yield Text(_ABOUT)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _with(match: Match) -> str:
    """The options that make it fit and the memory that its arena lies in, or what is short."""
    fit = match.fit
    if fit:
        place = fit.places.get("arena", "") if len(match.board.ram) > 1 else ""
        return ", ".join(filter(None, [match.words, place and f"arena in {place}"]))
    short = {"RAM": fit.ram_short, "flash": fit.flash_short}
    return "short of " + " and ".join(f"{nbytes:,} B of {what}" for what, nbytes in short.items() if nbytes)


def describe(boards: Sequence[Board]) -> dict[str, Any]:
    """The boards for programs."""
    return {"schema": SCHEMA, "boards": [_described(board) for board in boards]}


def _described(board: Board) -> dict[str, Any]:
    return {
        "name": board.name,
        "maker": board.maker,
        "chip": board.chip,
        "core": board.core_name,
        "target": board.base,
        "clock_mhz": board.clock_mhz,
        "ram": [{"name": m.name, "origin": m.origin, "bytes": m.nbytes, "about": m.about} for m in board.ram],
        "flash_bytes": board.flash,
        "flash_about": board.flash_about,
        "flash_wait_states": board.flash_wait_states,
        "energy_pj_per_cycle": board.energy_pj_per_cycle,
        "source": board.source,
    }


def described_matches(name: str, matches: Sequence[Match]) -> dict[str, Any]:
    """What each board says to a model, for programs. ``estimated`` names the figures that are not exact."""
    return {
        "schema": SCHEMA,
        "model": name,
        "estimated": ["code_bytes", "stack_bytes", "data_bytes", "instructions", "cycles", "ms", "microjoules"],
        "boards": [
            {
                "name": match.board.name,
                "fits": bool(match.fit),
                "options": match.words,
                "ram_short": match.fit.ram_short,
                "flash_short": match.fit.flash_short,
                "places": dict(match.fit.places),
                "arena_bytes": match.need.arena,
                "state_bytes": match.need.state,
                "stack_bytes": match.need.stack,
                "data_bytes": match.need.data,
                "constant_bytes": match.need.constants,
                "code_bytes": match.need.code,
                "instructions": match.estimate.instructions,
                "cycles": match.estimate.cycles,
                "ms": match.estimate.ms,
                "microjoules": match.estimate.microjoules,
            }
            for match in matches
        ],
    }


_INTRODUCTION = """# Boards

Real boards that twinfer knows. `twinfer boards MODEL` says which of them a model fits, with which options, and about
how long it takes there; `--target BOARD` compiles and measures for one. `twinfer boards --markdown` writes this page
anew from `aot/board/boards.toml`, which explains the fields. A board of your own is a file of the same form, or a card
([Microcontrollers](microcontrollers.md)): `twinfer boards MODEL --board my_board.toml`.

A model fits if its arena, its state and its stack each find a memory with room, and constants and code are no more
than the flash. Memories are taken in the order shown. What is exact: arena, state and constants. What is estimated:
code, 1,024 bytes of stack, instructions, and cycles, within about a quarter on the models of MLPerf Tiny, more on
floats. Wait states of flash are in the time where no cache hides them; misses of caches, wait states of data and
constants that stream from external flash are not. RISC-V takes as many cycles an
instruction as simulated cores do ([Simulated cores](microcontrollers.md#simulated-cores)), not those of the chip's own.
For Xtensa and RV32EC, code is planned for any 32-bit machine (`generic`), and no time is estimated; that of Cortex-M85
is for a Cortex-M55.

Options are tried in the order `--memory rows`, `--input-rows`, `--optimize size`, `--weights auto`, each only where
memory lacks without it.
"""


def page(boards: Sequence[Board]) -> str:
    """docs/boards.md."""
    lines = [_INTRODUCTION]
    for maker in dict.fromkeys(board.maker for board in boards):
        lines += [f"## {maker}", "", "| board | chip | core | MHz | RAM | flash |", "|---|---|---|---|---|---|"]
        own = [board for board in boards if board.maker == maker]
        for board in own:
            ram = "<br>".join(f"{memory.name} {size(memory.nbytes)}: {memory.about}" for memory in board.ram)
            flash = f"{size(board.flash)}: {board.flash_about}"
            cells = (f"`{board.name}`", board.chip, board.core_name, f"{board.clock_mhz:g}", ram, flash)
            lines.append(f"| {' | '.join(cells)} |")
        lines += ["", "Sources:", "", *(f"- `{board.name}`: {board.source}." for board in own), ""]
    return "\n".join(lines).rstrip() + "\n"
