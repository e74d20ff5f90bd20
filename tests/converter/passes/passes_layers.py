"""Passes over layers that stand between operators which only move values, as text before and after."""

from __future__ import annotations

import numpy as np
from passes_tools import CONV, bytes_, floats, shows

from twinfer.converter.build import Builder
from twinfer.converter.passes.dilations import dilations
from twinfer.runtime.graph import Tensor

#: Before and after, along height and width.
Ends = tuple[tuple[int, int], tuple[int, int]]

NONE: Ends = ((0, 0), (0, 0))


def between(b: Builder, x: Tensor, op: str, weights: Tensor, *around: Ends, **options: object) -> Tensor:
    """A layer between blocks of 2 by 3: ``around`` has the padding before and the crops behind."""
    block = np.array([2, 3], np.int32)
    pads, crops = (np.array(a, np.int32) for a in around)
    split = b.op("SPACE_TO_BATCH_ND", [x, block, pads])
    quant = {} if x.quant is None else {"scale": 0.1, "zero": -5}
    return b.op("BATCH_TO_SPACE_ND", [b.op(op, [split, weights], **{**CONV, **options}, **quant), block, crops])


@shows(
    dilations,
    """
input x INT8[1,6,9,2]*0.05+3
space_to_batch_nd_5 INT8[6,5,5,2]*0.05+3 = SPACE_TO_BATCH_ND(x, INT32{2, 3}, INT32{2, 2, 3, 3})
conv_2d_6 INT8[6,3,3,2]*0.1-5 = CONV_2D(space_to_batch_nd_5, INT8[2,3,3,2]*0.01)  padding=VALID stride_w=1 stride_h=1
batch_to_space_nd_9 INT8[1,6,9,2]*0.1-5 = BATCH_TO_SPACE_ND(conv_2d_6, INT32{2, 3}, INT32{0, 0, 0, 0})
space_to_batch_nd_12 INT8[6,3,3,2]*0.05+3 = SPACE_TO_BATCH_ND(x, INT32{2, 3}, INT32{0, 0, 0, 0})
depthwise_conv_2d_13 INT8[6,1,1,2]*0.1-5 = DEPTHWISE_CONV_2D(space_to_batch_nd_12, INT8[1,3,3,2]*0.01)  padding=VALID stride_w=1 stride_h=1 depth_multiplier=1
batch_to_space_nd_16 INT8[1,2,3,2]*0.1-5 = BATCH_TO_SPACE_ND(depthwise_conv_2d_13, INT32{2, 3}, INT32{0, 0, 0, 0})
space_to_batch_nd_19 INT8[6,6,6,2]*0.05+3 = SPACE_TO_BATCH_ND(x, INT32{2, 3}, INT32{2, 4, 3, 6})
conv_2d_20 INT8[6,4,4,2]*0.1-5 = CONV_2D(space_to_batch_nd_19, INT8[2,3,3,2]*0.01)  padding=VALID stride_w=1 stride_h=1
batch_to_space_nd_23 INT8[1,6,9,2]*0.1-5 = BATCH_TO_SPACE_ND(conv_2d_20, INT32{2, 3}, INT32{0, 2, 0, 3})
space_to_batch_nd_26 INT8[6,3,3,2]*0.05+3 = SPACE_TO_BATCH_ND(x, INT32{2, 3}, INT32{0, 0, 0, 0})
conv_2d_27 INT8[6,3,3,2]*0.1-5 = CONV_2D(space_to_batch_nd_26, INT8[2,3,3,2]*0.01)  stride_w=1 stride_h=1
batch_to_space_nd_30 INT8[1,6,9,2]*0.1-5 = BATCH_TO_SPACE_ND(conv_2d_27, INT32{2, 3}, INT32{0, 0, 0, 0})
space_to_batch_nd_33 INT8[6,5,5,2]*0.05+3 = SPACE_TO_BATCH_ND(x, INT32{2, 3}, INT32{0, 4, 0, 6})
conv_2d_34 INT8[6,3,3,2]*0.1-5 = CONV_2D(space_to_batch_nd_33, INT8[2,3,3,2]*0.01)  padding=VALID stride_w=1 stride_h=1
batch_to_space_nd_37 INT8[1,6,9,2]*0.1-5 = BATCH_TO_SPACE_ND(conv_2d_34, INT32{2, 3}, INT32{0, 0, 0, 0})
space_to_batch_nd_40 INT8[6,5,5,2]*0.05+3 = SPACE_TO_BATCH_ND(x, INT32{2, 3}, INT32{2, 2, 3, 3})
conv_2d_41 INT8[6,3,5,2]*0.1-5 = CONV_2D(space_to_batch_nd_40, INT8[2,3,3,2]*0.01)  stride_w=1 stride_h=2
batch_to_space_nd_44 INT8[1,6,15,2]*0.1-5 = BATCH_TO_SPACE_ND(conv_2d_41, INT32{2, 3}, INT32{0, 0, 0, 0})
output batch_to_space_nd_9
output batch_to_space_nd_16
output batch_to_space_nd_23
output batch_to_space_nd_30
output batch_to_space_nd_37
output batch_to_space_nd_44
""",  # noqa: E501
    """
input x INT8[1,6,9,2]*0.05+3
batch_to_space_nd_9 INT8[1,6,9,2]*0.1-5 = CONV_2D(x, INT8[2,3,3,2]*0.01)  stride_w=1 stride_h=1 dilation_w_factor=3 dilation_h_factor=2
batch_to_space_nd_16 INT8[1,2,3,2]*0.1-5 = DEPTHWISE_CONV_2D(x, INT8[1,3,3,2]*0.01)  padding=VALID stride_w=1 stride_h=1 depth_multiplier=1 dilation_w_factor=3 dilation_h_factor=2
batch_to_space_nd_23 INT8[1,6,9,2]*0.1-5 = CONV_2D(x, INT8[2,3,3,2]*0.01)  stride_w=1 stride_h=1 dilation_w_factor=3 dilation_h_factor=2
batch_to_space_nd_30 INT8[1,6,9,2]*0.1-5 = CONV_2D(x, INT8[2,3,3,2]*0.01)  stride_w=1 stride_h=1 dilation_w_factor=3 dilation_h_factor=2
space_to_batch_nd_33 INT8[6,5,5,2]*0.05+3 = SPACE_TO_BATCH_ND(x, INT32{2, 3}, INT32{0, 4, 0, 6})
conv_2d_34 INT8[6,3,3,2]*0.1-5 = CONV_2D(space_to_batch_nd_33, INT8[2,3,3,2]*0.01)  padding=VALID stride_w=1 stride_h=1
batch_to_space_nd_37 INT8[1,6,9,2]*0.1-5 = BATCH_TO_SPACE_ND(conv_2d_34, INT32{2, 3}, INT32{0, 0, 0, 0})
space_to_batch_nd_40 INT8[6,5,5,2]*0.05+3 = SPACE_TO_BATCH_ND(x, INT32{2, 3}, INT32{2, 2, 3, 3})
conv_2d_41 INT8[6,3,5,2]*0.1-5 = CONV_2D(space_to_batch_nd_40, INT8[2,3,3,2]*0.01)  stride_w=1 stride_h=2
batch_to_space_nd_44 INT8[1,6,15,2]*0.1-5 = BATCH_TO_SPACE_ND(conv_2d_41, INT32{2, 3}, INT32{0, 0, 0, 0})
output batch_to_space_nd_9
output batch_to_space_nd_16
output batch_to_space_nd_23
output batch_to_space_nd_30
output batch_to_space_nd_37
output batch_to_space_nd_44
""",  # noqa: E501
)
def dilates(b: Builder) -> list[Tensor]:
    """SAME by padding, VALID, SAME by crops and a layer that pads itself; not where windows move."""
    x = b.input("x", "INT8", (1, 6, 9, 2), 0.05, 3)
    w = b.constant(bytes_(2, 3, 3, 2), 0.01)
    depth = b.constant(bytes_(1, 3, 3, 2), 0.01)
    y = between(b, x, "CONV_2D", w, ((2, 2), (3, 3)), NONE, padding="VALID")
    z = between(b, x, "DEPTHWISE_CONV_2D", depth, NONE, NONE, padding="VALID", depth_multiplier=1)
    same = between(b, x, "CONV_2D", w, ((2, 4), (3, 6)), ((0, 2), (0, 3)), padding="VALID")
    own = between(b, x, "CONV_2D", w, NONE, NONE, padding="SAME")
    moved = between(b, x, "CONV_2D", w, ((0, 4), (0, 6)), NONE, padding="VALID")
    strided = between(b, x, "CONV_2D", w, ((2, 2), (3, 3)), NONE, padding="SAME", stride_h=2)
    return [y, z, same, own, moved, strided]


@shows(
    dilations,
    """
input x FLOAT32[2,12,18,1]
space_to_batch_nd_4 FLOAT32[12,10,10,1] = SPACE_TO_BATCH_ND(x, INT32{2, 3}, INT32{4, 4, 6, 6})
conv_2d_5 FLOAT32[12,6,6,3] = CONV_2D(space_to_batch_nd_4, FLOAT32[3,3,3,1])  padding=VALID stride_w=1 stride_h=1 dilation_w_factor=2 dilation_h_factor=2
batch_to_space_nd_8 FLOAT32[2,12,18,3] = BATCH_TO_SPACE_ND(conv_2d_5, INT32{2, 3}, INT32{0, 0, 0, 0})
space_to_batch_nd_11 FLOAT32[8,6,9,1] = SPACE_TO_BATCH_ND(x, INT32{2, 2}, INT32{0, 0, 0, 0})
conv_2d_13 FLOAT32[8,6,9,3] = CONV_2D(space_to_batch_nd_11, FLOAT32[3,3,3,1])  stride_w=1 stride_h=1
batch_to_space_nd_16 FLOAT32[2,12,18,3] = BATCH_TO_SPACE_ND(conv_2d_13, INT32{2, 2}, INT32{0, 0, 0, 0})
neg_17 FLOAT32[8,6,9,1] = NEG(space_to_batch_nd_11)
output batch_to_space_nd_8
output batch_to_space_nd_16
output neg_17
""",  # noqa: E501
    """
input x FLOAT32[2,12,18,1]
batch_to_space_nd_8 FLOAT32[2,12,18,3] = CONV_2D(x, FLOAT32[3,3,3,1])  stride_w=1 stride_h=1 dilation_w_factor=6 dilation_h_factor=4
space_to_batch_nd_11 FLOAT32[8,6,9,1] = SPACE_TO_BATCH_ND(x, INT32{2, 2}, INT32{0, 0, 0, 0})
batch_to_space_nd_16 FLOAT32[2,12,18,3] = CONV_2D(x, FLOAT32[3,3,3,1])  stride_w=1 stride_h=1 dilation_w_factor=2 dilation_h_factor=2
neg_17 FLOAT32[8,6,9,1] = NEG(space_to_batch_nd_11)
output batch_to_space_nd_8
output batch_to_space_nd_16
output neg_17
""",  # noqa: E501
)
def dilates_floats(b: Builder) -> list[Tensor]:
    """Blocks that others read stay; a dilation is multiplied."""
    x = b.input("x", "FLOAT32", (2, 12, 18, 1))
    w = floats(3, 3, 3, 1)
    twice = {"dilation_h_factor": 2, "dilation_w_factor": 2}
    y = between(b, x, "CONV_2D", b.constant(w), ((4, 4), (6, 6)), NONE, padding="VALID", **twice)
    block = np.array([2, 2], np.int32)
    split = b.op("SPACE_TO_BATCH_ND", [x, block, np.array(NONE, np.int32)])
    layer = b.op("CONV_2D", [split, b.constant(w)], **CONV, padding="SAME")
    z = b.op("BATCH_TO_SPACE_ND", [layer, block, np.array(NONE, np.int32)])
    return [y, z, b.op("NEG", [split])]
