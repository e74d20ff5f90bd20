"""MEAN of int8 over neighbouring dimensions, four sums in two words: kernels_c/reduce/mean.h."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.isa.short import scaled_s8
from twinfer.runtime.ops.reduce._reduce import reduced_axes
from twinfer.runtime.ops.reduce.mean import by_sums, multiplier
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept, present


def lower(node: Node, target: Target) -> Call:
    x, y = node.input(0), node.output
    axis = present(reduced_axes(node).as_one, "the reduced dimensions do not lie side by side")
    accept(axis["inner"] % 4 == 0, f"{axis['inner']} values lie side by side, not a multiple of 4")
    ends = scaled_s8(*multiplier(node), y.zero)
    params: dict[str, Param] = {"axis": axis, "offset": -(x.zero + 128) * axis["count"], **ends}
    return by_sums(node, Call("tw_mean_words_s8", params, (x,), (y,)))


VARIANT = Variant("words", ("MEAN",), frozenset({"words"}), lower, ("INT8",))
