"""Programs for microcontrollers, run under QEMU: outputs, and how many instructions they took, exactly.

Instructions are counted by a small plugin (``board/count.c``) that is compiled at need; where that cannot be, by the
core's timer under ``-icount``, good to a few instructions. Neither says anything of cycles.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np

from twinfer.aot.build.firmware import Firmware, build
from twinfer.aot.build.host import find_compiler
from twinfer.aot.build.targets import BOARD, Card, find
from twinfer.aot.build.tools import built, compiler_version, need_tool, run_tool
from twinfer.aot.print.emit import Project
from twinfer.aot.print.guard import check_status
from twinfer.runtime.errors import InvalidArgumentError, ToolError
from twinfer.runtime.graph import Tensor
from twinfer.runtime.op import Array

QEMU, QEMU_PACKAGE = "qemu-system-arm", "qemu-system-arm"

#: No windows, no consoles but semihosting's.
_CONSOLE = ("-semihosting-config", "enable=on,target=native")
SILENT = ("-display", "none", "-monitor", "none", "-serial", "none", "-nodefaults", *_CONSOLE)

#: Longest that QEMU may take, in seconds; it executes some 300 million instructions in one.
PATIENCE = 300.0

#: Instructions of the loop that every counted run is gauged on (board/harness.c).
LOOP = 2_000_002

_PLUGIN_FLAGS = ("-std=c11", "-O2", "-shared", "-fPIC")
#: Of QEMU's plugin interface: 7 and 8 know 1, 9.0 knows 2, from 9.1 on 3 and later.
PLUGIN_VERSIONS = (1, 2, 3, 4, 5)

_FRESH, _BY_STEP, _PAINT = 1, 2, 4

#: Intervals at a run's beginning that gauge the count.
_GAUGES = 3


@dataclass(frozen=True)
class Job:
    """One inference: which model of the program, on what, from a fresh state or going on, whole or step by step.

    ``paint`` measures the stack of the whole run; that one is not counted.
    """

    inputs: Sequence[Array]
    model: int = 0
    fresh: bool = True
    by_step: bool = False
    paint: bool = False


@dataclass(frozen=True)
class Result:
    """What a job gave: the outputs, and the instructions of the run or, by step, of every step; none if not counted.

    ``stack_bytes`` is the deepest that the stack of a ``paint`` job was written, from the call on; 0 for others.
    """

    outputs: tuple[Array, ...]
    counts: tuple[int, ...]
    stack_bytes: int = 0


@dataclass(frozen=True)
class Measurement:
    """One inference: outputs, instructions of ``NAME_run`` with everything in place, and of every layer's function.

    ``stack_bytes`` is how deep the stack was written, from the call of ``NAME_run`` on.
    """

    outputs: tuple[Array, ...]
    instructions: int
    layers: tuple[int, ...]
    stack_bytes: int


def run(firmware: Firmware, inputs: Sequence[Array], *, patience: float = PATIENCE) -> tuple[Array, ...]:
    """The outputs of the program's first model."""
    return run_jobs(firmware, [Job(inputs)], count=False, patience=patience)[0].outputs


def measure(project: Project, card: Card, inputs: Sequence[Array]) -> Measurement:
    """Build and run a model, whole and layer by layer, and count; the same figures every time."""
    jobs = [Job(inputs), Job(inputs, by_step=True), Job(inputs, paint=True)]
    whole, steps, painted = run_jobs(build(project, card), jobs)
    return Measurement(whole.outputs, whole.counts[0], steps.counts, painted.stack_bytes)


def run_jobs(
    firmware: Firmware, jobs: Sequence[Job], *, count: bool = True, patience: float = PATIENCE
) -> list[Result]:
    """Run the jobs one after the other in one run of QEMU.

    InvalidArgumentError if inputs do not fit; ToolError if QEMU is missing, hangs or reports a fault.
    """
    need_tool(QEMU, QEMU_PACKAGE)
    plugin = counter() if count else None
    with tempfile.TemporaryDirectory(prefix="twinfer-") as work:
        folder = Path(work)
        clock = struct.pack("<I", count and plugin is None)
        (folder / "inputs.bin").write_bytes(clock + b"".join(_job(firmware, job) for job in jobs))
        start(firmware, folder, patience, _counting(firmware, plugin) if count else ())
        outputs = _outputs(firmware, jobs, (folder / "outputs.bin").read_bytes())
        intervals = _intervals(folder, plugin) if count else None
    counts = _counts(firmware, jobs, intervals) if intervals else [()] * len(jobs)
    return [Result(made, count, stack) for (made, stack), count in zip(outputs, counts, strict=True)]


def start(firmware: Firmware, folder: Path, patience: float, more: Iterable[str] = ()) -> None:
    """Run QEMU in ``folder``, where the program finds its input and leaves its output."""
    machine = ("-machine", firmware.card.machine, "-kernel", str(firmware.elf))
    run_tool([QEMU, *machine, *SILENT, *more], folder, patience)


def _job(firmware: Firmware, job: Job) -> bytes:
    plan = firmware.projects[job.model].plan
    if len(job.inputs) != len(plan.graph.inputs):
        raise InvalidArgumentError(f"{len(plan.graph.inputs)} inputs are needed, not {len(job.inputs)}")
    how = _FRESH * job.fresh | _BY_STEP * job.by_step | _PAINT * job.paint
    parts = [struct.pack("<II", job.model, how)]
    for tensor, value in zip(plan.graph.inputs, job.inputs, strict=True):
        if tensor.data is None:
            parts.append(_bytes(tensor, value))
    return b"".join(parts)


def _bytes(tensor: Tensor, value: Array) -> bytes:
    if value.shape != tensor.shape or value.dtype != tensor.dtype:
        raise InvalidArgumentError(f"{tensor} cannot take {value.dtype}{list(value.shape)}")
    return value.tobytes()


def _outputs(firmware: Firmware, jobs: Sequence[Job], content: bytes) -> list[tuple[tuple[Array, ...], int]]:
    """Outputs and stack of every job."""
    found, at = [], 0
    for job in jobs:
        project = firmware.projects[job.model]
        status, stack = struct.unpack_from("<iI", content, at)
        at += 8
        if status:
            check_status(project.plan, status)
            raise ToolError(f"{project.name}_run on {firmware.card.name} returned {status}")
        arrays = []
        for tensor in project.plan.graph.outputs:
            if tensor.data is not None:
                arrays.append(tensor.data)
                continue
            arrays.append(np.frombuffer(content, tensor.dtype, tensor.size, at).reshape(tensor.shape).copy())
            at += tensor.nbytes
        found.append((tuple(arrays), stack))
    return found


# -- counting ----------------------------------------------------------------------------------------------------------


@cache
def counter() -> Path | None:
    """The plugin, compiled if need be; None where it cannot be or this QEMU does not take it.

    It is tried on a program without models, which does nothing but gauge the count.
    """
    empty = build((), find("cortex-m4"))
    for version in PLUGIN_VERSIONS:
        try:
            plugin = _plugin(version)
            with tempfile.TemporaryDirectory(prefix="twinfer-") as work:
                folder = Path(work)
                (folder / "inputs.bin").write_bytes(struct.pack("<I", 0))
                start(empty, folder, PATIENCE, _counting(empty, plugin))
                _counts(empty, [], _intervals(folder, plugin))
        except ToolError:
            continue
        return plugin
    return None


def _plugin(version: int) -> Path:
    compiler = find_compiler()
    source = (BOARD / "arm" / "count.c").read_text(encoding="utf-8")
    command = (*compiler, *_PLUGIN_FLAGS, f"-DAPI={version}", "count.c", "-o", "count.so")
    return built({"count.c": source}, command, "count.so", compiler_version(compiler))


def _option(plugin: Path, **arguments: str) -> str:
    """The plugin as QEMU's option, where a comma is doubled."""
    return ",".join([f"file={str(plugin).replace(',', ',,')}", *(f"{k}={v}" for k, v in arguments.items())])


def counted_by_address(firmware: Firmware, inputs: Sequence[Array], patience: float = PATIENCE) -> dict[int, int]:
    """How often every instruction of the program was executed in one run of its first model; what never was, is absent.

    The few of the harness around the run are among them.
    """
    plugin = counter()
    if plugin is None:
        raise ToolError(f"{QEMU} takes no plugins here, or there is no compiler for one")
    counts: dict[int, int] = {}
    with tempfile.TemporaryDirectory(prefix="twinfer-") as work:
        folder = Path(work)
        (folder / "inputs.bin").write_bytes(struct.pack("<I", 0) + _job(firmware, Job(inputs)))
        mark = hex(address(firmware, "tw_mark"))
        start(firmware, folder, patience, ("-plugin", _option(plugin, mark=mark, pcs="pcs.txt", first=str(_GAUGES))))
        for line in (folder / "pcs.txt").read_text().splitlines():
            at, _, count = line.partition(" ")
            counts[int(at, 16)] = counts.get(int(at, 16), 0) + int(count)
    return counts


def _counting(firmware: Firmware, plugin: Path | None) -> tuple[str, ...]:
    """QEMU's options: the plugin or, without it, a clock that goes by instructions."""
    if plugin is None:
        return "-icount", "shift=6"
    return "-plugin", _option(plugin, mark=hex(address(firmware, "tw_mark")), out="marks.txt")


def address(firmware: Firmware, symbol: str) -> int:
    """Where a function of the program lies."""
    for line in run_tool(["arm-none-eabi-nm", str(firmware.elf)]).splitlines():
        at, _, name = line.split(maxsplit=2)
        if name == symbol:
            return int(at, 16)
    raise ToolError(f"{firmware.elf} has no function {symbol}")


def _intervals(folder: Path, plugin: Path | None) -> list[int]:
    """What was counted between the first mark and the second, the third and the fourth, …; instructions or ticks."""
    if plugin is not None:
        marks = [int(line) for line in (folder / "marks.txt").read_text().split()]
    else:
        marks = np.fromfile(folder / "ticks.bin", "<u8").tolist()
    return [end - begin for begin, end in zip(marks[::2], marks[1::2], strict=True)]


def _counts(firmware: Firmware, jobs: Sequence[Job], intervals: Sequence[int]) -> list[tuple[int, ...]]:
    """Instructions by job: without the marks' own, and scaled to the loop of known length.

    The first three intervals are an empty function called as a run, as a step, and the loop.
    """
    run, step, loop = intervals[:_GAUGES]
    scale = (LOOP - 1) / (loop - run)
    if not (scale == 1 or 0.1 < scale < 0.99):
        raise ToolError(f"QEMU counted {loop - run + 1:,} instructions for a loop of {LOOP:,}")
    rest = iter(intervals[_GAUGES:])
    counts = []
    for job in jobs:
        empty, number = (step, len(firmware.projects[job.model].layers)) if job.by_step else (run, int(not job.paint))
        counts.append(tuple(round((i - empty) * scale) + 1 for i in islice(rest, number)))
    return counts
