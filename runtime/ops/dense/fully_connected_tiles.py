"""FULLY_CONNECTED in tiles for 32 registers: kernels_c/dense/fully_connected_tiles.h."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.dense._layer import dense_by_sums, dense_of
from twinfer.runtime.ops.isa.tiles import CHANNELS, layer_of
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = dense_of(node)
    out = len(layer.weights)
    accept(out >= CHANNELS, f"a tile has more than its {out} channels")
    inputs, ends = layer_of(layer.node, layer.weights, layer.bias)
    params, stored = {**layer.shape, **ends}, Weights(unit=CHANNELS)
    kernel, outputs = "tw_fully_connected_tiles_s8", (node.output,)
    call = Call(kernel, params, (node.input(0), *inputs), outputs, macs=layer.macs, weights=stored)
    return dense_by_sums(layer, call, "tw_fully_connected_sums_tiles_s8")


VARIANT = Variant("tiles", ("FULLY_CONNECTED",), frozenset({"tiles"}), lower, ("INT8",), also=("BATCH_MATMUL",))
