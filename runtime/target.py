"""What an operator's ``lower`` may know of the machine that its call will run on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A machine to plan for.

    ``wide`` says that kernels over 16 int32 lanes pay (any SIMD host); without it ``lower`` picks the plain C kernels,
    which suit a microcontroller. ``alignment`` is that of every arena block, in bytes.
    """

    name: str
    wide: bool = False
    alignment: int = 16


HOST = Target("host", wide=True)
GENERIC = Target("generic")
