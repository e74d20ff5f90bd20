"""What a user chooses beside a model and a machine: ``Options``, one value that is passed along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict, get_args

from twinfer.runtime.errors import InvalidArgumentError

#: What to spend flash on: fewest instructions, least flash, or what lies between.
Optimize = Literal["speed", "balanced", "size"]

#: How constant weights are stored: as the model's file holds them (of INT4 in at most 4 bits where that saves flash,
#: all others plain), as kernels read them, in every layer's smallest coding (or a faster one of nearly that size) where
#: that saves flash, or in one wherever it is possible. A host that SIMD pays on keeps INT4 plain, too.
Coding = Literal["file", "plain", "auto", "lut", "huffman", "bitmap"]

#: When coded weights are decoded: right before their layer, in every run, or once, to memory of their own.
Decoding = Literal["layer", "start"]

#: Compiled: a function per layer, shapes known to the compiler. Interpreted: shared kernels, called from a table.
Mode = Literal["compiled", "interpreted"]

#: Field -> the values that it may have, and the message about any other.
_CHOICES = {
    "optimize": (get_args(Optimize), "cannot optimize for {!r}, only for {}"),
    "weights": (get_args(Coding), "cannot store weights as {!r}, only as {}"),
    "decode": (get_args(Decoding), "cannot decode weights at {!r}, only at {}"),
    "mode": (get_args(Mode), "mode {!r} does not exist, only {}"),
}


@dataclass(frozen=True)
class Options:
    """What is chosen; InvalidArgumentError names a value that does not exist.

    For the plan: ``weights`` says how constant weights are stored, ``decode`` when those that are stored coded are
    decoded, ``preserve_all`` that every tensor has memory of its own, so that all can be read after a run.
    For C that is printed from the plan: ``optimize`` says what to spend flash on, ``mode`` which form it has.
    For both: ``guard`` spreads the arena out and watches every step. No option changes a result.
    """

    optimize: Optimize = "balanced"
    weights: Coding = "file"
    decode: Decoding = "layer"
    mode: Mode = "compiled"
    guard: bool = False
    preserve_all: bool = False

    def __post_init__(self) -> None:
        for field, (values, message) in _CHOICES.items():
            value = getattr(self, field)
            if not isinstance(value, str) or value not in values:
                raise InvalidArgumentError(message.format(value, ", ".join(values)))


class Printing(TypedDict, total=False):
    """The options that change how a finished plan is printed and run, not the plan."""

    optimize: Optimize
    mode: Mode
    guard: bool


#: What a user gets who chooses nothing.
USUAL = Options()
