"""RISC-V: QEMU's board virt, semihosting, picolibc."""

from __future__ import annotations

import re
from pathlib import Path

from twinfer.aot.build.architecture import Architecture, Instructions
from twinfer.aot.build.qemu import Qemu
from twinfer.aot.build.targets import Card

_TAKEN = re.compile(r"sp,sp,(-?\d+)")


def branches(mnemonic: str) -> bool:
    """Whether it may branch; bit operations (``bset``), which begin alike, name no target."""
    return mnemonic.startswith(("b", "j"))


def indirect(mnemonic: str, operands: str) -> bool:
    """Whether it calls or jumps to an address in a register that objdump does not know; ``ret`` does not count."""
    return mnemonic in ("jalr", "jr") and operands != "ra" and "<" not in operands


def stack_taken(mnemonic: str, operands: str) -> int | None:
    """Bytes by which an instruction lowers the stack pointer; None if unknown."""
    if not operands.startswith("sp,") or mnemonic.startswith(("b", "s")):  # compares or stores it
        return None if mnemonic == "sub" and operands.startswith("sp,") else 0
    taken = _TAKEN.fullmatch(operands)
    return max(0, -int(taken[1])) if mnemonic == "addi" and taken else None


def runner(card: Card) -> Qemu:
    """The card's board in QEMU; minstret counts instructions under ``-icount``."""
    return Qemu.system(card, clock=("-icount", "shift=0"), package="qemu-system-misc")


ARCHITECTURE = Architecture(
    folder=Path(__file__).resolve().parent,
    program=("start.c", "bare.c", "semihost.c", "port.c"),
    selftest=("start.c", "bare.c", "semihost.c", "stdio.c"),
    runner=runner,
    instructions=Instructions(branches, frozenset(["jal", "jalr"]), indirect, stack_taken),
)
