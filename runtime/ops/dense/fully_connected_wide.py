"""FULLY_CONNECTED over 16 lanes, int8 and float32: kernels_c/dense/fully_connected.h."""

from __future__ import annotations

from twinfer.runtime import constant
from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.activation import output_range
from twinfer.runtime.ops.core.channels import epilogue, fold_zero, lane_channels
from twinfer.runtime.ops.core.packing import LANES, LANES_F32, LANES_S8, ROWS, pack_f32, pack_s8, padded
from twinfer.runtime.ops.dense._layer import Dense, dense_of
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = dense_of(node)
    return _lower_f32(layer) if node.input(0).type == "FLOAT32" else _lower_s8(layer)


def _lower_f32(layer: Dense) -> Call:
    node = layer.node
    params: dict[str, Param] = {**layer.shape, "limits": output_range(node)}
    packed = (node.input(0), weights(pack_f32(layer.weights), LANES_F32), constant.bias(padded(layer.bias)))
    return Call("tw_fully_connected_wide_f32", params, packed, (node.output,), macs=layer.macs)


def _lower_s8(layer: Dense) -> Call:
    node, w, x, batches = layer.node, layer.weights, layer.node.input(0), layer.shape["batches"]
    depth4 = -(-w.shape[1] // 4) * 4
    ends, fast = lane_channels(node, fold_zero(w, layer.bias, 128 + x.zero))
    inputs = (x, weights(pack_s8(w), LANES_S8), *ends)
    rows = 1 if batches == 1 else -(-batches // ROWS) * ROWS
    params: dict[str, Param] = {**layer.shape, "depth4": depth4, "end": epilogue(node), "fast": fast}
    args, stored = ((node.output,), rows * depth4), Weights(unit=LANES)
    return Call("tw_fully_connected_wide_s8", params, inputs, *args, macs=layer.macs, weights=stored)


VARIANT = Variant("wide", ("FULLY_CONNECTED",), frozenset({"simd"}), lower, ("INT8", "FLOAT32"), also=("BATCH_MATMUL",))
