"""What a model costs in flash and RAM, byte for byte, from the linked program.

The measured image holds ``<name>_run`` and what it needs: no start-up code, no board, no test. The linker drops every
section that cannot be reached from it. So every byte of the image is the model's: its code, its constants, and what it
takes from libc, libm and libgcc.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from twinfer.aot.build.depth import Image, Section
from twinfer.aot.build.firmware import flags_for
from twinfer.aot.build.library import LIBRARY, library_sources
from twinfer.aot.build.targets import Card
from twinfer.aot.print.emit import Project
from twinfer.aot.print.slow import no_memory
from twinfer.runtime.constant import Role

#: The groups of constants that another training would change: the model's parameters.
WEIGHTS = ("weights", "biases", "multipliers")

#: A gap of up to this many bytes before a symbol is its alignment; a longer one is data without a name.
_MOST_PADDING = 63

#: Clones that gcc makes of functions: name.constprop.0, name.part.1, name.cold.
_CLONE = re.compile(r"\..*$")


@dataclass(frozen=True)
class Symbol:
    """Bytes of the image: ``group`` is code, library, params, tables, one of WEIGHTS, constants, data or bss.

    ``layer`` is its step, the first one if several share it; None if all do. ``padding`` is the bytes that its
    alignment costs, not part of ``size``.
    """

    name: str
    group: str
    size: int
    padding: int = 0
    layer: int | None = None


@dataclass(frozen=True)
class Sizes:
    """All symbols of an image. Bytes without a name are symbols without one, so sums are those of the sections."""

    symbols: tuple[Symbol, ...]
    memory_bytes: int
    groups: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        groups: dict[str, int] = {}
        for symbol in self.symbols:
            groups[symbol.group] = groups.get(symbol.group, 0) + symbol.size + symbol.padding
        object.__setattr__(self, "groups", groups)

    @property
    def weight_bytes(self) -> int:
        """Weights, biases, multipliers and shifts; their alignment included."""
        return sum(self.groups.get(group, 0) for group in WEIGHTS)

    @property
    def code_bytes(self) -> int:
        """Everything read-only except the weights: code, params, look-up tables, other constants."""
        return sum(size for group, size in self.groups.items() if group not in (*WEIGHTS, "data", "bss"))

    @property
    def flash_bytes(self) -> int:
        """Everything in flash, the initial values of data included."""
        return self.code_bytes + self.weight_bytes + self.groups.get("data", 0)

    @property
    def ram_bytes(self) -> int:
        """The arena with its scratch, the state, and all other memory that is written, except the stack."""
        return self.memory_bytes + self.groups.get("data", 0) + self.groups.get("bss", 0)

    def layer(self, i: int) -> dict[str, int]:
        """Bytes of one step by group; what several steps share counts for the first one."""
        own: dict[str, int] = {}
        for symbol in self.symbols:
            if symbol.layer == i:
                own[symbol.group] = own.get(symbol.group, 0) + symbol.size + symbol.padding
        return own


def image_sources(project: Project, card: Card) -> dict[str, str | bytes]:
    """The sources of a model's image: library.c and library_data.c, what they include, the linker's script if any."""
    sources = library_sources((replace(project, wrappers=""),), _memory, included=card.toolchain.included)
    return {**sources, **({script: card.architecture.read(script)} if (script := card.toolchain.script_alone) else {})}


def _memory(project: Project) -> str:
    """What a model asks for that is the user's, and does nothing here."""
    return no_memory(project.name) if project.constants.paged else ""


def image_words(project: Project, card: Card, build: Sequence[str] = ()) -> tuple[str, ...]:
    """The words of the linking of ``<name>_run`` and ``<name>_reset`` alone, built like a program for the card.

    ``build`` are options of the compiler in place of those that choose the level.
    """
    flags = (*card.flags, *card.toolchain.flags("balanced", build)) if build else flags_for(card, project)
    roots = [f"{project.name}_run", *([f"{project.name}_reset"] if project.plan.state_bytes else [])]
    return *flags, *card.toolchain.linking_alone(roots), *card.architecture.link_alone, *LIBRARY


def image(project: Project, card: Card) -> Path:
    """The linked image of a model alone, from the cache if there. ToolError if a tool fails."""
    return card.toolchain.link(image_sources(project, card), image_words(project, card))


def sizes(project: Project, card: Card) -> Sizes:
    """Flash and RAM of a model on a card's core."""
    return read_sizes(card.toolchain.image(image(project, card), card.architecture.tag), project)


def read_sizes(image: Image, project: Project) -> Sizes:
    """The sizes of the image of a model alone."""
    groups = _groups(project)
    symbols = [symbol for section in image.sections for symbol in _section_symbols(section, project.name, groups)]
    return Sizes(tuple(symbols), project.plan.memory_bytes)


def _section_symbols(section: Section, name: str, groups: Mapping[str, str]) -> Iterator[Symbol]:
    """The symbols of a section and the bytes between them."""
    at, kind = section.begin, section.kind
    for begin, size, symbol in section.symbols:
        gap = max(0, begin - at)
        if gap > _MOST_PADDING:
            yield Symbol("", kind, gap)
            gap = 0
        plain = _CLONE.sub("", symbol)
        size = min(begin + size, section.end) - max(begin, at)
        if size > 0:
            yield Symbol(symbol, _group(kind, plain, name, groups), size, gap, _layer(plain, name))
        at = max(at, begin + size)
    if at < section.end:
        yield Symbol("", kind, section.end - at)


def _group(kind: str, symbol: str, name: str, groups: Mapping[str, str]) -> str:
    own = symbol.startswith(f"{name}_")
    if kind == "code":
        return "code" if own else "library"
    if kind == "constants" and own:
        return groups.get(symbol, "params")
    return kind


def _layer(symbol: str, name: str) -> int | None:
    numbered = re.match(rf"{re.escape(name)}_(\d+)_", symbol)
    return int(numbered[1]) if numbered else None


#: Role of a constant -> its group.
_WORDS = {
    Role.WEIGHTS: "weights",
    Role.CODES: "weights",
    Role.BIAS: "biases",
    Role.CHANNELS: "biases",
    Role.MULTIPLIERS: "multipliers",
    Role.SHIFTS: "multipliers",
    Role.SCALES: "multipliers",
    Role.SUMS: "multipliers",
    Role.TABLE: "tables",
    Role.INDEX: "tables",
    Role.QUANT: "multipliers",
    Role.PAGE: "weights",
}


def _groups(project: Project) -> dict[str, str]:
    """Symbol -> group of every constant array of the model."""
    arrays = {definition.symbol: _WORDS[definition.constant.role] for definition in project.constants.all}
    return {**arrays, f"{project.name}_weights": "weights"} if project.constants.blob else arrays
