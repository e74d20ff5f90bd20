"""FULLY_CONNECTED of int16 and int8 on Helium: kernels_c/dense/fully_connected_mve_s16.h."""

from __future__ import annotations

from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.packing import FOURS
from twinfer.runtime.ops.dense._layer import dense_of
from twinfer.runtime.ops.isa.mve import BLOCK_S16
from twinfer.runtime.ops.isa.mve_s16 import packed_fours, stored
from twinfer.runtime.ops.isa.short import channels_s16
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = dense_of(node)
    c = channels_s16(layer.node, layer.weights)
    tile = {"blocks": -(-layer.shape["depth"] // BLOCK_S16), "chunk": BLOCK_S16 * c.chunk(BLOCK_S16)}
    params: dict[str, Param] = {**layer.shape, **tile, "limits": c.limits}
    packed = packed_fours(c)
    inputs = (node.input(0), weights(packed, FOURS))
    return Call("tw_fully_connected_mve_s16", params, inputs, (node.output,), macs=layer.macs, weights=stored(packed))


VARIANT = Variant("mve", ("FULLY_CONNECTED",), frozenset({"mve"}), lower, ("INT16",), also=("BATCH_MATMUL",))
