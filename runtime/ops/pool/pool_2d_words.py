"""AVERAGE_POOL_2D and MAX_POOL_2D over four int8 channels in a word: kernels_c/pool/pool_2d_words.h."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.unsigned import is_unsigned
from twinfer.runtime.ops.pool.pool_2d import geometry, pool_call
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept

#: Most values of a window: up to here the kernel's averages are exact.
MOST = 181

KERNELS = {"AVERAGE_POOL_2D": "tw_average_pool_2d_words_s8", "MAX_POOL_2D": "tw_max_pool_2d_words_s8"}


def lower(node: Node, target: Target) -> Call:
    g = geometry(node)
    accept(not is_unsigned(node) or node.op == "MAX_POOL_2D", "the averages of uint8 are rounded half up")
    values = min(g.k_h, g.in_h) * min(g.k_w, g.in_w)
    accept(g.in_c % 4 == 0, f"it has {g.in_c} channels, not a multiple of 4")
    accept(node.op == "MAX_POOL_2D" or values <= MOST, f"a window has {values} values, {MOST} are the limit")
    return pool_call(KERNELS[node.op], node)


VARIANT = Variant("words", tuple(KERNELS), frozenset({"words"}), lower, ("INT8",))
