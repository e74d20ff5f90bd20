"""What planning may know of the machine that a program will run on."""

from __future__ import annotations

from dataclasses import dataclass

#: What a machine may offer to kernels, best first: a variant that needs an earlier one is tried before the others.
#: "simd": vectors of any width, which compilers fill by themselves; "mve": Helium; "dsp": SMLAD and its kin; "words":
#: no more than 32-bit words, so that computing with four int8 in one word pays.
FEATURES = ("avx512_vnni", "avx_vnni", "simd", "mve", "dsp", "words")


@dataclass(frozen=True)
class Target:
    """A machine to plan for.

    ``features`` are names of ``FEATURES``, and others that no kernel asks for. Kernels for a feature run everywhere, on
    plain C stand-ins where it is absent. ``alignment`` is that of every arena block and ``constant_alignment`` that of
    every constant in emitted C, in bytes. Where ``flash_is_dear``, code and constants are kept small.
    """

    name: str
    features: frozenset[str] = frozenset({"words"})
    alignment: int = 16
    constant_alignment: int = 4
    flash_is_dear: bool = True

    def has(self, *features: str) -> bool:
        """Whether the machine has all of these."""
        return self.features.issuperset(features)


def microcontroller(name: str, *features: str) -> Target:
    """A machine of 32-bit words with these features beside."""
    return Target(name, frozenset({"words", *features}))


def computer(name: str, *features: str) -> Target:
    """A machine with SIMD and these features beside, and with memory to spare."""
    return Target(name, frozenset({"simd", *features}), constant_alignment=64, flash_is_dear=False)


#: Any computer. ``runtime.run.isa.this_computer`` has the features of the one that runs this, too.
HOST = computer("host")
AVX_VNNI = computer("avx_vnni", "avx_vnni")
GENERIC = microcontroller("generic")
DSP = microcontroller("dsp", "dsp")
MVE = microcontroller("mve", "dsp", "mve")

#: Targets that between them make every variant's choice; all of them run on the host.
TARGETS = (HOST, AVX_VNNI, GENERIC, DSP, MVE)
