"""What planning may know of the machine that a program will run on."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NamedTuple

from twinfer.runtime.errors import InvalidArgumentError

#: The most that memory can be aligned to, in bytes: a page of an MMU.
MOST_ALIGNED = 4096

#: What a memory may be called: its name becomes a part of names in C.
BANK_NAME = "[a-z][a-z0-9_]*"


@dataclass(frozen=True)
class Bank:
    """A memory of a machine that has several: ``nbytes`` for arenas, and what it costs to read or write one byte of it.

    Costs are integers that only mean something relative to those of the machine's other banks: cycles, or shares of
    them. InvalidArgumentError for a name other than a, a1, a_b, or for a number below 0.
    """

    name: str
    nbytes: int
    read_cost: int = 1
    write_cost: int = 1

    def __post_init__(self) -> None:
        if not re.fullmatch(BANK_NAME, self.name):
            raise InvalidArgumentError(f"bank {self.name!r}: its name should be a-z, 0-9 and _, a letter first")
        if min(self.nbytes, self.read_cost, self.write_cost) < 0:
            raise InvalidArgumentError(f"bank {self.name!r}: its bytes and costs should be 0 or more")


@dataclass(frozen=True)
class Target:
    """A machine to plan for.

    ``features`` are names from ``FEATURES``; it may hold others, which no kernel asks for. Kernels for a feature run
    everywhere: plain C stands in where it is absent. Arena and state have ``alignment``, every block in them at least
    ``block_alignment``, every constant in emitted C ``constant_alignment``, in bytes. If ``flash_is_dear``, code and
    constants are kept small. With ``banks`` the arena is split: each block lies in one of these memories. Two banks of
    one name are an InvalidArgumentError.
    """

    name: str
    features: frozenset[str] = frozenset({"words"})
    alignment: int = 16
    block_alignment: int = 16
    constant_alignment: int = 4
    flash_is_dear: bool = True
    banks: tuple[Bank, ...] = ()

    def __post_init__(self) -> None:
        names = [bank.name for bank in self.banks]
        if twice := [name for name in names if names.count(name) > 1]:
            raise InvalidArgumentError(f"target {self.name!r} has two banks called {twice[0]!r}")

    def with_banks(self, *banks: Bank) -> Target:
        """The same machine with these memories for the arena."""
        return replace(self, banks=banks)

    def with_alignment(self, nbytes: int) -> Target:
        """The same machine with arena, state and all blocks in them at multiples of ``nbytes``, and as long as those.

        InvalidArgumentError unless that is a power of two from 1 to ``MOST_ALIGNED``.
        """
        if nbytes not in {1 << i for i in range(MOST_ALIGNED.bit_length())}:
            raise InvalidArgumentError(f"memory is aligned to a power of two up to {MOST_ALIGNED} bytes, not {nbytes}")
        whole, block = max(self.alignment, nbytes), max(self.block_alignment, nbytes)
        return replace(self, alignment=whole, block_alignment=block)

    @property
    def fuses(self) -> bool:
        """Whether it multiplies and adds floats in one instruction (FMA): cores whose card says so, and computers, but
        not WebAssembly. Kernels for any computer stand in for it by doubles where it is absent."""
        return self.has("fma") or (self.has("simd") and not self.has("simd128"))

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
AVX2 = computer("avx2", "avx2")
AVX_VNNI = computer("avx_vnni", "avx_vnni")
AVX512_VNNI = computer("avx512_vnni", "avx512_vnni")
SIMD128 = computer("simd128", "simd128")
NEON_I8MM = computer("neon_i8mm", "neon_dotprod", "neon_i8mm")
GENERIC = microcontroller("generic")
DSP = microcontroller("dsp", "dsp")
MVE = microcontroller("mve", "dsp", "mve")
TILES = microcontroller("tiles", "tiles")

REFERENCE = Target("reference", frozenset({"reference"}), block_alignment=4)


@dataclass(frozen=True)
class Feature:
    """Something that a machine may offer to kernels, such as an instruction set.

    ``machines`` says in few words which have it; ``target`` is one that has no better, if there are kernels for it.
    ``instructions`` is whether it stands for instructions that C does not reach by itself. If ``in_names``, a file of
    variants with the feature's name in its own serves it alone, and is not imported for other targets. ``options`` are
    gcc's. How a CPU tells that it has the feature is a line of ``kernels_c/run/cpu.h``.
    """

    name: str
    machines: str
    target: Target | None = None
    instructions: bool = True
    in_names: bool = False
    options: tuple[str, ...] = ()


#: What kernels know, best first: a variant that needs an earlier one is tried before the others. "simd": vectors of any
#: width, which compilers fill by themselves; "mve": Helium; "dsp": SMLAD and related instructions; "tiles": 16
#: sums stay in registers; "words": integer work in 32-bit words pays, such as four int8 in one word. "reference" is no
#: feature of a machine: kernels as TFLM's reference has them, which the others are measured against.
_FEATURES = (
    Feature("reference", "TFLM's reference", REFERENCE, instructions=False, in_names=True),
    Feature("mve", "Cortex-M55", MVE, in_names=True),
    Feature("dsp", "Cortex-M4, M7, M33", DSP, in_names=True),
    Feature("tiles", "RISC-V with 32 registers", TILES, instructions=False, in_names=True),
    Feature("words", "any 32-bit core", GENERIC, instructions=False, in_names=True),
    Feature("neon_i8mm", "with Arm's i8mm", NEON_I8MM),
    Feature("neon_dotprod", "with Arm's dot products"),
    Feature("neon", "AArch64 without dot products"),
    Feature("avx512_vnni", "with AVX512-VNNI", AVX512_VNNI, options=("-march=x86-64-v4", "-mavx512vnni")),
    Feature("avx_vnni", "with AVX-VNNI", AVX_VNNI, options=("-march=x86-64-v3", "-mavxvnni")),
    Feature("avx2", "with AVX2", AVX2, options=("-march=x86-64-v3",)),
    Feature("simd128", "WebAssembly with SIMD128", SIMD128),
    Feature("simd", "any computer", HOST),
)

#: All features by name, best first.
FEATURES = {feature.name: feature for feature in _FEATURES}

#: Together these targets use every kernel; all of them run on the host. The last is the reference.
TARGETS = tuple(feature.target for feature in reversed(_FEATURES) if feature.target is not None)


class Choice(NamedTuple):
    """The variant that an operator got, and those before it that are written for the operator and declined.

    ``declined`` are pairs of a variant's name and its reason.
    """

    variant: str = "plain"
    declined: tuple[tuple[str, str], ...] = ()


#: A variant that was taken before any other was asked.
PLAIN = Choice()
