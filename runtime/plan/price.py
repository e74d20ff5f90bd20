"""What rows cost on a microcontroller, estimated in instructions before anything is built."""

from __future__ import annotations

from collections.abc import Iterable

from twinfer.runtime.program import Step
from twinfer.runtime.target import Target


def instructions(steps: Iterable[Step], target: Target) -> int:
    return sum(step.call.macs for step in steps)


def call_price(target: Target) -> int:
    return 250
