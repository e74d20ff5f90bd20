"""Instructions by source line: counts per address, and the lines that the program gives for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from twinfer.aot.build.firmware import Firmware
from twinfer.aot.build.runner import PATIENCE, runner_of
from twinfer.runtime.graph import Array


@dataclass(frozen=True)
class HotSpot:
    """A source line, the function (mostly a layer's) that it was compiled into, and its executed instructions."""

    place: str
    function: str
    instructions: int


def hot_spots(firmware: Firmware, inputs: Sequence[Array], *, patience: float = PATIENCE) -> list[HotSpot]:
    """The lines that one inference of the first model executed, most instructions first.

    A line of an inlined kernel has an entry per layer. ToolError as ``run_jobs``, and where nothing counts single
    instructions.
    """
    counts = runner_of(firmware.card).counted_by_address(firmware, inputs, patience).counts
    lines = Counter[tuple[str, str]]()
    for address, place in _places(firmware, list(counts)).items():
        lines[place] += counts[address]
    ranked = sorted(lines.items(), key=lambda item: (-item[1], item[0]))
    return [HotSpot(place, function, count) for (place, function), count in ranked]


def _places(firmware: Firmware, addresses: Sequence[int]) -> dict[int, tuple[str, str]]:
    """Address -> "file:line" of the innermost inlined function, and the name of the outermost."""
    frames = firmware.card.toolchain.lines(firmware.elf, addresses)
    return {address: (_short(inlined[0][1]), inlined[-1][0]) for address, inlined in frames.items()}


def _short(place: str) -> str:
    """``/tmp/x/kernels/conv2d.h:12 (discriminator 3)`` -> ``conv2d.h:12``."""
    return PurePath(place.split(" ")[0]).name
