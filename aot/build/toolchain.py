"""What builds a card's programs and reads them: a set of abilities, each of which may be absent and is then said.

How code is compiled and how a linked file is read is known here alone; how it is linked a board folder says, too.
``Gnu`` is gcc or clang with the binutils and ELF; a board folder may have another one (``ARCHITECTURE.toolchain``).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal

from twinfer.kernels_c.ffi_build import ARITHMETIC
from twinfer.runtime.cache import unsealed
from twinfer.runtime.errors import ToolError
from twinfer.runtime.options import Optimize
from twinfer.runtime.tools import Files, built, compiler_version, need_tool, run_tool

#: How an assembler of GNU's takes a constant from a file: its symbol, alignment, and bytes from a place on.
INCLUDED = """__asm__(
    ".pushsection .rodata.{symbol}, \\"a\\"\\n.balign {alignment}\\n"
    ".globl {symbol}\\n.hidden {symbol}\\n.type {symbol}, %object\\n.size {symbol}, {size}\\n"
    "{symbol}: .incbin \\"constants.bin\\", {at}, {size}\\n.popsection");"""


@dataclass(frozen=True)
class Section:
    """A part of a linked program: ``kind`` is code, constants, data or bss. ``content`` is empty for bss.

    ``symbols``: address, size and name of every function and object in it, by address, of aliases one.
    """

    kind: str
    begin: int
    end: int
    content: bytes
    symbols: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True)
class Image:
    """The sections of a linked program that take memory, and how its words are stored."""

    sections: tuple[Section, ...]
    word_bytes: int
    order: Literal["little", "big"]


class Toolchain(ABC):
    """The abilities. ``compiler`` and ``archiver`` are programs for makefiles.

    ``builds`` are the options, beside a card's flags, for which a model's stack can be stated. ``included`` is how the
    assembler takes a constant from a file (``library.py``), ``script_alone`` the linker's script for a model alone.
    """

    compiler: str
    archiver: str
    builds: ClassVar[tuple[tuple[str, ...], ...]] = ()
    included: ClassVar[str] = INCLUDED
    script_alone: ClassVar[str] = "image.ld"

    @abstractmethod
    def need(self, *, to_read: bool = False) -> None:
        """ToolError, with what to install, if it cannot build or, with ``to_read``, read programs."""

    @property
    @abstractmethod
    def version(self) -> str:
        """What the compiler says of itself; ToolError if it cannot be run."""

    @abstractmethod
    def flags(self, optimize: Optimize, build: Sequence[str] = ()) -> tuple[str, ...]:
        """The options of a compilation, beside those of the card; ``build``, if any, is in place of the usual level."""

    @abstractmethod
    def link(self, sources: Files, words: Sequence[str], product: str = "program.elf") -> Path:
        """The program that the compiler makes of these files with these options, from the cache if there."""

    @abstractmethod
    def linking(self, script: str) -> tuple[str, ...]:
        """The options to link a program, by the linker's ``script`` if there is one."""

    @abstractmethod
    def linking_alone(self, functions: Sequence[str]) -> tuple[str, ...]:
        """The options to link these functions and what they call alone."""

    def overflow(self, error: ToolError) -> tuple[str, int] | None:
        """The memory that a program did not fit into, by its linker's name, and how many bytes were missing."""
        return None

    def image(self, program: Path, tag: int = 0) -> Image:
        """Sections and symbols; the bits of ``tag``, which a function's value may have set, are taken off."""
        raise self._lacks("tells no sizes")

    def listing(self, program: Path) -> str:
        """The instructions, as objdump prints them."""
        raise self._lacks("lists no instructions")

    def frames(self, sources: Files, words: Sequence[str], product: str = "program.elf") -> dict[str, int | None]:
        """Function -> bytes of its frame, None if that varies, of the program that ``link`` makes of these."""
        raise self._lacks("tells no frames of functions")

    def address(self, program: Path, function: str) -> int:
        """The address of a function."""
        raise self._lacks("tells no addresses of functions")

    def _lacks(self, what: str) -> ToolError:
        return ToolError(f"{self.compiler} {what}")


WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")

#: The compiler's level. At -Os loops over tiles that carry no "#pragma GCC unroll" keep their sums in memory: on
#: Cortex-M4 the SMLAD kernels take 2 to 8 % more instructions, plain kernels up to 40 %, for 4 to 8 % less code.
LEVELS: dict[Optimize, str] = {"speed": "-O3", "balanced": "-O3", "size": "-Os"}

#: One section per symbol, so that the linker can drop what is not used.
SECTIONS = ("-ffunction-sections", "-fdata-sections")

_NO_READER = "sizes are read by pyelftools: pip install 'twinfer[embedded]'"
_OVERFLOW = re.compile(r"region `(\w+)' overflowed by (\d+) bytes")
_FRAME = re.compile(r'node: \{ title: "(?:[^":]*:)?([^"]+)" label: "[^"]*\\n(\d+) bytes \(([^)]*)\)')


@dataclass(frozen=True)
class Gnu(Toolchain):
    """gcc or clang, the binutils whose names begin with ``prefix`` ("" for this computer's), and pyelftools."""

    compiler: str
    prefix: str
    packages: tuple[str, ...] = ()
    builds: ClassVar = tuple((level, *lto) for level in ("-O2", "-O3", "-Os") for lto in ((), ("-flto",)))

    def need(self, *, to_read: bool = False) -> None:
        need_tool(self.compiler, " ".join(self.packages))
        if to_read and find_spec("elftools") is None:
            raise ToolError(_NO_READER)

    @property
    def archiver(self) -> str:  # type: ignore[override]
        return f"{self.prefix}ar"

    @property
    def version(self) -> str:
        return compiler_version((self.compiler,))

    def flags(self, optimize: Optimize, build: Sequence[str] = ()) -> tuple[str, ...]:
        return *(build or (LEVELS[optimize],)), *ARITHMETIC, *WARNINGS

    def link(self, sources: Files, words: Sequence[str], product: str = "program.elf") -> Path:
        self.need()
        return built(sources, (self.compiler, *words, *SECTIONS, "-o", product, "-lm"), product, self.version)

    def linking(self, script: str) -> tuple[str, ...]:
        return *(["-nostartfiles"] if script else []), "-Wl,--gc-sections", *(["-T", script] if script else [])

    def linking_alone(self, functions: Sequence[str]) -> tuple[str, ...]:
        entry, *others = functions
        own = ("-nostartfiles", "-static", "-Wl,--gc-sections", "-Wl,--build-id=none", "-T", self.script_alone)
        return *own, f"-Wl,--entry={entry}", *(f"-Wl,--undefined={other}" for other in others)

    def overflow(self, error: ToolError) -> tuple[str, int] | None:
        said = _OVERFLOW.search(str(error))
        return (said[1], int(said[2])) if said else None

    def image(self, program: Path, tag: int = 0) -> Image:
        try:
            from elftools.elf.elffile import ELFFile
        except ImportError as error:
            raise ToolError(_NO_READER) from error
        with program.open("rb") as file:
            elf = ELFFile(file)
            sections = [section for section in elf.iter_sections() if section_kind(section)]
            return Image(
                tuple(_section(elf, section, tag) for section in sections),
                elf.elfclass // 8,
                "little" if elf.little_endian else "big",
            )

    def listing(self, program: Path) -> str:
        return run_tool([f"{self.prefix}objdump", "-d", "--no-show-raw-insn", str(program)])

    def frames(self, sources: Files, words: Sequence[str], product: str = "program.elf") -> dict[str, int | None]:
        if "gcc" not in self.compiler:
            raise self._lacks("tells no frames of functions")
        lto = "-flto" in words
        asked = (*words, "-fcallgraph-info=su", *(["-flto-partition=one"] if lto else []))
        command = (self.compiler, *asked, *SECTIONS, "-o", product, "-lm")
        report = f"{product}.ltrans0.ltrans.ci" if lto else f"{product}-library.ci"
        return frames_of(unsealed(built(sources, command, report, self.version)).decode())

    def address(self, program: Path, function: str) -> int:
        for line in run_tool([f"{self.prefix}nm", str(program)]).splitlines():
            at, *_, name = line.split()
            if name == function:
                return int(at, 16)
        raise ToolError(f"{program} has no function {function}")


def frames_of(told: str) -> dict[str, int | None]:
    """Function -> bytes of its frame, from gcc's .ci file; None for a frame of variable size."""
    nodes = _FRAME.findall(told)
    return {name: int(size) if kind in ("static", "dynamic,bounded") else None for name, size, kind in nodes}


def section_kind(section: Any) -> str:
    """code, constants, data or bss; empty for a section of an ELF file that takes no memory when the program runs."""
    flags, size = section["sh_flags"], section["sh_size"]
    if not flags & 2 or not size:  # SHF_ALLOC
        return ""
    if flags & 1:  # SHF_WRITE
        return "bss" if section["sh_type"] == "SHT_NOBITS" else "data"
    return "code" if flags & 4 else "constants"  # SHF_EXECINSTR


def _section(elf: Any, section: Any, tag: int) -> Section:
    kind, begin = section_kind(section), section["sh_addr"]
    content = b"" if kind == "bss" else section.data()
    return Section(kind, begin, begin + section["sh_size"], content, tuple(named_symbols(elf, section, tag)))


def named_symbols(elf: Any, section: Any, tag: int = 0) -> list[tuple[int, int, str]]:
    """Address, size and name of every function and object in a section, by address; of aliases one, preferably global.

    The bits of ``tag``, which a function's value in the table may have set, are taken off its address.
    """
    table = elf.get_section_by_name(".symtab")
    begin, end = section["sh_addr"], section["sh_addr"] + section["sh_size"]
    named: dict[int, tuple[int, bool, str]] = {}
    for symbol in table.iter_symbols() if table else ():
        kind, size = symbol["st_info"]["type"], symbol["st_size"]
        at = symbol["st_value"] & ~tag if kind == "STT_FUNC" else symbol["st_value"]
        if kind in ("STT_FUNC", "STT_OBJECT") and size and begin <= at < end:
            own = (size, symbol["st_info"]["bind"] == "STB_GLOBAL", symbol.name)
            named[at] = max(named.get(at, own), own)
    return [(at, size, name) for at, (size, _, name) in sorted(named.items())]
