"""What builds a card's programs and reads them: a set of abilities, each of which may be absent and is then said.

How code is compiled and how a linked file is read is known here alone; how it is linked a board folder says, too.
``Gnu`` is gcc or clang with the binutils and ELF; a board folder may have another one (``ARCHITECTURE.toolchain``).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from twinfer.aot.build.depth import Image, read_image, usage_of
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

#: The same where files are not ELF: by ``sys.platform``, of the compilers of macOS and of Windows.
INCLUDED_ELSEWHERE = {
    "darwin": """__asm__(
    ".section __TEXT,__const\\n.balign {alignment}\\n.globl _{symbol}\\n.private_extern _{symbol}\\n"
    "_{symbol}: .incbin \\"constants.bin\\", {at}, {size}\\n.text");""",
    "win32": """__asm__(
    ".section .rdata,\\"dr\\"\\n.balign {alignment}\\n.globl {symbol}\\n"
    "{symbol}: .incbin \\"constants.bin\\", {at}, {size}\\n.text");""",
}


class Toolchain(ABC):
    """The abilities. ``compiler`` and ``archiver`` are programs for makefiles.

    ``builds`` are the options, beside a card's flags, for which a model's stack can be stated: those of the macro
    NAME_STACK_BYTES_<key>, or NAME_STACK_BYTES. ``included`` is how the assembler takes a constant from a file
    (``library.py``), ``script_alone`` the linker's script for a model alone.
    """

    compiler: str
    archiver: str
    builds: ClassVar[Mapping[str, tuple[tuple[str, ...], ...]]] = {}
    included: ClassVar[str] = INCLUDED
    script_alone: ClassVar[str] = "image.ld"

    @abstractmethod
    def need(self) -> None:
        """ToolError, with what to install, if it cannot build."""

    @property
    def version(self) -> str:
        """What the compiler says of itself; ToolError if it cannot be run."""
        return compiler_version((self.compiler,))

    def flags(self, optimize: Optimize, build: Sequence[str] = ()) -> tuple[str, ...]:
        """The options of a compilation, beside those of the card; ``build``, if any, is in place of the usual level.

        Those of gcc and clang, unless a toolchain says otherwise.
        """
        return *(build or (LEVELS[optimize],)), *ARITHMETIC, *WARNINGS

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

#: What leaves out loops in assembly.
NO_ASM = "-DTW_NO_ASM"

#: One section per symbol, so that the linker can drop what is not used.
SECTIONS = ("-ffunction-sections", "-fdata-sections")

_OVERFLOW = re.compile(r"region `(\w+)' overflowed by (\d+) bytes")


@dataclass(frozen=True)
class Gnu(Toolchain):
    """gcc or clang, the binutils whose names begin with ``prefix`` ("" for this computer's)."""

    compiler: str
    prefix: str
    packages: tuple[str, ...] = ()
    builds: ClassVar = {
        "": tuple((level, *lto) for level in ("-O2", "-O3", "-Os") for lto in ((), ("-flto",))),
        "NO_ASM": (("-O2", NO_ASM), ("-O3", NO_ASM), ("-Os", NO_ASM)),
        "OG": (("-Og",), ("-Og", NO_ASM)),
        "O0": (("-O0",),),
    }

    def need(self) -> None:
        need_tool(self.compiler, " ".join(self.packages))

    @property
    def archiver(self) -> str:  # type: ignore[override]
        return f"{self.prefix}ar"

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
        return read_image(program, tag)

    def listing(self, program: Path) -> str:
        return run_tool([f"{self.prefix}objdump", "-d", "--no-show-raw-insn", str(program)])

    def frames(self, sources: Files, words: Sequence[str], product: str = "program.elf") -> dict[str, int | None]:
        if "gcc" not in self.compiler:
            raise self._lacks("tells no frames of functions")
        lto = "-flto" in words
        asked = (*words, "-fstack-usage", *(["-flto-partition=one"] if lto else []))
        command = (self.compiler, *asked, *SECTIONS, "-o", product, "-lm")
        report = f"{product}.ltrans0.ltrans.su" if lto else f"{product}-library.su"
        return usage_of(unsealed(built(sources, command, report, self.version)).decode())

    def address(self, program: Path, function: str) -> int:
        for line in run_tool([f"{self.prefix}nm", str(program)]).splitlines():
            at, *_, name = line.split()
            if name == function:
                return int(at, 16)
        raise ToolError(f"{program} has no function {function}")
