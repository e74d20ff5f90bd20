"""The machines that code can be emitted, built and run for: cards in ``board/targets.toml``, and the user's own."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from twinfer.aot.build.architecture import BOARDS, Architecture, load
from twinfer.aot.build.banks import CardBank, need_apart, read_banks
from twinfer.aot.build.toolchain import Toolchain
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.read.files import reading
from twinfer.runtime.target import Target, computer, microcontroller

#: A word of letters, digits and a few signs: it cannot begin an option, and means nothing to a shell.
_WORD = r"[A-Za-z0-9][A-Za-z0-9._+-]*"

#: What a word of a card may be, as a pattern and in words: it goes into makefiles, scripts, comments and command lines.
_PLAIN = (_WORD, "letters, digits and . _ + -")
_PATTERNS = {"board": (rf"(\./)?{_WORD}", "the name of a folder of board/, or ./ and that of a folder beside the card")}

#: Of a card without a board folder of its own: no text of it runs anything but the tools that it is for.
_TOOLS = {
    "flags": (
        rf"-(?!fplugin|fpass-plugin)([mfDUOgW]|-param=)[A-Za-z0-9._+=-]*|--?specs={_WORD}\.specs|--target={_WORD}"
        rf"|--picolibc-buildtype={_WORD}|--sysroot=/[A-Za-z0-9._/+-]*",
        "an option of the compiler that begins with -m, -f (but plugins), -D, -U, -O, -g or -W, of letters, digits "
        "and . _ + = -; --target= of a machine; --sysroot= of a folder; --specs= of a file of the compiler's own; or "
        "--picolibc-buildtype=",
    ),
    "compiler": (rf"({_WORD}-)?(gcc|clang)(-[0-9.]+)?", "the name of a gcc or clang: PREFIX-gcc, PREFIX-gcc-VERSION"),
    "binutils": (rf"({_WORD}-)?", "what names of binutils begin with: PREFIX-, or empty for this computer's"),
    "emulator": (r"(qemu-[A-Za-z0-9_-]+)?", "the name of one of QEMU's programs, or empty"),
    "emulator_flags": (rf"-(cpu|bios|m|smp|icount)|{_WORD}([=,]{_WORD})*", "-cpu, -bios, -m, -smp, -icount or a value"),
}

#: The same fields of a card with such a folder, whose Python runs anyway: any text in one line.
_ANY = (r"[^\x00-\x1f\x7f]*", "text in one line")

_RATES = ("clock_mhz", "energy_pj_per_cycle")
FLASH = ("flash_wait_states", "flash_fetch_bytes")
_OPTIONAL = ("vectors", "banks", "emulator_flags", *_RATES, *FLASH)
_LISTS = ("flags", "isa", "packages", "emulator_flags")
_NUMBERS = ("flash_origin", "flash_bytes", "ram_origin", "ram_bytes", "stack_bytes", "vectors", *FLASH)


@dataclass(frozen=True)
class Card:
    """A core, the tools that build for it, and the board that runs its code; board/targets.toml explains the fields."""

    name: str
    flags: tuple[str, ...]
    isa: tuple[str, ...]
    compiler: str
    binutils: str
    packages: tuple[str, ...]
    emulator: str
    machine: str
    board: str
    flash_origin: int
    flash_bytes: int
    ram_origin: int
    ram_bytes: int
    stack_bytes: int
    emulator_flags: tuple[str, ...] = ()
    vectors: int | None = None
    banks: tuple[CardBank, ...] = ()
    clock_mhz: float | None = None
    flash_wait_states: int | None = None
    flash_fetch_bytes: int | None = None
    energy_pj_per_cycle: float | None = None

    @property
    def target(self) -> Target:
        """The target to plan for."""
        machine = computer if "simd" in self.isa else microcontroller
        return machine(self.name, *self.isa).with_banks(*(each.bank for each in self.banks))

    @property
    def toolchain(self) -> Toolchain:
        """What builds its programs and reads them; InvalidArgumentError if it has no board folder."""
        return self.architecture.toolchain(self)

    @property
    def architecture(self) -> Architecture:
        """The architecture that its board folder describes; InvalidArgumentError if there is none."""
        return load(self.board)


def names() -> tuple[str, ...]:
    """The names of the cards that twinfer brings."""
    return tuple(sorted(_builtin()))


def find(target: str | os.PathLike[str], also: Sequence[str] = ()) -> Card:
    """The card of that name, or the one in that TOML file.

    InvalidArgumentError if there is neither, or the file has an unknown or wrong field. The message also offers the
    names ``also``, which the caller takes.
    """
    if isinstance(target, str) and spelled(target) in _builtin():
        return _builtin()[spelled(target)]
    path = Path(target)
    if path.suffix != ".toml":
        raise _unknown(str(target), (*also, *names()))
    own = read_tables(path)
    if len(own) != 1:
        raise InvalidArgumentError(f"{path} describes {len(own)} targets, it should be one")
    (name,) = own
    return _card(name, {**_tables(), **own}, path)


def spelled(name: str) -> str:
    """The usual name of a core: cortex-m4 for m4, cortex_m4, CortexM4; others as they are, in lower case."""
    short = re.sub("[-_ ]", "", name.lower()).replace("+", "plus").removeprefix("cortex")
    return f"cortex-{short}" if f"cortex-{short}" in _builtin() else name.lower()


def _unknown(name: str, known: Sequence[str]) -> InvalidArgumentError:
    near = get_close_matches(spelled(name), known, 1)
    hint = f" Do you mean {near[0]}?" if near else ""
    which = f"{', '.join(known)}, a board (twinfer boards) or a .toml file"
    return InvalidArgumentError(f"no target {name!r}: name one of {which}.{hint}")


@cache
def _builtin() -> dict[str, Card]:
    return {name: _card(name, _tables(), BOARDS / "targets.toml") for name in _tables()}


@cache
def _tables() -> dict[str, Any]:
    return read_tables(BOARDS / "targets.toml")


def read_tables(path: Path) -> dict[str, Any]:
    """The tables of a file of TOML; InvalidArgumentError if it is none."""
    with reading(path, "a description of a board"):
        return tomllib.loads(path.read_text(encoding="utf-8"))


def _card(name: str, tables: Mapping[str, Any], path: Path) -> Card:
    """The card ``name`` with what it takes over from its bases; every field is checked, for users write them."""
    where = f"{path}: {name}"
    _word(f"{path}: {name!r}", "name", name)
    said = _inherited(name, tables, where)
    words = {**_PATTERNS, **(dict.fromkeys(_TOOLS, _ANY) if str(said.get("board")).startswith("./") else _TOOLS)}
    values = {field: checked(where, field, said[field], words) for field in _fields(where, said)}
    if values["board"].startswith("./"):
        values["board"] = str(path.resolve().parent / values["board"])
    card = Card(name=name, **values)
    if card.flash_wait_states and not card.flash_fetch_bytes:
        raise InvalidArgumentError(f"{where}: flash_wait_states need flash_fetch_bytes, what one fetch brings")
    spans = {
        "flash": (card.flash_origin, card.flash_origin + card.flash_bytes),
        "ram": (card.ram_origin, card.ram_origin + card.ram_bytes),
    }
    need_apart(where, spans, card.banks)
    return card


def _inherited(name: str, tables: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The fields of a card and its bases; the nearest one wins."""
    said: dict[str, Any] = {}
    base: object = name
    seen: list[object] = []
    while base is not None:
        table = tables.get(base) if isinstance(base, str) else None
        if base in seen or not isinstance(table, Mapping):
            raise InvalidArgumentError(f"{where}: there is no base {base!r}, or it is its own")
        seen.append(base)
        said = {**table, **said}
        base = table.get("base")
    said.pop("base", None)
    return said


def _fields(where: str, said: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the fields; InvalidArgumentError unless they are those of a card."""
    known = [field.name for field in fields(Card) if field.name != "name"]
    if unknown := sorted(set(said) - set(known)):
        raise InvalidArgumentError(f"{where}: unknown {unknown[0]!r}; known are {', '.join(sorted(known))}")
    if absent := [field for field in known if field not in said and field not in _OPTIONAL]:
        raise InvalidArgumentError(f"{where}: {absent[0]!r} is missing; a base could give it")
    return tuple(said)


def checked(where: str, field: str, value: Any, words: Mapping[str, tuple[str, str]] = _PATTERNS) -> Any:
    """The value of a field; InvalidArgumentError if it has the wrong type or form. ``words`` are patterns of words."""
    if field == "banks":
        return read_banks(where, value)
    if field in _LISTS:
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return tuple(_word(where, field, word, words) for word in value)
        raise InvalidArgumentError(f"{where}: {field} should be a list of words, not {value!r}")
    if field in _RATES:
        return _rate(where, field, value)
    kind = int if field in _NUMBERS else str
    if type(value) is not kind or (isinstance(value, int) and not 0 <= value < 1 << 32):
        raise InvalidArgumentError(
            f"{where}: {field} should be {'a name' if kind is str else 'a number'}, not {value!r}"
        )
    return _word(where, field, value, words) if isinstance(value, str) else value


def _rate(where: str, field: str, value: Any) -> float:
    """A positive number, whole or not."""
    if type(value) not in (int, float) or not 0 < value < 1 << 32:
        raise InvalidArgumentError(f"{where}: {field} should be a number above 0, not {value!r}")
    return float(value)


def _word(where: str, field: str, word: str, words: Mapping[str, tuple[str, str]] = _PATTERNS) -> str:
    """The word; InvalidArgumentError if this field may not hold it."""
    pattern, about = words.get(field, _PLAIN)
    if not re.fullmatch(pattern, word):
        raise InvalidArgumentError(f"{where}: {field} {word!r} should be {about}")
    return word
