"""What planning may know of the machine that a program will run on."""

from __future__ import annotations

from dataclasses import dataclass

#: What a machine may offer to kernels, best first: a variant that needs an earlier one is tried before the others.
#: "simd": vectors of any width, which compilers fill by themselves; "mve": Helium; "dsp": SMLAD and related
#: instructions; "words": integer work in 32-bit words pays, such as four int8 in one word.
FEATURES = ("avx512_vnni", "avx_vnni", "simd", "mve", "dsp", "words")


@dataclass(frozen=True)
class Target:
    """A machine to plan for.

    ``features`` are names from ``FEATURES``; it may hold others, which no kernel asks for. Kernels for a feature run
    everywhere: plain C stands in where it is absent. Arena and state have ``alignment``, every block in them at least
    ``block_alignment``, every constant in emitted C ``constant_alignment``, in bytes. If ``flash_is_dear``, code and
    constants are kept small.
    """

    name: str
    features: frozenset[str] = frozenset({"words"})
    alignment: int = 16
    block_alignment: int = 16
    constant_alignment: int = 4
    flash_is_dear: bool = True

    def has(self, *features: str) -> bool:
        """Whether the machine has all of these."""
        return self.features.issuperset(features)


def microcontroller(name: str, *features: str) -> Target:
    """A machine of 32-bit words that also has ``features``; kernels read whole words from memory."""
    return Target(name, frozenset({"words", *features}), block_alignment=4)


def computer(name: str, *features: str) -> Target:
    """A machine with SIMD and memory to spare that also has ``features``."""
    return Target(name, frozenset({"simd", *features}), constant_alignment=64, flash_is_dear=False)


#: The name of the target with the features of the computer that plans.
NATIVE = "native"

#: Any computer. ``runtime.run.isa.this_computer`` also has the features of the one that runs this.
HOST = computer("host")
AVX_VNNI = computer("avx_vnni", "avx_vnni")
GENERIC = microcontroller("generic")
DSP = microcontroller("dsp", "dsp")
MVE = microcontroller("mve", "dsp", "mve")

#: Together these targets use every kernel; all of them run on the host.
TARGETS = (HOST, AVX_VNNI, GENERIC, DSP, MVE)


@dataclass(frozen=True)
class Choice:
    """The variant that an operator got, and those before it that are written for the operator and declined.

    ``declined`` are pairs of a variant's name and its reason.
    """

    variant: str = "plain"
    declined: tuple[tuple[str, str], ...] = ()


#: A variant that was taken before any other was asked.
PLAIN = Choice()
