"""Real boards: the table in ``board/boards.toml``, and boards that users describe in a file of their own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from twinfer.aot.build import targets
from twinfer.aot.build.architecture import BOARDS
from twinfer.aot.build.banks import CardBank, need_apart, read_banks
from twinfer.aot.build.estimates import CORES, Need, counted, cycles_each, need_of
from twinfer.aot.build.targets import Card, checked
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.target import GENERIC, Bank, Target

#: Fields of a board that may be left out, and those that are text.
_OPTIONAL = ("maker", "chip", "core", "source", "flash_about", *targets.FLASH, "energy_pj_per_cycle")
_TEXTS = ("maker", "chip", "core", "source", "flash_about")


@dataclass(frozen=True)
class Fit:
    """Whether a model fits a board: how many bytes of RAM and flash it lacks, 0 if it fits.

    ``places`` says in which memory arena, state, stack and data lie; what finds no place is not in it. A Fit is true if
    nothing is short.
    """

    places: Mapping[str, str]
    ram_short: int
    flash_short: int

    def __bool__(self) -> bool:
        return not self.ram_short and not self.flash_short


@dataclass(frozen=True)
class Estimate:
    """About what a run takes; None where nothing is known of the core, its clock or its energy. No measurement."""

    instructions: float | None = None
    cycles: float | None = None
    ms: float | None = None
    microjoules: float | None = None


@dataclass(frozen=True)
class Board:
    """A real board; board/boards.toml explains the fields. ``ram`` is in the order in which memories are taken.

    ``base`` names the card of its core, or generic: such a board is planned for, and no program is built for it.
    ``own`` is the user's card, if the board is one; ``ram_budget`` what a model may take of all memories together.
    """

    name: str
    base: str
    clock_mhz: float
    ram: tuple[CardBank, ...]
    flash_bytes: int
    maker: str = ""
    chip: str = ""
    core: str = ""
    source: str = ""
    flash_about: str = ""
    flash_wait_states: int | None = None
    flash_fetch_bytes: int | None = None
    energy_pj_per_cycle: float | None = None
    own: Card | None = None
    ram_budget: int | None = None

    @property
    def flash(self) -> int:
        """Bytes of flash."""
        return self.flash_bytes

    @property
    def ram_bytes(self) -> int:
        """Bytes of all its memories for data."""
        return sum(memory.nbytes for memory in self.ram)

    @property
    def card(self) -> Card | None:
        """The card to build for it and to run in the emulator, with the board's sizes; None for a core without one.

        Addresses are those of the emulator's board, and sizes are at most its. RAM is the largest memory, for an arena
        lies in one.
        """
        if self.own is not None or self.base == GENERIC.name:
            return self.own
        core = targets.find(self.base)
        ram = min(max(memory.nbytes for memory in self.ram), core.ram_bytes) // 16 * 16
        return replace(
            core,
            name=self.name,
            flash_bytes=min(self.flash_bytes, core.flash_bytes),
            ram_bytes=ram,
            stack_bytes=min(core.stack_bytes, ram // 64 * 16),
            clock_mhz=self.clock_mhz,
            flash_wait_states=self.flash_wait_states,
            flash_fetch_bytes=self.flash_fetch_bytes,
            energy_pj_per_cycle=self.energy_pj_per_cycle,
        )

    @property
    def target(self) -> Target:
        """What to plan for: that of its core, so that boards with the same core have the same plans."""
        if self.own is not None:
            return self.own.target
        return GENERIC if self.base == GENERIC.name else targets.find(self.base).target

    @property
    def core_name(self) -> str:
        """The core in words: Cortex-M0+."""
        return self.core or self.base.replace("cortex-m", "Cortex-M").replace("plus", "+")

    def fits(self, model: Plan | Need) -> Fit:
        """Whether a model fits, and what is short: of a plan, whose code and stack are estimated, or of known bytes.

        Arena, state, stack and data lie each in one memory: the largest first, in the first memory that has room.
        """
        need = need_of(model) if isinstance(model, Plan) else model
        free = {memory.name: memory.nbytes for memory in self.ram}
        wanted = {"arena": need.arena, "state": need.state, "stack": need.stack, "data": need.data}
        places, lacking = dict[str, str](), 0
        for what, nbytes in sorted(wanted.items(), key=lambda item: -item[1]):
            place = next((name for name, room in free.items() if nbytes <= room), None)
            if place is None:
                lacking += nbytes
            elif nbytes:
                places[what] = place
                free[place] -= nbytes
        over = 0 if self.ram_budget is None else need.ram - self.ram_budget
        short = max(0, over, lacking - max(free.values()) if lacking else 0)
        return Fit(places, short, max(0, need.flash - self.flash_bytes))

    @property
    def known_core(self) -> str:
        """The card of its core, as estimates know it; of a user's card by its flags."""
        flags = () if self.own is None else self.own.flags
        return next((core for core in CORES if f"-mcpu={core}" in flags), self.base)

    def estimate(self, plan: Plan) -> Estimate:
        """About what a run of a plan takes at the board's clock. Wait states of flash are in it, as ``bench --cycles``
        takes them; wait states of data and misses of caches are not."""
        return self.takes(counted(plan, self.known_core))

    def takes(self, instructions: float | None) -> Estimate:
        """About what so many instructions take; nothing is known of None."""
        if instructions is None:
            return Estimate()
        states, fetch = self.flash_wait_states or 0, self.flash_fetch_bytes or 1
        cycles = instructions * cycles_each(self.known_core, states, fetch)
        energy = self.energy_pj_per_cycle
        return Estimate(
            instructions=instructions,
            cycles=cycles,
            ms=cycles / (1e3 * self.clock_mhz) if self.clock_mhz else None,
            microjoules=None if energy is None else cycles * energy / 1e6,
        )

    def limited(self, ram: int | None = None, flash: int | None = None) -> Board:
        """The same board with at most ``ram`` and ``flash`` bytes for the model: a budget; None leaves all of it."""
        return replace(self, ram_budget=ram, flash_bytes=min(self.flash_bytes, flash or self.flash_bytes))


def boards() -> tuple[Board, ...]:
    """The boards that twinfer knows, by maker."""
    return tuple(_builtin().values())


def board(name: str | os.PathLike[str]) -> Board:
    """The board of that name, or the one in that TOML file: a table of boards.toml, or a card.

    InvalidArgumentError if there is neither, or the file has an unknown or wrong field.
    """
    if (known := known_board(name)) is not None:
        return known
    path = Path(name)
    if path.suffix != ".toml":
        asked = str(name).lower()
        near = [each for each in _builtin() if asked in each.replace("-", "")] or get_close_matches(
            asked, _builtin(), 1
        )
        hint = f" Do you mean {' or '.join(near[:3])}?" if near else ""
        raise InvalidArgumentError(f"no board {str(name)!r}: twinfer boards lists them; or name a .toml file.{hint}")
    own = targets.read_tables(path)
    if not _is_board(own):
        return _of_card(targets.find(path))
    if len(own) != 1:
        raise InvalidArgumentError(f"{path} describes {len(own)} boards, it should be one")
    ((name, table),) = own.items()
    return _board(name, table, path)


def known_board(name: str | os.PathLike[str]) -> Board | None:
    """The board that twinfer knows by this name, if there is one."""
    return _builtin().get(name.lower().replace("_", "-")) if isinstance(name, str) else None


def find_card(target: str, also: Sequence[str] = ()) -> tuple[Target, Card | None]:
    """What --target names, a core, a board or a file: what to plan for, and the card to build with, if there is one.

    InvalidArgumentError as ``targets.find``.
    """
    path = Path(target)
    if known_board(target) is not None or (path.suffix == ".toml" and _is_board(targets.read_tables(path))):
        found = board(target)
        return (found.target, None) if found.card is None else (found.card.target, found.card)
    card = targets.find(target, also)
    return card.target, card


@cache
def _builtin() -> dict[str, Board]:
    path = BOARDS / "boards.toml"
    return {name: _board(name, table, path) for name, table in targets.read_tables(path).items()}


def _is_board(tables: Mapping[str, Any]) -> bool:
    """Whether a file describes a board, not a card."""
    return any(isinstance(table, dict) and "ram" in table for table in tables.values())


def _of_card(card: Card) -> Board:
    """A user's card as a board: its RAM first, then its banks."""
    return Board(
        name=card.name,
        base=card.name,
        clock_mhz=card.clock_mhz or 0.0,
        ram=(CardBank(Bank("ram", card.ram_bytes), card.ram_origin), *card.banks),
        flash_bytes=card.flash_bytes,
        flash_wait_states=card.flash_wait_states,
        flash_fetch_bytes=card.flash_fetch_bytes,
        energy_pj_per_cycle=card.energy_pj_per_cycle,
        own=card,
    )


def _board(name: str, table: Any, path: Path) -> Board:
    """A board of a file; every field is checked, for users write them."""
    where = f"{path}: {name}"
    checked(f"{path}: {name!r}", "name", name)
    if not isinstance(table, dict):
        raise InvalidArgumentError(f"{where}: it should be a table, headed [{name}]")
    known = [field.name for field in fields(Board) if field.name not in ("name", "own", "ram_budget")]
    if unknown := sorted(set(table) - set(known)):
        raise InvalidArgumentError(f"{where}: unknown {unknown[0]!r}; known are {', '.join(sorted(known))}")
    if absent := [field for field in known if field not in table and field not in _OPTIONAL]:
        raise InvalidArgumentError(f"{where}: {absent[0]!r} is missing")
    values = {field: _value(where, field, value) for field, value in table.items()}
    if values["base"] != GENERIC.name and values["base"] not in targets.names():
        known = [GENERIC.name, *targets.names()]
        raise InvalidArgumentError(f"{where}: no base {values['base']!r}; name one of {', '.join(known)}")
    if values.get("flash_wait_states") and not values.get("flash_fetch_bytes"):
        raise InvalidArgumentError(f"{where}: flash_wait_states need flash_fetch_bytes, what one fetch brings")
    return Board(name=name, **values)


def _value(where: str, field: str, value: Any) -> Any:
    """The value of a field of a board; InvalidArgumentError if it has the wrong type or form."""
    if field == "ram":
        memories = read_banks(where, value, "ram")
        need_apart(where, {}, memories)
        return memories
    if field not in _TEXTS:
        return checked(where, field, value)
    if not isinstance(value, str) or not value.isprintable():
        raise InvalidArgumentError(f"{where}: {field} should be text in one line, not {value!r}")
    return value
