"""TRANSPOSE in square tiles that fit vector registers: kernels_c/move/transpose.h."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.loops import LOOPS, filled
from twinfer.runtime.ops.move._move import Axis, collapse, steps
from twinfer.runtime.ops.move.transpose import walk_of
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept, present

#: Bytes in a row of the kernel's tiles, and the element sizes that it takes.
TILE_ROW = 16
SIZES = (1, 2, 4, 8)


def lower(node: Node, target: Target) -> Call:
    accept(node.input(0).size > 0, "there is nothing to move")
    axes, size = collapse(walk_of(node), node.input(0).dtype.itemsize)
    accept(size in SIZES, f"{size} bytes stay together, not 1, 2, 4 or 8")
    accept(len(axes) <= LOOPS + 2, f"{len(axes)} axes are left, {LOOPS + 2} are the limit")
    unit = next((i for i, (_, step) in enumerate(axes) if step == size), None)
    unit = present(unit, "no axis lies side by side in the input")
    edge = TILE_ROW // size
    accept(axes[unit][0] >= edge and axes[-1][0] >= edge, f"an axis has fewer than the {edge} elements of a tile")
    return _tiles(node, axes, size, unit)


def _tiles(node: Node, axes: list[Axis], size: int, unit: int) -> Call:
    y_step = steps(tuple(n for n, _ in axes), size)
    loops = [i for i in range(len(axes) - 1) if i != unit]
    params: dict[str, Param] = {
        "size": size, "rows": axes[-1][0], "cols": axes[unit][0], "x_step": axes[-1][1], "y_step": y_step[unit],
        "n": filled([axes[i][0] for i in loops], 1),
        "x_steps": filled([axes[i][1] for i in loops], 0),
        "y_steps": filled([y_step[i] for i in loops], 0),
    }  # fmt: skip
    return Call("tw_transpose", params, (node.input(0),), (node.output,))


VARIANT = Variant("tiled", ("TRANSPOSE",), frozenset({"simd"}), lower)
