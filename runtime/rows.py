"""How a kernel's call computes some rows of its output alone, and rows that the caller gives one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from twinfer.runtime.graph import Tensor


class Rows(NamedTuple):
    """How a call computes some rows of its output alone; the output is one image [1, height, ...].

    Row r needs of input 0 the rows from ``r * stride - pad`` to ``reach`` rows on, those of them that there are, and
    there is one; an input of the output's height has one row per row (stride 1), constants are read whole. A part of a
    call has other params: ``counts`` are proportional to its rows, and a number of rows themselves; those of ``window``
    (in_h, out_h, pad_h) describe the rows that the part sees; ``lines`` counts the rows whose windows begin before the
    image, lie inside, and end beyond it. A dot leads into a nested struct, or to a place of an array. The kernel takes
    ``pixels`` of the output at once, of ``tall`` rows, and every call takes ``setup`` instructions, rounded, before its
    first one.

    With ``sums`` the output has no rows: the call adds up its input, whose rows are ``units`` of so many elements, in
    scratch memory that lasts from part to part, and writes the output with the last one. ``sums`` is the param that
    says which elements a part sees (first, count). With ``flat`` the output's bytes are those of the input, whatever
    shapes they have: a row of it is as long as one of the input.

    With ``planes``, input 0 and the output have pixels of so many bytes, and the kernel computes one channel after the
    other, each row by row: where the output begins a multiple of ``planes`` bytes below input 0, one call for all rows
    touches what it reads only as calls for one row after the other do.
    """

    stride: int = 1
    pad: int = 0
    reach: int = 0
    counts: tuple[str, ...] = ()
    window: bool = False
    lines: str = ""
    sums: str = ""
    units: int = 1
    flat: bool = False
    pixels: int = 1
    tall: int = 1
    setup: int = 0
    planes: int = 0

    def needed(self, first: int, end: int, height: int) -> tuple[int, int]:
        """First and end of the rows, of ``height``, that the output's rows from ``first`` to before ``end`` need.

        Each needs at least one of them.
        """
        low, last = first * self.stride - self.pad, (end - 1) * self.stride - self.pad + self.reach
        return max(0, low), min(last + 1, height)


#: Of a call whose param ``size`` counts the elements, which are computed one by one.
ELEMENTS = Rows(counts=("size",))


@dataclass(frozen=True, eq=False)
class Feed:
    """Input ``out`` of a graph, whose ``height`` rows the caller gives one by one: what a chain may begin with.

    The chain needs the first ``wanted`` of them. A feed computes and reads nothing; else it is like a layer.
    """

    out: Tensor
    height: int
    wanted: int
    band: ClassVar[int] = 1
    rows: ClassVar[Rows] = Rows()
    sources: ClassVar[tuple[tuple[int, Tensor, int], ...]] = ()

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.out.nbytes // self.height


def row_axis(tensor: Tensor) -> int:
    """The axis along which the rows of a tensor follow one another: the first with more than one element, else 0."""
    return next((i for i, extent in enumerate(tensor.shape) if extent > 1), 0)
