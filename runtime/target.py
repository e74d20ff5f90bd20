"""What an operator's ``lower`` may know of the machine that its call will run on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from twinfer.runtime.errors import InvalidArgumentError

#: What to spend flash on: fewest instructions, least flash, or what lies between.
Optimize = Literal["speed", "balanced", "size"]

#: How constant weights are stored: as the model's file holds them (of INT4 in at most 4 bits where that saves flash,
#: all others plain), as kernels read them, in every layer's smallest coding (or a faster one of nearly that size) where
#: that saves flash, or in one wherever it is possible. A host that SIMD pays on keeps INT4 plain, too.
Coding = Literal["file", "plain", "auto", "lut", "huffman", "bitmap"]

#: When coded weights are decoded: right before their layer, in every run, or once, to memory of their own.
Decoding = Literal["layer", "start"]


@dataclass(frozen=True)
class Target:
    """A machine to plan for.

    ``wide`` says that kernels over 16 int32 lanes pay (any SIMD host); ``isa`` names the extensions of a Cortex-M that
    kernels may use: "dsp" (SMLAD and its kin), "mve" (Helium). Without any of them ``lower`` picks the plain C kernels.
    Kernels for an extension run everywhere, on plain C stand-ins where it is absent. ``alignment`` is that of every
    arena block, in bytes; ``optimize`` what to spend flash on; ``coding`` and ``decoding`` how weights are stored.
    """

    name: str
    wide: bool = False
    isa: frozenset[str] = frozenset()
    alignment: int = 16
    optimize: Optimize = "balanced"
    coding: Coding = "file"
    decoding: Decoding = "layer"

    @property
    def dsp(self) -> bool:
        """Whether to take kernels on SMLAD; where there is Helium, it is better."""
        return "dsp" in self.isa and not self.mve

    @property
    def mve(self) -> bool:
        """Whether to take kernels on Helium."""
        return "mve" in self.isa

    def optimized(self, optimize: str) -> Target:
        """The same for another use of flash; InvalidArgumentError if ``optimize`` is none."""
        return replace(self, optimize=checked_optimize(optimize))

    def storing(self, coding: str, decoding: str = "layer") -> Target:
        """The same with weights stored otherwise; InvalidArgumentError for what there is not."""
        if not isinstance(coding, str) or coding not in get_args(Coding):
            raise InvalidArgumentError(f"cannot store weights as {coding!r}, only as {', '.join(get_args(Coding))}")
        if not isinstance(decoding, str) or decoding not in get_args(Decoding):
            raise InvalidArgumentError(
                f"cannot decode weights at {decoding!r}, only at {', '.join(get_args(Decoding))}"
            )
        return replace(self, coding=coding, decoding=decoding)  # type: ignore[arg-type]


def checked_optimize(name: str) -> Optimize:
    """``name`` if it is one of ``Optimize``, else InvalidArgumentError."""
    if not isinstance(name, str) or name not in get_args(Optimize):
        raise InvalidArgumentError(f"cannot optimize for {name!r}, only for {', '.join(get_args(Optimize))}")
    return name  # type: ignore[return-value]


HOST = Target("host", wide=True)
GENERIC = Target("generic")
DSP = Target("dsp", isa=frozenset(["dsp"]))
MVE = Target("mve", isa=frozenset(["dsp", "mve"]))

#: One target for each choice that a ``lower`` may make; all of them run on the host.
TARGETS = (HOST, GENERIC, DSP, MVE)
