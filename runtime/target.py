"""What an operator's ``lower`` may know of the machine that its call will run on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A machine to plan for.

    ``wide`` says that kernels over 16 int32 lanes pay (any SIMD host); ``isa`` names the extensions of a Cortex-M that
    kernels may use: "dsp" (SMLAD and its kin), "mve" (Helium). Without any of them ``lower`` picks the plain C kernels.
    Kernels for an extension run everywhere, on plain C stand-ins where it is absent. ``alignment`` is that of every
    arena block, in bytes.
    """

    name: str
    wide: bool = False
    isa: frozenset[str] = frozenset()
    alignment: int = 16

    @property
    def dsp(self) -> bool:
        """Whether to take kernels on SMLAD; where there is Helium, it is better."""
        return "dsp" in self.isa and not self.mve

    @property
    def mve(self) -> bool:
        """Whether to take kernels on Helium."""
        return "mve" in self.isa


HOST = Target("host", wide=True)
GENERIC = Target("generic")
DSP = Target("dsp", isa=frozenset(["dsp"]))
MVE = Target("mve", isa=frozenset(["dsp", "mve"]))

#: One target for each choice that a ``lower`` may make; all of them run on the host.
TARGETS = (HOST, GENERIC, DSP, MVE)
