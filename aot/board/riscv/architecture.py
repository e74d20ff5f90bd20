"""RISC-V: QEMU's board virt, semihosting, picolibc."""

from __future__ import annotations

from pathlib import Path

from twinfer.aot.build.architecture import Architecture
from twinfer.aot.build.depth import RISCV
from twinfer.aot.build.qemu import Qemu
from twinfer.aot.build.targets import Card


def runner(card: Card) -> Qemu:
    """The card's board in QEMU; minstret counts instructions under ``-icount``."""
    return Qemu.system(card, clock=("-icount", "shift=0"), package="qemu-system-misc")


ARCHITECTURE = Architecture(
    folder=Path(__file__).resolve().parent,
    program=("start.c", "bare.c", "semihost.c", "port.c"),
    selftest=("start.c", "bare.c", "semihost.c", "stdio.c"),
    runner=runner,
    instructions=RISCV,
)
