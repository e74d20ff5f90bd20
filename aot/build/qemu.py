"""QEMU runs programs for boards and counts their instructions exactly.

A small plugin (``board/count.c``), compiled at need, counts them. Where there can be none, the board's own clock does,
which goes by instructions under some options and is right to a few. Neither says anything about cycles.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from twinfer.aot.build.architecture import BOARDS
from twinfer.aot.build.firmware import Firmware, build
from twinfer.aot.build.jobs import GAUGES, INPUTS, OUTPUTS, TICKS, job_file, results
from twinfer.aot.build.runner import PATIENCE, ByAddress, Job, Result, Runner
from twinfer.aot.build.targets import Card
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Array
from twinfer.runtime.tools import built, compiler_version, find_compiler, need_tool, run_tool

#: No windows, and no console except semihosting's.
_SILENT = ("-display", "none", "-monitor", "none", "-serial", "none")
_CONSOLE = ("-semihosting-config", "enable=on,target=native")

_PLUGIN_FLAGS = ("-std=c11", "-O2", "-shared", "-fPIC")
#: Of QEMU's plugin interface: 7 and 8 know 1, 9.0 knows 2, from 9.1 on 3 and later.
PLUGIN_VERSIONS = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Qemu(Runner):
    """One of QEMU's programs with its options; the last option takes the path of a program.

    ``package`` is Debian's that has it. ``clock``: options under which the board's clock goes by instructions; with
    none, only the plugin can count.
    """

    program: str
    package: str
    options: tuple[str, ...]
    place: str
    clock: tuple[str, ...] = ()

    @classmethod
    def system(cls, card: Card, clock: tuple[str, ...] = (), package: str = "") -> Qemu:
        """A card's whole board with semihosting; ``package`` has the program's name unless it is given."""
        options = ("-machine", card.machine, *card.emulator_flags, *_SILENT, *_CONSOLE, "-kernel")
        return cls(card.emulator, package or card.emulator, options, f"QEMU's {card.machine}", clock)

    @property
    def command(self) -> tuple[str, ...]:
        return self.program, *self.options

    def need(self) -> None:
        need_tool(self.program, self.package)

    def run(self, firmware: Firmware, jobs: Sequence[Job], *, count: bool, patience: float) -> list[Result]:
        self.need()
        plugin = self.counter(firmware.card) if count else None
        by_clock = count and plugin is None
        if by_clock and not self.clock:
            raise ToolError(self.uncounted(firmware.card))
        with tempfile.TemporaryDirectory(prefix="twinfer-") as work:
            folder = Path(work)
            (folder / INPUTS).write_bytes(job_file(firmware, jobs, clock=by_clock))
            counting = self.clock if by_clock else _watching(firmware, plugin, out="marks.txt")
            self.start(firmware, folder, patience, counting)
            marks = _marks(folder, plugin) if count else None
            return results(firmware, jobs, (folder / OUTPUTS).read_bytes(), marks)

    def start(self, firmware: Firmware, folder: Path, patience: float, more: Iterable[str] = ()) -> None:
        """Run a program in ``folder``, where it finds its jobs and leaves its results."""
        run_tool([self.program, *more, *self.options, str(firmware.elf)], folder, patience)

    def counter(self, card: Card) -> Path | None:
        """The plugin, compiled if need be; None if nothing counts instructions here.

        It is tried on a program without models, which only gauges the count.
        """
        return _counter(self, card)[0]

    def uncounted(self, card: Card) -> str:
        """Why there is no plugin, in the words of what failed."""
        return f"{self.program} counts no instructions here: {_counter(self, card)[1]}"

    def counted_by_address(self, firmware: Firmware, inputs: Sequence[Array], patience: float) -> ByAddress:
        plugin = self.counter(firmware.card)
        if plugin is None:
            raise ToolError(self.uncounted(firmware.card))
        with tempfile.TemporaryDirectory(prefix="twinfer-") as work:
            folder = Path(work)
            (folder / INPUTS).write_bytes(job_file(firmware, [Job(inputs)]))
            watching = _watching(firmware, plugin, pcs="pcs.txt", first=str(GAUGES))
            self.start(firmware, folder, patience, watching)
            return _by_address((folder / "pcs.txt").read_text())


@cache
def _counter(qemu: Qemu, card: Card) -> tuple[Path | None, str]:
    empty, reasons = build((), card), list[str]()
    for version in PLUGIN_VERSIONS:
        try:
            plugin = _plugin(version)
            with tempfile.TemporaryDirectory(prefix="twinfer-") as work:
                folder = Path(work)
                (folder / INPUTS).write_bytes(job_file(empty, []))
                qemu.start(empty, folder, PATIENCE, _watching(empty, plugin, out="marks.txt"))
                results(empty, [], b"", _marks(folder, plugin))
        except ToolError as error:
            reasons.append(str(error))
            continue
        return plugin, ""
    others = [reason for reason in reasons if "version" not in reason]  # than that QEMU knows another one
    return None, [*others, *reasons][0]


def _plugin(version: int) -> Path:
    compiler = find_compiler()
    source = (BOARDS / "count.c").read_text(encoding="utf-8")
    command = (*compiler, *_PLUGIN_FLAGS, f"-DAPI={version}", "count.c", "-o", "count.so")
    return built({"count.c": source}, command, "count.so", compiler_version(compiler))


def _watching(firmware: Firmware, plugin: Path | None, **arguments: str) -> tuple[str, ...]:
    """The plugin with its arguments as options of QEMU's, where a comma is doubled; none without a plugin."""
    if plugin is None:
        return ()
    told = {"mark": hex(firmware.card.toolchain.address(firmware.elf, "tw_mark")), **arguments}
    return "-plugin", ",".join([f"file={str(plugin).replace(',', ',,')}", *(f"{k}={v}" for k, v in told.items())])


def _by_address(told: str) -> ByAddress:
    """What the plugin told: lines of address, count and, at the end of a block, branches. Blocks may overlap."""
    counts, taken = Counter[int](), Counter[int]()
    for line in told.splitlines():
        at, count, *left = line.split()
        counts[int(at, 16)] += int(count)
        taken[int(at, 16)] += sum(map(int, left))
    return ByAddress(counts, +taken)


def _marks(folder: Path, plugin: Path | None) -> list[int]:
    """What was counted at each mark: instructions or, without the plugin, ticks."""
    if plugin is not None:
        return [int(line) for line in (folder / "marks.txt").read_text().split()]
    ticks: list[int] = np.fromfile(folder / TICKS, "<u8").tolist()
    return ticks
