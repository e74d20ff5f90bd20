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

from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.read.files import reading
from twinfer.runtime.target import Target

#: What stands beside the emitted code in a program for a board: start-up, harness, linker script, QEMU's plugin.
BOARD = Path(__file__).resolve().parents[1] / "board"

#: What a word of a card may be, for it is printed into makefiles, scripts and comments and given to programs; in words.
_PLAIN = (re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*"), "letters, digits and . _ + -")
_FLAG = (
    re.compile(r"-(?!fplugin)([mfDUOgW]|-param=)[A-Za-z0-9._+=-]*|--?specs=(nano|nosys|rdimon)\.specs"),
    "an option of the compiler that begins with -m, -f (but -fplugin), -D, -U, -O, -g or -W, of letters, digits and "
    ". _ + = -; or --specs= of nano.specs, nosys.specs or rdimon.specs",
)


@dataclass(frozen=True)
class Card:
    """A microcontroller and the QEMU board that runs its code; the fields are explained in board/targets.toml."""

    name: str
    flags: tuple[str, ...]
    isa: tuple[str, ...]
    machine: str
    flash_origin: int
    flash_bytes: int
    ram_origin: int
    ram_bytes: int
    stack_bytes: int
    vectors: int | None = None

    @property
    def target(self) -> Target:
        """What to plan for."""
        return Target(self.name, isa=frozenset(self.isa))


def names() -> tuple[str, ...]:
    """The microcontrollers that come along."""
    return tuple(sorted(_builtin()))


def find(target: str | os.PathLike[str], also: Sequence[str] = ()) -> Card:
    """The card of that name, or the one in that TOML file.

    InvalidArgumentError if there is neither, or if the file says anything that a card does not know; ``also`` are
    other names that the caller would have taken.
    """
    if isinstance(target, str) and spelled(target) in _builtin():
        return _builtin()[spelled(target)]
    path = Path(target)
    if path.suffix != ".toml":
        raise _unknown(str(target), (*also, *names()))
    own = _read(path)
    if len(own) != 1:
        raise InvalidArgumentError(f"{path} describes {len(own)} targets, it should be one")
    (name,) = own
    return _card(name, {**_tables(), **own}, str(path))


def spelled(name: str) -> str:
    """The usual name of a core: cortex-m4 for m4, cortex_m4, CortexM4; others as they are, in lower case."""
    short = re.sub("[-_ ]", "", name.lower()).replace("+", "plus").removeprefix("cortex")
    return f"cortex-{short}" if f"cortex-{short}" in _builtin() else name.lower()


def _unknown(name: str, known: Sequence[str]) -> InvalidArgumentError:
    near = get_close_matches(spelled(name), known, 1)
    hint = f" Do you mean {near[0]}?" if near else ""
    return InvalidArgumentError(f"no target {name!r}: name one of {', '.join(known)}, or a .toml file.{hint}")


@cache
def _builtin() -> dict[str, Card]:
    return {name: _card(name, _tables(), "targets.toml") for name in _tables()}


@cache
def _tables() -> dict[str, Any]:
    return _read(BOARD / "targets.toml")


def _read(path: Path) -> dict[str, Any]:
    with reading(path, "a description of a board"):
        return tomllib.loads(path.read_text(encoding="utf-8"))


def _card(name: str, tables: Mapping[str, Any], where: str) -> Card:
    """The card ``name`` with what it takes over from its bases; every field checked, for users write them."""
    said: dict[str, Any] = {}
    base: object = name
    seen: list[object] = []
    while base is not None:
        table = tables.get(base) if isinstance(base, str) else None
        if base in seen or not isinstance(table, Mapping):
            raise InvalidArgumentError(f"{where}: {name}: there is no base {base!r}, or it is its own")
        seen.append(base)
        said = {**table, **said}
        base = table.get("base")
    said.pop("base", None)
    _word(f"{where}: {name!r}", "name", name)
    return Card(name=name, **{field: _value(f"{where}: {name}", field, said) for field in _fields(where, name, said)})


def _fields(where: str, name: str, said: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields that are said, if they are those of a card."""
    known = {field.name for field in fields(Card)} - {"name"}
    if unknown := sorted(set(said) - known):
        raise InvalidArgumentError(f"{where}: {name}: unknown {unknown[0]!r}; known are {', '.join(sorted(known))}")
    if absent := sorted(known - set(said) - {"vectors"}):
        raise InvalidArgumentError(f"{where}: {name}: {absent[0]!r} is missing; a base could give it")
    return tuple(said)


def _value(where: str, field: str, said: Mapping[str, Any]) -> Any:
    value = said[field]
    if field in ("flags", "isa"):
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return tuple(_word(where, field, word) for word in value)
        raise InvalidArgumentError(f"{where}: {field} should be a list of words, not {value!r}")
    kind = str if field == "machine" else int
    if type(value) is not kind or (isinstance(value, int) and not 0 <= value < 1 << 32):
        raise InvalidArgumentError(
            f"{where}: {field} should be {'a name' if kind is str else 'a number'}, not {value!r}"
        )
    return _word(where, field, value) if isinstance(value, str) else value


def _word(where: str, field: str, word: str) -> str:
    """The word, if it is one that this field may hold."""
    pattern, words = _FLAG if field == "flags" else _PLAIN
    if not pattern.fullmatch(word):
        raise InvalidArgumentError(f"{where}: {field} {word!r} should be {words}")
    return word
