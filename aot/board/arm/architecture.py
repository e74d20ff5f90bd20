"""Cortex-M: Thumb instructions, boards that QEMU emulates, semihosting as Arm has it."""

from __future__ import annotations

from pathlib import Path

from twinfer.aot.board.arm.pipelines import pipeline
from twinfer.aot.build.architecture import Architecture
from twinfer.aot.build.depth import THUMB
from twinfer.aot.build.qemu import Qemu
from twinfer.aot.build.targets import Card


def runner(card: Card) -> Qemu:
    """The card's board in QEMU; its clock, SysTick, goes by instructions under ``-icount``."""
    return Qemu.system(card, clock=("-icount", "shift=6"))


ARCHITECTURE = Architecture(
    folder=Path(__file__).resolve().parent,
    program=("start.c", "bare.c", "semihost.c", "port.c"),
    selftest=("start.c", "bare.c", "semihost.c", "stdio.c"),
    runner=runner,
    instructions=THUMB,
    tag=1,
    vector_bytes=0x40,
    pipeline=pipeline,
)
