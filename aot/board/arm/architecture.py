"""Cortex-M: Thumb instructions, boards that QEMU emulates, semihosting as Arm has it."""

from __future__ import annotations

import re
from pathlib import Path

from twinfer.aot.board.arm.pipelines import pipeline, register_bytes
from twinfer.aot.build.architecture import Architecture, Instructions
from twinfer.aot.build.qemu import Qemu
from twinfer.aot.build.targets import Card


def branches(mnemonic: str) -> bool:
    """Whether it is a branch; ``bf…`` only announces one, or clears bits (``bfc``)."""
    return mnemonic.startswith(("b", "cb")) and not mnemonic.startswith("bf")


def indirect(mnemonic: str, operands: str) -> bool:
    """Whether it calls or jumps to an address in a register; a return does not count."""
    return mnemonic.startswith(("blx", "bx")) and operands != "lr" and "<" not in operands


def stack_taken(mnemonic: str, operands: str) -> int | None:
    """Bytes by which an instruction lowers the stack pointer; None if unknown."""
    base = mnemonic.split(".")[0]
    if base in ("push", "vpush") or (base in ("stmdb", "vstmdb") and operands.startswith("sp!")):
        return register_bytes(operands[operands.find("{") :])
    if base in ("str", "strd") and (pushed := re.search(r"\[sp, #-(\d+)\]!", operands)):
        return int(pushed[1])
    if base in ("sub", "subw", "subs") and operands.startswith("sp,"):
        amount = re.search(r"#(\d+)$", operands)
        return int(amount[1]) if amount else None
    if base in ("add", "addw") and operands.startswith("sp,"):
        return 0 if "#" in operands else None
    return 0


def runner(card: Card) -> Qemu:
    """The card's board in QEMU; its clock, SysTick, goes by instructions under ``-icount``."""
    return Qemu.system(card, clock=("-icount", "shift=6"))


ARCHITECTURE = Architecture(
    folder=Path(__file__).resolve().parent,
    program=("start.c", "bare.c", "semihost.c", "port.c"),
    selftest=("start.c", "bare.c", "semihost.c", "stdio.c"),
    runner=runner,
    instructions=Instructions(branches, frozenset(["bl"]), indirect, stack_taken, comments=";@"),
    tag=1,
    vector_bytes=0x40,
    pipeline=pipeline,
)
