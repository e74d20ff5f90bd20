"""MEAN of int8 over neighbouring dimensions on Helium: kernels_c/reduce/mean_mve.h."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.reduce._reduce import reduced_axes
from twinfer.runtime.ops.reduce.mean import by_sums, multiplier
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, present


def lower(node: Node, target: Target) -> Call:
    x, y = node.input(0), node.output
    axis = present(reduced_axes(node).as_one, "the reduced dimensions do not lie side by side")
    mult, shift = multiplier(node)
    params: dict[str, Param] = {"axis": axis, "mult": mult, "shift": shift}
    params |= {"zero": x.zero * axis["count"], "out_zero": y.zero}
    return by_sums(node, Call("tw_mean_mve_s8", params, (x,), (y,)))


VARIANT = Variant("mve", ("MEAN",), frozenset({"mve"}), lower, ("INT8",))
