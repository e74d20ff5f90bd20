"""The files of jobs and results that a program for a board reads and writes: the other side of board/harness.c."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from twinfer.aot.build.firmware import Firmware
from twinfer.aot.build.runner import Job, Result
from twinfer.aot.print.guard import check_status
from twinfer.runtime.errors import InvalidArgumentError, ToolError
from twinfer.runtime.graph import Array, Tensor

#: Files in the folder of a run: what the program reads, what it writes, and what its clock shows at each mark.
INPUTS, OUTPUTS, TICKS = "inputs.bin", "outputs.bin", "ticks.bin"

#: Instructions of the loop that gauges every counted run (board/harness.c).
LOOP = 2_000_002

#: Intervals at a run's beginning that gauge the count.
GAUGES = 3

_FRESH, _BY_STEP, _PAINT = 1, 2, 4


def job_file(firmware: Firmware, jobs: Sequence[Job], *, clock: bool = False) -> bytes:
    """The content of ``INPUTS``; ``clock`` asks for ``TICKS``. InvalidArgumentError if inputs do not fit."""
    return struct.pack("<I", clock) + b"".join(_job(firmware, job) for job in jobs)


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


def results(
    firmware: Firmware,
    jobs: Sequence[Job],
    content: bytes,
    marks: Sequence[int] | None = None,
    cycles: Sequence[int] | None = None,
    loop: int = LOOP,
) -> list[Result]:
    """The result of each job from the content of ``OUTPUTS``.

    ``marks``: what was counted at each mark, instructions or ticks; None if nothing was. ``cycles``: the same of them.
    ToolError if a run has failed.
    """
    counts: list[tuple[int, ...]] = [()] * len(jobs)
    clocks = counts
    if marks is not None:
        counts = step_counts(firmware, jobs, _intervals(marks), loop)
    if cycles is not None:
        clocks = [*beyond_empty(firmware, jobs, _intervals(cycles))]
    outputs: list[Result] = []
    at = 0
    for job, counted, taken in zip(jobs, counts, clocks, strict=True):
        status, stack = struct.unpack_from("<iI", content, at)
        if status:
            _fail(firmware, job, status)
        arrays, at = _arrays(firmware, job, content, at + 8)
        outputs.append(Result(arrays, counted, stack, taken))
    return outputs


def _fail(firmware: Firmware, job: Job, status: int) -> None:
    """Raise GuardError if a guard has stopped the run, else ToolError."""
    project = firmware.projects[job.model]
    check_status(project.plan, status)
    raise ToolError(f"{project.name}_run on {firmware.card.name} returned {status}")


def _arrays(firmware: Firmware, job: Job, content: bytes, at: int) -> tuple[tuple[Array, ...], int]:
    """A job's outputs from ``at`` on, and where the next job's begin."""
    arrays = []
    for tensor in firmware.projects[job.model].plan.graph.outputs:
        if tensor.data is not None:
            arrays.append(tensor.data)
            continue
        arrays.append(np.frombuffer(content, tensor.dtype, tensor.size, at).reshape(tensor.shape).copy())
        at += tensor.nbytes
    return tuple(arrays), at


def _intervals(marks: Sequence[int]) -> list[int]:
    """What was counted between the first mark and the second, the third and the fourth, and so on."""
    return [end - begin for begin, end in zip(marks[::2], marks[1::2], strict=True)]


def step_counts(
    firmware: Firmware, jobs: Sequence[Job], intervals: Sequence[int], loop: int = LOOP
) -> list[tuple[int, ...]]:
    """Instructions per job, without those of the marks, scaled by the loop of known length.

    The first three intervals are an empty function called as a run, as a step, and the loop. ToolError if no scale
    makes the loop's count right.
    """
    run, _, counted = intervals[:GAUGES]
    scale = (loop - 1) / (counted - run)
    if not (scale == 1 or 0.1 < scale < 0.99):
        raise ToolError(f"{counted - run + 1:,} instructions were counted for a loop of {loop:,}")
    return [tuple(round(each * scale) + 1 for each in job) for job in beyond_empty(firmware, jobs, intervals)]


def beyond_empty(firmware: Firmware, jobs: Sequence[Job], intervals: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Per job what was counted beyond the call of an empty function."""
    run, step, _ = intervals[:GAUGES]
    rest = iter(intervals[GAUGES:])
    for job in jobs:
        empty, number = (step, len(firmware.projects[job.model].layers)) if job.by_step else (run, int(not job.paint))
        yield tuple(each - empty for each in islice(rest, number))
