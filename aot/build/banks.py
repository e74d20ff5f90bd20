"""The data memories of a card: what its description says of them, and the linker script's lines for their arenas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.plan.plan import Region
from twinfer.runtime.target import Bank

#: The fields of a bank in a card, with what they are if they are not there.
_FIELDS: Mapping[str, Any] = {
    "name": None,
    "origin": None,
    "bytes": None,
    "read_cost": 1,
    "write_cost": 1,
    "about": "",
}

#: Addresses are 32 bits; arenas lie at multiples of so many bytes, and are as long.
_END, _UNIT = 1 << 32, 16


@dataclass(frozen=True)
class CardBank:
    """A data memory of a machine, and the address where it begins. ``about`` says what it is good for."""

    bank: Bank
    origin: int
    about: str = ""

    @property
    def name(self) -> str:
        return self.bank.name

    @property
    def nbytes(self) -> int:
        return self.bank.nbytes

    @property
    def end(self) -> int:
        return self.origin + self.bank.nbytes

    @property
    def region(self) -> Region:
        """The arena that lies in it."""
        return Region("arena", self.bank.name)

    @property
    def label(self) -> str:
        """The name of its memory in a linker script."""
        return f"BANK_{self.bank.name.upper()}"


def read_banks(where: str, value: Any, field: str = "banks") -> tuple[CardBank, ...]:
    """The banks in a card, or the ``field`` of a board; InvalidArgumentError, beginning with ``where``, for anything
    else."""
    if not isinstance(value, list) or not all(isinstance(table, dict) for table in value):
        raise InvalidArgumentError(f"{where}: {field} should be tables, each headed [[NAME.{field}]], not {value!r}")
    return tuple(_bank(where, table) for table in value)


def _bank(where: str, table: Mapping[str, Any]) -> CardBank:
    said = {**_FIELDS, **table}
    if unknown := sorted(set(said) - set(_FIELDS)):
        raise InvalidArgumentError(f"{where}: a bank has no {unknown[0]!r}; known are {', '.join(_FIELDS)}")
    for field in ("name", "about"):
        if not isinstance(said[field], str) or not said[field].isprintable():
            raise InvalidArgumentError(f"{where}: the {field} of a bank should be a word, not {said[field]!r}")
    for field in ("origin", "bytes", "read_cost", "write_cost"):
        if type(said[field]) is not int or not 0 <= said[field] < _END:
            raise InvalidArgumentError(
                f"{where}: {field} of bank {said['name']!r} should be a number, not {said[field]!r}"
            )
    for field in ("origin", "bytes"):
        if said[field] % _UNIT:
            raise InvalidArgumentError(
                f"{where}: {field} of bank {said['name']!r} should be a multiple of {_UNIT}, as arenas are, not "
                f"{said[field]:#x}"
            )
    try:
        bank = Bank(said["name"], said["bytes"], said["read_cost"], said["write_cost"])
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{where}: {error}") from None
    return CardBank(bank, said["origin"], said["about"])


def need_apart(where: str, spans: Mapping[str, tuple[int, int]], banks: Sequence[CardBank]) -> None:
    """InvalidArgumentError if a bank has bytes in common with another or with ``spans``: [origin, end) by name."""
    names = [bank.bank.name for bank in banks]
    if twice := [name for name in names if names.count(name) > 1 or name in spans]:
        raise InvalidArgumentError(f"{where}: two memories are called {twice[0]!r}")
    taken = dict(spans)
    for bank in banks:
        for name, (origin, end) in taken.items():
            if bank.origin < end and origin < bank.end:
                raise InvalidArgumentError(f"{where}: bank {bank.bank.name!r} and {name} have bytes in common")
        taken[bank.bank.name] = bank.origin, bank.end


def memory_lines(banks: Sequence[CardBank]) -> str:
    """The banks as memories of a linker script."""
    lines = (f"\n    {b.label} (rw) : ORIGIN = {b.origin:#x}, LENGTH = {b.bank.nbytes:#x}" for b in banks)
    return "".join(lines)


def section_lines(banks: Sequence[CardBank]) -> str:
    """The section of each bank's arena in a linker script."""
    lines = (f"\n    .{b.region.value} (NOLOAD) : ALIGN(16) {{ *(.{b.region.value}) }} > {b.label}" for b in banks)
    return "".join(lines)
