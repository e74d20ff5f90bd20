"""What a model costs in flash and RAM, byte for byte, from the linked ELF.

The image that is measured holds ``<name>_run`` and what it needs, and nothing else: no start-up code, no board, no
test; the linker drops every section that cannot be reached from it. So every byte of the image is the model's: its
code, its constants, and what it takes from libc, libm and libgcc.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from twinfer.aot.build.library import library_sources
from twinfer.aot.build.targets import BOARD
from twinfer.aot.build.tools import built, compiler_version
from twinfer.aot.print.emit import Project
from twinfer.runtime.constant import Role
from twinfer.runtime.errors import ToolError

#: One section a symbol, so that the linker can drop what is not used.
SECTIONS = ("-ffunction-sections", "-fdata-sections")

#: Nothing but the model and what it calls.
_ALONE = ("-nostartfiles", "-static", "-Wl,--gc-sections", "-Wl,--build-id=none", "-T", "image.ld")

#: Groups of constants that belong to the model's parameters: what another training would change, and its size.
WEIGHTS = ("weights", "biases", "multipliers")

#: A gap before a symbol up to this many bytes is its alignment, a longer one is data without a name.
_MOST_PADDING = 63

#: Clones that gcc makes of functions: name.constprop.0, name.part.1, name.cold.
_CLONE = re.compile(r"\..*$")


@dataclass(frozen=True)
class Symbol:
    """Bytes of the image: ``group`` is code, library, params, tables, one of WEIGHTS, constants, data or bss.

    ``layer`` is the step it belongs to, the first one if several share it; None for what all have in common.
    ``padding`` is what its alignment costs, not part of ``size``.
    """

    name: str
    group: str
    size: int
    padding: int = 0
    layer: int | None = None


@dataclass(frozen=True)
class Sizes:
    """All of an image. What has no name in it is a symbol without one, so the sums are those of the sections."""

    symbols: tuple[Symbol, ...]
    arena_bytes: int
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
        """Everything read-only but the weights: code, params, look-up tables, other constants."""
        return sum(size for group, size in self.groups.items() if group not in (*WEIGHTS, "data", "bss"))

    @property
    def flash_bytes(self) -> int:
        """All that is kept in flash, the initial values of data included."""
        return self.code_bytes + self.weight_bytes + self.groups.get("data", 0)

    @property
    def ram_bytes(self) -> int:
        """The arena, scratch in it, and all other memory that is written, but for the stack."""
        return self.arena_bytes + self.groups.get("data", 0) + self.groups.get("bss", 0)

    def layer(self, i: int) -> dict[str, int]:
        """Bytes of one step by group; what several steps share is the first one's."""
        found: dict[str, int] = {}
        for symbol in self.symbols:
            if symbol.layer == i:
                found[symbol.group] = found.get(symbol.group, 0) + symbol.size + symbol.padding
        return found


def image_sources(project: Project) -> dict[str, str | bytes]:
    """What the image of a model is made from: library.c and library_data.c, what they include, the linker's script."""
    script = (BOARD / "arm" / "image.ld").read_text(encoding="utf-8")
    return {**library_sources((replace(project, wrappers=""),), lambda _: ""), "image.ld": script}


def image(project: Project, compiler: str, flags: Sequence[str]) -> Path:
    """The linked image of ``<name>_run`` alone, from the cache if it is there.

    ``flags`` are those of the build that is to be measured, the linker's among them. ToolError if a tool fails.
    """
    roots = [f"-Wl,--entry={project.name}_run"]
    if project.plan.resets:
        roots.append(f"-Wl,--undefined={project.name}_reset")
    command = (compiler, *flags, *SECTIONS, *_ALONE, *roots, "library.c", "library_data.c", "-o", "image.elf", "-lm")
    return built(image_sources(project), command, "image.elf", compiler_version((compiler,)))


def sizes(project: Project, compiler: str, flags: Sequence[str]) -> Sizes:
    """Flash and RAM of a model as that compiler makes it with those flags."""
    return read_sizes(image(project, compiler, flags), project)


def read_sizes(path: Path, project: Project) -> Sizes:
    """The sizes of an image that ``image`` made."""
    groups = _groups(project)
    symbols: list[Symbol] = []
    with path.open("rb") as file:
        elf = open_elf(file)
        for section in elf.iter_sections():
            if kind := section_kind(section):
                symbols += _section_symbols(kind, section, named_symbols(elf, section), project.name, groups)
    return Sizes(tuple(symbols), project.plan.arena_bytes)


def open_elf(file: Any) -> Any:
    """The file as pyelftools sees it; ToolError if that is not installed."""
    try:
        from elftools.elf.elffile import ELFFile
    except ImportError as error:
        raise ToolError("sizes are read by pyelftools: pip install 'twinfer[embedded]'") from error
    return ELFFile(file)


def section_kind(section: Any) -> str:
    """code, constants, data or bss; empty for a section that takes no memory when the program runs."""
    flags, size = section["sh_flags"], section["sh_size"]
    if not flags & 2 or not size:  # SHF_ALLOC
        return ""
    if flags & 1:  # SHF_WRITE
        return "bss" if section["sh_type"] == "SHT_NOBITS" else "data"
    return "code" if flags & 4 else "constants"  # SHF_EXECINSTR


def named_symbols(elf: Any, section: Any) -> list[tuple[int, int, str]]:
    """Address, size and name of every function and object in a section, by address; aliases once, a global one first.

    Thumb functions have an odd value in the table; the address is the even one.
    """
    table = elf.get_section_by_name(".symtab")
    begin, end = section["sh_addr"], section["sh_addr"] + section["sh_size"]
    thumb = elf["e_machine"] == "EM_ARM"
    found: dict[int, tuple[int, bool, str]] = {}
    for symbol in table.iter_symbols() if table else ():
        kind, size = symbol["st_info"]["type"], symbol["st_size"]
        at = symbol["st_value"] & ~1 if thumb and kind == "STT_FUNC" else symbol["st_value"]
        if kind in ("STT_FUNC", "STT_OBJECT") and size and begin <= at < end:
            own = (size, symbol["st_info"]["bind"] == "STB_GLOBAL", symbol.name)
            found[at] = max(found.get(at, own), own)
    return [(at, size, name) for at, (size, _, name) in sorted(found.items())]


def _section_symbols(
    kind: str, section: Any, named: list[tuple[int, int, str]], name: str, groups: Mapping[str, str]
) -> Iterator[Symbol]:
    """The symbols of a section and the bytes between them."""
    at, end = section["sh_addr"], section["sh_addr"] + section["sh_size"]
    for begin, size, symbol in named:
        gap = max(0, begin - at)
        if gap > _MOST_PADDING:
            yield Symbol("", kind, gap)
            gap = 0
        plain = _CLONE.sub("", symbol)
        size = min(begin + size, end) - max(begin, at)
        if size > 0:
            yield Symbol(symbol, _group(kind, plain, name, groups), size, gap, _layer(plain, name))
        at = max(at, begin + size)
    if at < end:
        yield Symbol("", kind, end - at)


def _group(kind: str, symbol: str, name: str, groups: Mapping[str, str]) -> str:
    own = symbol.startswith(f"{name}_")
    if kind == "code":
        return "code" if own else "library"
    if kind == "constants" and own:
        return groups.get(symbol, "params")
    return kind


def _layer(symbol: str, name: str) -> int | None:
    found = re.match(rf"{re.escape(name)}_(\d+)_", symbol)
    return int(found[1]) if found else None


#: What people are told of a constant, by its role.
_WORDS = {
    Role.WEIGHTS: "weights",
    Role.CODES: "weights",
    Role.BIAS: "biases",
    Role.REQUANTIZE: "multipliers",
    Role.TABLE: "tables",
    Role.INDEX: "tables",
}


def _groups(project: Project) -> dict[str, str]:
    """Symbol -> group of every constant array of the model."""
    return {definition.symbol: _WORDS[definition.constant.role] for definition in project.constants.all}
