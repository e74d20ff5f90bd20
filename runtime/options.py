"""``Options``: what a user chooses beside a model and a machine, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict, get_args

from twinfer.runtime.errors import InvalidArgumentError

#: speed: fewest instructions. size: least flash. balanced: between them.
Optimize = Literal["speed", "balanced", "size"]

#: How constant weights are stored. file: INT4 in at most 4 bits where that saves flash, all others plain; a host with
#: SIMD keeps INT4 plain, too. plain: as kernels read them. auto: each layer in its smallest coding, or a faster one of
#: nearly that size, where that saves flash. lut, huffman, bitmap: in that coding wherever it is possible.
Coding = Literal["file", "plain", "auto", "lut", "huffman", "bitmap"]

#: When coded weights are decoded. layer: right before their layer, in every run. start: once, to memory of their own.
Decoding = Literal["layer", "start"]

#: compiled: a function per layer, shapes known to the compiler. interpreted: shared kernels, called from a table.
Mode = Literal["compiled", "interpreted"]

#: layers: one layer after the other, whole tensors. rows: row by row wherever that lowers the peak. auto: by layers; on
#: a microcontroller by rows as far as that is estimated to cost at most 5 % of the instructions, or as ``ram`` asks.
Memory = Literal["auto", "layers", "rows"]

#: Where constants lie. linked: arrays that the linker places. blob: one block of bytes, wherever the caller has it.
#: paged: such a block in memory that has no addresses, of which the code fetches what a layer needs.
Apart = Literal["linked", "blob", "paged"]

#: How products of float32 are added in convolutions and fully connected layers. exact: product and sum are rounded, as
#: TFLM does. fused: rounded once, by an instruction; the same bits on every machine that has one.
Floats = Literal["exact", "fused"]

#: What a plan can do without, to show what it is worth. fusion: borders folded into the windows behind
#: them, operators over one value as one table. in_place:
#: outputs in the memory of an input, which includes copies that cost nothing. placement: memory that several tensors
#: use one after the other.
Technique = Literal["fusion", "in_place", "placement"]

#: The most threads (TW_MAX_THREADS of kernels_c/run/pool.h).
MOST_THREADS = 64

#: Field -> the values that it may have, and the message about any other.
_CHOICES = {
    "optimize": (get_args(Optimize), "cannot optimize for {!r}, only for {}"),
    "weights": (get_args(Coding), "cannot store weights as {!r}, only as {}"),
    "decode": (get_args(Decoding), "cannot decode weights at {!r}, only at {}"),
    "memory": (get_args(Memory), "memory {!r} does not exist, only {}"),
    "mode": (get_args(Mode), "mode {!r} does not exist, only {}"),
    "weights_as": (get_args(Apart), "weights cannot be {!r}, only {}"),
    "floats": (get_args(Floats), "floats cannot be {!r}, only {}"),
}


@dataclass(frozen=True)
class Options:
    """A user's choice; InvalidArgumentError names a value that does not exist.

    For the plan: ``weights`` says how constant weights are stored, ``decode`` when coded ones are decoded.
    ``preserve_all`` gives every tensor memory of its own, so that all can be read after a run. ``memory`` says whether
    layers may run row by row; not with ``preserve_all`` and ``guard``, which look at whole layers. ``ram`` is how many
    bytes arena and state may take, 0 for any number. ``input_rows`` has the caller give the input row by row.
    ``input_in_place`` has it read where the caller keeps it, so that it takes no memory of the arena.
    ``tuned`` lowers layers as ``twinfer tune`` has found it to be fastest on this computer, and is for this one alone.
    ``weights_as`` says where constants lie; paged, a fetch brings ``page_bytes`` at most wherever a layer can be cut.
    Large layers are split over ``threads``, if they do not run row by row.
    ``without`` leaves techniques out; without placement, and without memory in place, layers do not run row by row.
    For emitted C: ``optimize`` says what to spend flash on, ``mode`` which form it has.
    For both: ``guard`` spreads the arena out and watches every step. No option but ``floats`` changes a result.
    """

    optimize: Optimize = "balanced"
    weights: Coding = "file"
    decode: Decoding = "layer"
    mode: Mode = "compiled"
    guard: bool = False
    preserve_all: bool = False
    memory: Memory = "auto"
    ram: int = 0
    input_rows: bool = False
    input_in_place: bool = False
    without: frozenset[Technique] = frozenset()
    tuned: bool = False
    weights_as: Apart = "linked"
    page_bytes: int = 4096
    floats: Floats = "exact"
    threads: int = 1

    def __post_init__(self) -> None:
        for field, (values, message) in _CHOICES.items():
            value = getattr(self, field)
            if not isinstance(value, str) or value not in values:
                raise InvalidArgumentError(message.format(value, ", ".join(values)))
        if not isinstance(self.ram, int) or self.ram < 0:
            raise InvalidArgumentError(f"ram must be a number of bytes, 0 for any, not {self.ram!r}")
        if not isinstance(self.threads, int) or not 1 <= self.threads <= MOST_THREADS:
            raise InvalidArgumentError(f"threads must be 1 to {MOST_THREADS}, not {self.threads!r}")
        if self.threads > 1 and self.mode == "interpreted":
            raise InvalidArgumentError("code of mode 'interpreted' has one thread: take mode='compiled'")
        if not isinstance(self.without, frozenset) or not self.without.issubset(get_args(Technique)):
            known = ", ".join(get_args(Technique))
            message = f"a plan cannot do without {self.without!r}, only without a frozenset of {known}"
            raise InvalidArgumentError(message)
        if not isinstance(self.page_bytes, int) or self.page_bytes <= 0:
            raise InvalidArgumentError(f"a page has a number of bytes above 0, not {self.page_bytes!r}")
        if self.weights_as != "linked" and self.input_rows:
            raise InvalidArgumentError(f"weights as {self.weights_as!r} do not go with an input by rows: give it whole")
        if self.weights_as == "paged" and (self.preserve_all or self.guard):
            raise InvalidArgumentError("pages are used again by other layers: nothing can preserve or guard them")
        if self.input_rows and self.input_in_place:
            raise InvalidArgumentError("an input by rows is nowhere in place: take one of the two options")

    def codes(self, flash_is_dear: bool) -> bool:
        """Whether weights may be stored coded on a target (``Target.flash_is_dear``)."""
        return self.weights != "plain" and (self.weights != "file" or flash_is_dear)


class Printing(TypedDict, total=False):
    """The options that change how a plan is printed and run, but not the plan."""

    optimize: Optimize
    mode: Mode
    guard: bool


#: The options of a user who chooses none.
USUAL = Options()
