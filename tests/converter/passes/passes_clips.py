"""Passes over clips, padding and parallel layers, as text before and after."""

from __future__ import annotations

import numpy as np
from passes_tools import CONV, bytes_, f, floats, shows

from twinfer.converter.build import Builder
from twinfer.converter.passes.fuse_activations import fuse_activations
from twinfer.converter.passes.fuse_padding import fuse_padding
from twinfer.converter.passes.horizontal_merge import horizontal_merge
from twinfer.converter.passes.merge_relus import merge_relus
from twinfer.runtime.graph import Tensor


@shows(
    merge_relus,
    """
input x FLOAT32[1,4]
relu_1 FLOAT32[1,4] = RELU(x)
relu6_2 FLOAT32[1,4] = RELU6(relu_1)
relu_3 FLOAT32[1,4] = RELU(relu6_2)
maximum_5 FLOAT32[1,4] = MAXIMUM(x, FLOAT32{-1})
minimum_7 FLOAT32[1,4] = MINIMUM(FLOAT32{1}, maximum_5)
relu_8 FLOAT32[1,4] = RELU(minimum_7)
minimum_10 FLOAT32[1,4] = MINIMUM(relu_8, FLOAT32{0.5})
logistic_11 FLOAT32[1,4] = LOGISTIC(minimum_10)
relu_12 FLOAT32[1,4] = RELU(logistic_11)
output relu_3
output relu_12
""",
    """
input x FLOAT32[1,4]
relu_3 FLOAT32[1,4] = RELU6(x)
minimum_10/least FLOAT32[1,4] = RELU(x)
minimum_10 FLOAT32[1,4] = MINIMUM(minimum_10/least, FLOAT32{0.5})
relu_12 FLOAT32[1,4] = LOGISTIC(minimum_10)
output relu_3
output relu_12
""",
)
def joins_clips(b: Builder) -> list[Tensor]:
    x = b.input("x", "FLOAT32", (1, 4))
    y = b.op("RELU", [b.op("RELU6", [b.op("RELU", [x])])])
    z = b.op("MINIMUM", [f(1), b.op("MAXIMUM", [x, f(-1)])])
    z = b.op("RELU", [b.op("LOGISTIC", [b.op("MINIMUM", [b.op("RELU", [z]), f(0.5)])])])
    return [y, z]


@shows(
    merge_relus,
    """
input x INT8[1,4]*0.02-128
relu_1 INT8[1,4]*0.02-128 = RELU(x)
relu6_2 INT8[1,4]*0.02-128 = RELU6(relu_1)
relu_3 INT8[1,4]*0.03-128 = RELU(relu6_2)
maximum_5 INT8[1,4]*0.03-128 = MAXIMUM(relu_3, INT8{-128}*0.03-128)
output maximum_5
""",
    """
input x INT8[1,4]*0.02-128
maximum_5 INT8[1,4]*0.03-128 = RELU(x)
output maximum_5
""",
)
def int8_clips_by_its_range(b: Builder) -> list[Tensor]:
    """Only the clip that requantises stays."""
    x = b.input("x", "INT8", (1, 4), 0.02, -128)
    y = b.op("RELU6", [b.op("RELU", [x])])
    y = b.op("RELU", [y], scale=0.03, zero=-128)
    return [b.op("MAXIMUM", [y, b.constant(np.array(-128, np.int8), 0.03, -128)])]


@shows(
    merge_relus,
    """
input x INT8[1,4]
maximum_2 INT8[1,4] = MAXIMUM(x, INT8{0})
minimum_4 INT8[1,4] = MINIMUM(maximum_2, INT8{9})
minimum_6 INT8[1,4] = MINIMUM(minimum_4, INT8{9})
output minimum_6
""",
    """
input x INT8[1,4]
maximum_2 INT8[1,4] = MAXIMUM(x, INT8{0})
minimum_6 INT8[1,4] = MINIMUM(maximum_2, INT8{9})
output minimum_6
""",
)
def integers_without_a_scale(b: Builder) -> list[Tensor]:
    x = b.input("x", "INT8", (1, 4))
    y = b.op("MINIMUM", [b.op("MAXIMUM", [x, np.array(0, np.int8)]), np.array(9, np.int8)])
    return [b.op("MINIMUM", [y, np.array(9, np.int8)])]


@shows(
    fuse_activations,
    """
input x FLOAT32[1,4,4,2]
conv_2d_2 FLOAT32[1,4,4,2] = CONV_2D(x, FLOAT32{-0.8, -0.55, -0.3, -0.05})  stride_w=1 stride_h=1
relu6_3 FLOAT32[1,4,4,2] = RELU6(conv_2d_2)
add_4 FLOAT32[1,4,4,2] = ADD(x, relu6_3)
maximum_6 FLOAT32[1,4,4,2] = MAXIMUM(add_4, FLOAT32{0})
minimum_8 FLOAT32[1,4,4,2] = MINIMUM(maximum_6, FLOAT32{6})
max_pool_2d_9 FLOAT32[1,4,4,2] = MAX_POOL_2D(minimum_8)  stride_w=1 stride_h=1 filter_width=2 filter_height=2
relu_10 FLOAT32[1,4,4,2] = RELU(max_pool_2d_9)
mul_12 FLOAT32[1,4,4,2] = MUL(relu_10, FLOAT32{2})
relu_0_to_1_13 FLOAT32[1,4,4,2] = RELU_0_TO_1(mul_12)
concatenation_14 FLOAT32[2,4,4,2] = CONCATENATION(relu_0_to_1_13, x)
relu_15 FLOAT32[2,4,4,2] = RELU(concatenation_14)
output relu_15
""",
    """
input x FLOAT32[1,4,4,2]
relu6_3 FLOAT32[1,4,4,2] = CONV_2D(x, FLOAT32{-0.8, -0.55, -0.3, -0.05})  stride_w=1 stride_h=1 fused_activation_function=RELU6
minimum_8 FLOAT32[1,4,4,2] = ADD(x, relu6_3)  fused_activation_function=RELU6
relu_10 FLOAT32[1,4,4,2] = MAX_POOL_2D(minimum_8)  stride_w=1 stride_h=1 filter_width=2 filter_height=2 fused_activation_function=RELU
mul_12 FLOAT32[1,4,4,2] = MUL(relu_10, FLOAT32{2})
relu_0_to_1_13 FLOAT32[1,4,4,2] = RELU_0_TO_1(mul_12)
concatenation_14 FLOAT32[2,4,4,2] = CONCATENATION(relu_0_to_1_13, x)
relu_15 FLOAT32[2,4,4,2] = RELU(concatenation_14)
output relu_15
""",  # noqa: E501
)
def fuses_clips(b: Builder) -> list[Tensor]:
    x = b.input("x", "FLOAT32", (1, 4, 4, 2))
    y = b.op("RELU6", [b.op("CONV_2D", [x, floats(2, 1, 1, 2)], **CONV)])
    y = b.op("MINIMUM", [b.op("MAXIMUM", [b.op("ADD", [x, y]), f(0)]), f(6)])
    y = b.op("RELU", [b.op("MAX_POOL_2D", [y], filter_height=2, filter_width=2, **CONV)])
    y = b.op("RELU_0_TO_1", [b.op("MUL", [y, f(2)])])
    return [b.op("RELU", [b.op("CONCATENATION", [y, x], axis=0)])]


@shows(
    fuse_activations,
    """
input x INT8[1,4]*0.05+3
fully_connected_2 INT8[1,4]*0.04-9 = FULLY_CONNECTED(x, INT8[4,4]*0.01)
relu_3 INT8[1,4]*0.04-9 = RELU(fully_connected_2)
add_4 INT8[1,4]*0.04-9 = ADD(relu_3, x)
minimum_6 INT8[1,4]*0.04-9 = MINIMUM(add_4, INT8{9}*0.04-9)
mul_7 INT8[1,4]*0.04-9 = MUL(minimum_6, x)
relu_8 INT8[1,4]*0.03 = RELU(mul_7)
output relu_8
""",
    """
input x INT8[1,4]*0.05+3
relu_3 INT8[1,4]*0.04-9 = FULLY_CONNECTED(x, INT8[4,4]*0.01)  fused_activation_function=RELU
add_4 INT8[1,4]*0.04-9 = ADD(relu_3, x)
minimum_6 INT8[1,4]*0.04-9 = MINIMUM(add_4, INT8{9}*0.04-9)
mul_7 INT8[1,4]*0.04-9 = MUL(minimum_6, x)
relu_8 INT8[1,4]*0.03 = RELU(mul_7)
output relu_8
""",
)
def fuses_int8_of_one_scale(b: Builder) -> list[Tensor]:
    x = b.input("x", "INT8", (1, 4), 0.05, 3)
    y = b.op("RELU", [b.op("FULLY_CONNECTED", [x, b.constant(bytes_(4, 4), 0.01)], scale=0.04, zero=-9)])
    y = b.op("MINIMUM", [b.op("ADD", [y, x]), b.constant(np.array(9, np.int8), 0.04, -9)])
    return [b.op("RELU", [b.op("MUL", [y, x])], scale=0.03)]


@shows(
    fuse_padding,
    """
input x INT8[1,6,6,2]*0.05+3
pad_4 INT8[1,8,8,2]*0.05+3 = PAD(x, INT32[4,2])
conv_2d_5 INT8[1,3,3,2]*0.05+3 = CONV_2D(pad_4, INT8[2,3,3,2]*0.01)  padding=VALID stride_w=2 stride_h=2
pad_7 INT8[1,5,5,2]*0.05+3 = PAD(conv_2d_5, INT32[4,2])
conv_2d_8 INT8[1,3,3,2]*0.05+3 = CONV_2D(pad_7, INT8[2,3,3,2]*0.01)  padding=VALID stride_w=1 stride_h=1
relu_9 INT8[1,3,3,2]*0.05+3 = RELU(conv_2d_8)
padv2_12 INT8[1,5,5,2]*0.05+3 = PADV2(relu_9, INT32[4,2], INT8{-128}*0.05+3)
max_pool_2d_13 INT8[1,3,3,2]*0.05+3 = MAX_POOL_2D(padv2_12)  padding=VALID stride_w=1 stride_h=1 filter_width=3 filter_height=3
relu_14 INT8[1,3,3,2]*0.05+3 = RELU(max_pool_2d_13)
pad_16 INT8[1,5,5,2]*0.05+3 = PAD(relu_14, INT32[4,2])
max_pool_2d_17 INT8[1,3,3,2]*0.05+3 = MAX_POOL_2D(pad_16)  padding=VALID stride_w=1 stride_h=1 filter_width=3 filter_height=3
pad_19 INT8[1,5,5,2]*0.05+3 = PAD(max_pool_2d_17, INT32[4,2])
average_pool_2d_20 INT8[1,3,3,2]*0.05+3 = AVERAGE_POOL_2D(pad_19)  padding=VALID stride_w=1 stride_h=1 filter_width=3 filter_height=3
output average_pool_2d_20
""",  # noqa: E501
    """
input x INT8[1,6,6,2]*0.05+3
pad_4 INT8[1,8,8,2]*0.05+3 = PAD(x, INT32[4,2])
conv_2d_5 INT8[1,3,3,2]*0.05+3 = CONV_2D(pad_4, INT8[2,3,3,2]*0.01)  padding=VALID stride_w=2 stride_h=2
conv_2d_8 INT8[1,3,3,2]*0.05+3 = CONV_2D(conv_2d_5, INT8[2,3,3,2]*0.01)  stride_w=1 stride_h=1
relu_9 INT8[1,3,3,2]*0.05+3 = RELU(conv_2d_8)
max_pool_2d_13 INT8[1,3,3,2]*0.05+3 = MAX_POOL_2D(relu_9)  stride_w=1 stride_h=1 filter_width=3 filter_height=3
relu_14 INT8[1,3,3,2]*0.05+3 = RELU(max_pool_2d_13)
max_pool_2d_17 INT8[1,3,3,2]*0.05+3 = MAX_POOL_2D(relu_14)  stride_w=1 stride_h=1 filter_width=3 filter_height=3
pad_19 INT8[1,5,5,2]*0.05+3 = PAD(max_pool_2d_17, INT32[4,2])
average_pool_2d_20 INT8[1,3,3,2]*0.05+3 = AVERAGE_POOL_2D(pad_19)  padding=VALID stride_w=1 stride_h=1 filter_width=3 filter_height=3
output average_pool_2d_20
""",  # noqa: E501
)
def fuses_padding(b: Builder) -> list[Tensor]:
    """All but the first, because SAME would move its windows, and the average, which leaves padding out."""
    pad = np.array([(0, 0), (1, 1), (1, 1), (0, 0)], np.int32)
    x = b.input("x", "INT8", (1, 6, 6, 2), 0.05, 3)
    w = [b.constant(bytes_(2, 3, 3, 2), 0.01) for _ in range(2)]
    y = b.op("CONV_2D", [b.op("PAD", [x, pad]), w[0]], padding="VALID", stride_h=2, stride_w=2)
    y = b.op("RELU", [b.op("CONV_2D", [b.op("PAD", [y, pad]), w[1]], padding="VALID", **CONV)])
    least = b.constant(np.array(-128, np.int8), 0.05, 3)
    pool = {"padding": "VALID", "filter_height": 3, "filter_width": 3, **CONV}
    z = b.op("MAX_POOL_2D", [b.op("PADV2", [y, pad, least])], **pool)
    z = b.op("MAX_POOL_2D", [b.op("PAD", [b.op("RELU", [z]), pad])], **pool)
    return [b.op("AVERAGE_POOL_2D", [b.op("PAD", [z, pad])], **pool)]


@shows(
    horizontal_merge,
    """
input x INT8[1,8]*0.05+3
fully_connected_4 INT8[1,2]*0.1 = FULLY_CONNECTED(x, INT8[2,8]*2 scales, INT32{0, 1})
fully_connected_6 INT8[1,3]*0.1 = FULLY_CONNECTED(x, INT8[3,8]*3 scales, INT32{0, 1, 2})
fully_connected_8 INT8[1,2]*0.3 = FULLY_CONNECTED(x, INT8[2,8]*2 scales)
output fully_connected_4
output fully_connected_6
output fully_connected_8
""",
    """
input x INT8[1,8]*0.05+3
fully_connected_4/merged INT8[1,5]*0.1 = FULLY_CONNECTED(x, INT8[5,8]*5 scales, INT32[5])
fully_connected_4 INT8[1,2]*0.1, fully_connected_6 INT8[1,3]*0.1 = SPLIT_V(fully_connected_4/merged, INT32{2, 3}, INT32{1})  num_splits=2
fully_connected_8 INT8[1,2]*0.3 = FULLY_CONNECTED(x, INT8[2,8]*2 scales)
output fully_connected_4
output fully_connected_6
output fully_connected_8
""",  # noqa: E501
)
def merges_layers(b: Builder) -> list[Tensor]:
    x = b.input("x", "INT8", (1, 8), 0.05, 3)
    w = [b.constant(bytes_(n, 8), [0.01 * (n + i) for i in range(n)]) for n in (2, 3)]
    y = [b.op("FULLY_CONNECTED", [x, t, np.arange(t.shape[0], dtype=np.int32)], scale=0.1) for t in w]
    z = b.op("FULLY_CONNECTED", [x, b.constant(bytes_(2, 8), [0.01, 0.02])], scale=0.3)
    return [*y, z]
