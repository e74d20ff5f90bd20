"""RISC-V: QEMU's board virt, semihosting, picolibc."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from twinfer.aot.build.architecture import Architecture
from twinfer.aot.build.depth import RISCV
from twinfer.aot.build.qemu import Qemu
from twinfer.aot.build.targets import Card
from twinfer.aot.build.toolchain import Gnu, Toolchain
from twinfer.runtime.tools import need_tool, run_tool

#: The core that gcc's libraries are taken of for vectors, which gcc does not know.
_BARE = ("-march=rv64gc", "-mabi=lp64d")


@dataclass(frozen=True)
class Clang(Gnu):
    """clang and lld with gcc's libraries: picolibc and libgcc."""

    def linking(self, script: str) -> tuple[str, ...]:
        return *super().linking(script), *self._libraries()

    def linking_alone(self, functions: Sequence[str]) -> tuple[str, ...]:
        return *super().linking_alone(functions), *self._libraries()

    def _libraries(self) -> Iterator[str]:
        """Where they are, as options; ToolError without that gcc."""
        gcc, where = f"{self.prefix}gcc", f"/usr/lib/picolibc/{self.prefix.removesuffix('-')}/lib"
        need_tool(gcc, " ".join(self.packages))
        yield f"-L{where}/{run_tool([gcc, *_BARE, '-print-multi-directory']).strip()}"
        yield f"-L{Path(run_tool([gcc, *_BARE, '-print-libgcc-file-name']).strip()).parent}"


def toolchain(card: Card) -> Toolchain:
    kind = Clang if "clang" in card.compiler else Gnu
    return kind(card.compiler, card.binutils, card.packages)


def runner(card: Card) -> Qemu:
    """The card's board in QEMU; minstret counts instructions under ``-icount``."""
    return Qemu.system(card, clock=("-icount", "shift=0"), package="qemu-system-misc")


ARCHITECTURE = Architecture(
    folder=Path(__file__).resolve().parent,
    program=("start.c", "bare.c", "semihost.c", "port.c"),
    selftest=("start.c", "bare.c", "semihost.c", "stdio.c"),
    runner=runner,
    link_alone=("-Wl,--defsym=__flash_size=0x8000000", "-Wl,--defsym=__ram_size=0x8000000"),  # of picolibc's own script
    instructions=RISCV,
    toolchain=toolchain,
)
