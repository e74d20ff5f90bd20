"""Runs Linux programs as if they were on boards: on this computer, or under QEMU for another one."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from twinfer.aot.build.architecture import Architecture
from twinfer.aot.build.depth import OTHERS
from twinfer.aot.build.firmware import Firmware
from twinfer.aot.build.jobs import INPUTS, OUTPUTS, job_file, results
from twinfer.aot.build.qemu import Qemu
from twinfer.aot.build.runner import Job, Result, Runner
from twinfer.aot.build.targets import Card
from twinfer.runtime.errors import ToolError
from twinfer.runtime.tools import run_tool


@dataclass(frozen=True)
class Here(Runner):
    """Runs programs on this computer, and counts nothing."""

    place: str = "this computer"

    @property
    def command(self) -> tuple[str, ...]:
        return ()

    def need(self) -> None:
        """Needs nothing: this computer is there."""

    def run(self, firmware: Firmware, jobs: Sequence[Job], *, count: bool, patience: float) -> list[Result]:
        if count:
            raise ToolError("this computer counts no instructions")
        with tempfile.TemporaryDirectory(prefix="twinfer-") as work:
            (Path(work) / INPUTS).write_bytes(job_file(firmware, jobs))
            run_tool([str(firmware.elf)], Path(work), patience)
            return results(firmware, jobs, (Path(work) / OUTPUTS).read_bytes())


def runner(card: Card) -> Runner:
    if not card.emulator:
        return Here()
    return Qemu(
        card.emulator, "qemu-user", ("-cpu", card.machine, *card.emulator_flags), f"{card.emulator}'s {card.machine}"
    )


ARCHITECTURE = Architecture(
    folder=Path(__file__).resolve().parent,
    program=("hosted.c", "port.c"),
    selftest=(),
    link=("-static",),
    link_alone=("-nostdlib", "-Wl,--unresolved-symbols=ignore-all"),  # glibc does not count
    runner=runner,
    instructions=OTHERS,
)
