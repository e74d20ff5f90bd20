"""Every pass by text before and after, and by numbers: integers bit by bit, floats within rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from passes_tools import assert_same

from twinfer.converter.build import Builder
from twinfer.converter.passes import PASSES, PIPELINE, Pass, run
from twinfer.converter.passes._rewrite import Change, View, rewrite
from twinfer.converter.passes.batch_norm import batch_norm
from twinfer.converter.passes.common_subexpressions import common_subexpressions
from twinfer.converter.passes.constant_folding import constant_folding
from twinfer.converter.passes.dead_code import dead_code
from twinfer.converter.passes.elementwise_constants import elementwise_constants
from twinfer.converter.passes.fuse_activations import fuse_activations
from twinfer.converter.passes.fuse_padding import fuse_padding
from twinfer.converter.passes.horizontal_merge import horizontal_merge
from twinfer.converter.passes.identities import identities
from twinfer.converter.passes.merge_relus import merge_relus
from twinfer.converter.passes.reshapes import reshapes
from twinfer.converter.passes.transposes import nhwc_io, transposes
from twinfer.converter.text import text
from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Graph, Node, Tensor, check

Build = Callable[[Builder], list[Tensor]]

#: Test name -> the pass, the graph, its text before and after.
CASES: dict[str, tuple[Pass, Build, str, str]] = {}

CONV = {"stride_h": 1, "stride_w": 1}


def shows(step: Pass, before: str, after: str) -> Callable[[Build], Build]:
    """Makes a test of a function that builds a graph."""

    def register(build: Build) -> Build:
        CASES[build.__name__] = step, build, before.lstrip("\n"), after.lstrip("\n")
        return build

    return register


def floats(*shape: int) -> Any:
    """Different numbers, none of them 0 or 1."""
    return (np.arange(np.prod(shape)) % 7 / 4 - 0.8).reshape(shape).astype(np.float32)


def bytes_(*shape: int) -> Any:
    return (np.arange(np.prod(shape)) * 29 % 255 - 127).reshape(shape).astype(np.int8)


def order(*axes: int) -> Any:
    return np.array(axes, np.int32)


def f(*values: float) -> Any:
    return np.array(values if len(values) > 1 else values[0], np.float32)


@shows(
    constant_folding,
    """
input x FLOAT32[1,4]
sqrt_2 FLOAT32[2] = SQRT(FLOAT32{0.25, 4})
shape_3 INT32[2] = SHAPE(x)  out_type=INT32
reshape_4 FLOAT32[1,4] = RESHAPE(x, shape_3)
reshape_6 FLOAT32[2,2] = RESHAPE(reshape_4, INT32{2, 2})  new_shape=[2, 2]
mul_7 FLOAT32[2,2] = MUL(reshape_6, sqrt_2)
output mul_7
""",
    """
input x FLOAT32[1,4]
reshape_4 FLOAT32[1,4] = RESHAPE(x, INT32{1, 4})
reshape_6 FLOAT32[2,2] = RESHAPE(reshape_4, INT32{2, 2})  new_shape=[2, 2]
mul_7 FLOAT32[2,2] = MUL(reshape_6, FLOAT32{0.5, 2})
output mul_7
""",
)
def folds_what_is_known(b: Builder) -> list[Tensor]:
    x = b.input("x", "FLOAT32", (1, 4))
    half = b.op("SQRT", [f(0.25, 4)])
    shape = b.op("SHAPE", [x], type="INT32", shape=(2,), out_type="INT32")
    y = b.op("RESHAPE", [x, shape], shape=(1, 4))
    y = b.op("RESHAPE", [y, order(2, 2)], new_shape=(2, 2))
    return [b.op("MUL", [y, half])]


@shows(
    constant_folding,
    """
input x FLOAT32[1,1000]
dequantize_2 FLOAT32[1000] = DEQUANTIZE(FLOAT16[1000])
neg_4 FLOAT32[1000] = NEG(FLOAT32[1000])
add_5 FLOAT32[1,1000] = ADD(x, neg_4)
mul_6 FLOAT32[1,1000] = MUL(add_5, dequantize_2)
output mul_6
""",
    """
input x FLOAT32[1,1000]
dequantize_2 FLOAT32[1000] = DEQUANTIZE(FLOAT16[1000])
add_5 FLOAT32[1,1000] = ADD(x, FLOAT32[1000])
mul_6 FLOAT32[1,1000] = MUL(add_5, dequantize_2)
output mul_6
""",
)
def folds_nothing_that_grows(b: Builder) -> list[Tensor]:
    x = b.input("x", "FLOAT32", (1, 1000))
    wide = b.op("DEQUANTIZE", [np.ones(1000, np.float16)], type="FLOAT32")
    y = b.op("ADD", [x, b.op("NEG", [floats(1000)])])
    return [b.op("MUL", [y, wide])]


@shows(
    dead_code,
    """
input x INT8[1,4]*0.5
relu_1 INT8[1,4]*0.5 = RELU(x)
relu6_2 INT8[1,4]*0.5 = RELU6(relu_1)
add_4 INT8[1,4]*0.5 = ADD(relu6_2, INT8{-127, -98, -69, -40}*0.5)
output relu_1
""",
    """
input x INT8[1,4]*0.5
relu_1 INT8[1,4]*0.5 = RELU(x)
output relu_1
""",
)
def drops_what_nobody_needs(b: Builder) -> list[Tensor]:
    x = b.input("x", "INT8", (1, 4), 0.5)
    y = b.op("RELU", [x])
    b.op("ADD", [b.op("RELU6", [y]), b.constant(bytes_(4), 0.5)])
    return [y]


@shows(
    common_subexpressions,
    """
input x INT8[1,4]*0.5
add_2 INT8[1,4]*0.5 = ADD(x, INT8{-127, -98, -69, -40}*0.5)
add_4 INT8[1,4]*0.5 = ADD(x, INT8{-127, -98, -69, -40}*0.5)
relu_5 INT8[1,4]*0.5 = RELU(add_2)
relu_6 INT8[1,4]*0.5 = RELU(add_4)
mul_7 INT8[1,4]*2 = MUL(relu_5, relu_6)
output mul_7
""",
    """
input x INT8[1,4]*0.5
add_2 INT8[1,4]*0.5 = ADD(x, INT8{-127, -98, -69, -40}*0.5)
relu_5 INT8[1,4]*0.5 = RELU(add_2)
mul_7 INT8[1,4]*2 = MUL(relu_5, relu_5)
output mul_7
""",
)
def computes_once(b: Builder) -> list[Tensor]:
    x = b.input("x", "INT8", (1, 4), 0.5)
    y, z = (b.op("ADD", [x, b.constant(bytes_(4), 0.5)]) for _ in range(2))
    y, z = b.op("RELU", [y]), b.op("RELU", [z])
    return [b.op("MUL", [y, z], scale=2.0)]


@shows(
    identities,
    """
input x FLOAT32[1,4,2]
reshape_2 FLOAT32[1,4,2] = RESHAPE(x, INT32{1, 4, 2})  new_shape=[1, 4, 2]
transpose_4 FLOAT32[1,4,2] = TRANSPOSE(reshape_2, INT32{0, 1, 2})
pad_6 FLOAT32[1,4,2] = PAD(transpose_4, INT32[3,2])
slice_9 FLOAT32[1,4,2] = SLICE(pad_6, INT32{0, 0, 0}, INT32{1, 4, 2})
relu_10 FLOAT32[1,4,2] = RELU(slice_9)
concatenation_11 FLOAT32[1,4,2] = CONCATENATION(relu_10)  axis=1
cast_12 FLOAT32[1,4,2] = CAST(concatenation_11)
sub_14 FLOAT32[1,4,2] = SUB(cast_12, FLOAT32{0})
mul_16 FLOAT32[1,4,2] = MUL(sub_14, FLOAT32{1, 1})
output mul_16
""",
    """
input x FLOAT32[1,4,2]
mul_16 FLOAT32[1,4,2] = RELU(x)
output mul_16
""",
)
def drops_what_does_nothing(b: Builder) -> list[Tensor]:
    x = b.input("x", "FLOAT32", (1, 4, 2))
    y = b.op("RESHAPE", [x, order(1, 4, 2)], new_shape=(1, 4, 2))
    y = b.op("TRANSPOSE", [y, order(0, 1, 2)])
    y = b.op("PAD", [y, np.zeros((3, 2), np.int32)])
    y = b.op("RELU", [b.op("SLICE", [y, order(0, 0, 0), order(1, 4, 2)])])
    y = b.op("CAST", [b.op("CONCATENATION", [y], axis=1)])
    return [b.op("MUL", [b.op("SUB", [y, f(0)]), f(1, 1)])]


@shows(
    identities,
    """
input x INT8[1,4]*0.5+3
dequantize_1 FLOAT32[1,4] = DEQUANTIZE(x)
quantize_2 INT8[1,4]*0.5+3 = QUANTIZE(dequantize_1)
quantize_3 INT8[1,4]*0.5+3 = QUANTIZE(quantize_2)
add_5 INT8[1,4]*0.5+3 = ADD(quantize_3, INT8{-7}*0.25-7)
mul_7 INT8[1,4]*1 = MUL(INT8{1}*1, add_5)
add_9 INT8[1,4]*0.6+3 = ADD(mul_7, INT8{0}*0.5)
output add_9
""",
    """
input x INT8[1,4]*0.5+3
mul_7 INT8[1,4]*1 = MUL(INT8{1}*1, x)
add_9 INT8[1,4]*0.6+3 = ADD(mul_7, INT8{0}*0.5)
output add_9
""",
)
def proves_int8_by_all_values(b: Builder) -> list[Tensor]:
    """The last addition requantises."""
    x = b.input("x", "INT8", (1, 4), 0.5, 3)
    y = b.op("QUANTIZE", [b.op("DEQUANTIZE", [x], type="FLOAT32")], type="INT8", scale=0.5, zero=3)
    y = b.op("ADD", [b.op("QUANTIZE", [y]), b.constant(np.array(-7, np.int8), 0.25, -7)])
    y = b.op("MUL", [b.constant(np.array(1, np.int8), 1.0), y])
    return [b.op("ADD", [y, b.constant(np.array(0, np.int8), 0.5)], scale=0.6, zero=3)]


@shows(
    reshapes,
    """
input x FLOAT32[1,4,1,2]
squeeze_1 FLOAT32[1,4,2] = SQUEEZE(x)  squeeze_dims=[2]
expand_dims_3 FLOAT32[1,1,4,2] = EXPAND_DIMS(squeeze_1, INT32{0})
relu_4 FLOAT32[1,1,4,2] = RELU(expand_dims_3)
mul_6 FLOAT32[1,1,4,2] = MUL(relu_4, FLOAT32{2, 3})
reshape_8 FLOAT32[8] = RESHAPE(mul_6, INT32{8})  new_shape=[8]
reshape_10 FLOAT32[1,4,1,2] = RESHAPE(reshape_8, INT32{1, 4, 1, 2})  new_shape=[1, 4, 1, 2]
reshape_12 FLOAT32[1,8] = RESHAPE(reshape_10, INT32{1, 8})  new_shape=[1, 8]
fully_connected_14 FLOAT32[1,3] = FULLY_CONNECTED(reshape_12, FLOAT32[3,8])
output fully_connected_14
""",
    """
input x FLOAT32[1,4,1,2]
relu_4/flat FLOAT32[1,4,1,2] = RELU(x)
mul_6/flat FLOAT32[1,4,1,2] = MUL(relu_4/flat, FLOAT32{2, 3})
fully_connected_14 FLOAT32[1,3] = FULLY_CONNECTED(mul_6/flat, FLOAT32[3,8])
output fully_connected_14
""",
)
def joins_reshapes(b: Builder) -> list[Tensor]:
    x = b.input("x", "FLOAT32", (1, 4, 1, 2))
    y = b.op("SQUEEZE", [x], squeeze_dims=(2,))
    y = b.op("RELU", [b.op("EXPAND_DIMS", [y, order(0)])])
    y = b.op("MUL", [y, f(2, 3)])
    z = b.op("RESHAPE", [b.op("RESHAPE", [y, order(8)], new_shape=(8,)), order(1, 4, 1, 2)], new_shape=(1, 4, 1, 2))
    flat = b.op("RESHAPE", [z, order(1, 8)], new_shape=(1, 8))
    return [b.op("FULLY_CONNECTED", [flat, floats(3, 8)])]


@shows(
    elementwise_constants,
    """
input x FLOAT32[1,4,2]
add_2 FLOAT32[1,4,2] = ADD(x, FLOAT32{1, 2})
sub_4 FLOAT32[1,4,2] = SUB(add_2, FLOAT32{3})
mul_6 FLOAT32[1,4,2] = MUL(sub_4, FLOAT32{2})
div_8 FLOAT32[1,4,2] = DIV(mul_6, FLOAT32{4, 8})
maximum_10 FLOAT32[1,4,2] = MAXIMUM(div_8, FLOAT32{-3})
sub_12 FLOAT32[1,4,2] = SUB(FLOAT32{5}, maximum_10)
mul_14 FLOAT32[1,4,2] = MUL(sub_12, FLOAT32{-1})  fused_activation_function=RELU
mul_16 FLOAT32[1,4,2] = MUL(mul_14, FLOAT32{2})
mul_18 FLOAT32[1,4,2] = MUL(mul_16, FLOAT32{0.5})
add_20 FLOAT32[1,4,2] = ADD(mul_18, FLOAT32{0})
output add_20
""",
    """
input x FLOAT32[1,4,2]
div_8/scaled FLOAT32[1,4,2] = MUL(x, FLOAT32{0.5, 0.25})
div_8 FLOAT32[1,4,2] = ADD(div_8/scaled, FLOAT32{-1, -0.25})
maximum_10 FLOAT32[1,4,2] = MAXIMUM(div_8, FLOAT32{-3})
add_20 FLOAT32[1,4,2] = ADD(maximum_10, FLOAT32{-5})  fused_activation_function=RELU
output add_20
""",
)
def joins_arithmetic(b: Builder) -> list[Tensor]:
    x = b.input("x", "FLOAT32", (1, 4, 2))
    y = b.op("SUB", [b.op("ADD", [x, f(1, 2)]), f(3)])
    y = b.op("DIV", [b.op("MUL", [y, f(2)]), f(4, 8)])
    y = b.op("MAXIMUM", [y, f(-3)])
    y = b.op("SUB", [f(5), y])
    y = b.op("MUL", [y, f(-1)], fused_activation_function="RELU")
    return [b.op("ADD", [b.op("MUL", [b.op("MUL", [y, f(2)]), f(0.5)]), f(0)])]


@shows(
    elementwise_constants,
    """
input x FLOAT32[1,4,2]
mul_2 FLOAT32[1,4,2] = MUL(x, FLOAT32{2, 3})
mul_4 FLOAT32[1,4,2] = MUL(mul_2, FLOAT32{-0.8, -0.55, -0.3, -0.05})
output mul_4
""",
    """
input x FLOAT32[1,4,2]
mul_2 FLOAT32[1,4,2] = MUL(x, FLOAT32{2, 3})
mul_4 FLOAT32[1,4,2] = MUL(mul_2, FLOAT32{-0.8, -0.55, -0.3, -0.05})
output mul_4
""",
)
def constants_do_not_grow(b: Builder) -> list[Tensor]:
    x = b.input("x", "FLOAT32", (1, 4, 2))
    return [b.op("MUL", [b.op("MUL", [x, f(2, 3)]), floats(4, 1)])]


@shows(
    batch_norm,
    """
input x FLOAT32[1,4,4,2]
conv_2d_2 FLOAT32[1,4,4,3] = CONV_2D(x, FLOAT32[3,3,3,2])  stride_w=1 stride_h=1
mul_4 FLOAT32[1,4,4,3] = MUL(conv_2d_2, FLOAT32{2, 3, 4})
add_6 FLOAT32[1,4,4,3] = ADD(mul_4, FLOAT32{1, 2, 3})  fused_activation_function=RELU
depthwise_conv_2d_9 FLOAT32[1,4,4,6] = DEPTHWISE_CONV_2D(add_6, FLOAT32[1,3,3,6], FLOAT32[6])  stride_w=1 stride_h=1 depth_multiplier=2
div_11 FLOAT32[1,4,4,6] = DIV(depthwise_conv_2d_9, FLOAT32[6])
sub_13 FLOAT32[1,4,4,6] = SUB(FLOAT32{1}, div_11)
transpose_conv_16 FLOAT32[1,8,8,2] = TRANSPOSE_CONV(INT32{1, 8, 8, 2}, FLOAT32[2,2,2,6], sub_13)  stride_w=2 stride_h=2
mul_18 FLOAT32[1,8,8,2] = MUL(transpose_conv_16, FLOAT32{2})
relu_19 FLOAT32[1,8,8,2] = RELU(mul_18)
fully_connected_22 FLOAT32[1,3] = FULLY_CONNECTED(relu_19, FLOAT32[3,128], FLOAT32{-0.8, -0.55, -0.3})
add_24 FLOAT32[1,3] = ADD(fully_connected_22, FLOAT32{1, 2, 3})
output add_24
""",  # noqa: E501
    """
input x FLOAT32[1,4,4,2]
add_6 FLOAT32[1,4,4,3] = CONV_2D(x, FLOAT32[3,3,3,2], FLOAT32{1, 2, 3})  stride_w=1 stride_h=1 fused_activation_function=RELU
sub_13 FLOAT32[1,4,4,6] = DEPTHWISE_CONV_2D(add_6, FLOAT32[1,3,3,6], FLOAT32[6])  stride_w=1 stride_h=1 depth_multiplier=2
mul_18 FLOAT32[1,8,8,2] = TRANSPOSE_CONV(INT32{1, 8, 8, 2}, FLOAT32[2,2,2,6], sub_13)  stride_w=2 stride_h=2
relu_19 FLOAT32[1,8,8,2] = RELU(mul_18)
add_24 FLOAT32[1,3] = FULLY_CONNECTED(relu_19, FLOAT32[3,128], FLOAT32{0.2, 1.45, 2.7})
output add_24
""",  # noqa: E501
)
def takes_in_what_follows(b: Builder) -> list[Tensor]:
    x = b.input("x", "FLOAT32", (1, 4, 4, 2))
    y = b.op("CONV_2D", [x, floats(3, 3, 3, 2)], **CONV)
    y = b.op("ADD", [b.op("MUL", [y, f(2, 3, 4)]), f(1, 2, 3)], fused_activation_function="RELU")
    y = b.op("DEPTHWISE_CONV_2D", [y, floats(1, 3, 3, 6), floats(6)], **CONV, depth_multiplier=2)
    y = b.op("SUB", [f(1), b.op("DIV", [y, f(2, 3, 4, 5, 6, 7)])])
    y = b.op("TRANSPOSE_CONV", [order(1, 8, 8, 2), floats(2, 2, 2, 6), y], type="FLOAT32", stride_h=2, stride_w=2)
    y = b.op("RELU", [b.op("MUL", [y, f(2)])])
    y = b.op("FULLY_CONNECTED", [y, floats(3, 128), floats(3)])
    return [b.op("ADD", [y, f(1, 2, 3)])]


@shows(
    batch_norm,
    """
input x FLOAT32[1,4,4,4]
mul_2 FLOAT32[1,4,4,4] = MUL(x, FLOAT32{2, 3, 4, 5})
add_4 FLOAT32[1,4,4,4] = ADD(mul_2, FLOAT32{1})
conv_2d_7 FLOAT32[1,3,3,6] = CONV_2D(add_4, FLOAT32[6,2,2,2], FLOAT32[6])  padding=VALID stride_w=1 stride_h=1
relu_8 FLOAT32[1,3,3,6] = RELU(conv_2d_7)
mul_10 FLOAT32[1,3,3,6] = MUL(relu_8, FLOAT32{3})
add_12 FLOAT32[1,3,3,6] = ADD(mul_10, FLOAT32{2})
depthwise_conv_2d_14 FLOAT32[1,3,3,6] = DEPTHWISE_CONV_2D(add_12, FLOAT32[1,3,3,6])  stride_w=1 stride_h=1 depth_multiplier=1
relu_15 FLOAT32[1,3,3,6] = RELU(depthwise_conv_2d_14)
sub_17 FLOAT32[1,3,3,6] = SUB(relu_15, FLOAT32[6])
fully_connected_19 FLOAT32[1,2] = FULLY_CONNECTED(sub_17, FLOAT32[2,54])
output fully_connected_19
""",  # noqa: E501
    """
input x FLOAT32[1,4,4,4]
conv_2d_7 FLOAT32[1,3,3,6] = CONV_2D(x, FLOAT32[6,2,2,2], FLOAT32[6])  padding=VALID stride_w=1 stride_h=1
relu_8 FLOAT32[1,3,3,6] = RELU(conv_2d_7)
mul_10 FLOAT32[1,3,3,6] = MUL(relu_8, FLOAT32{3})
add_12 FLOAT32[1,3,3,6] = ADD(mul_10, FLOAT32{2})
depthwise_conv_2d_14 FLOAT32[1,3,3,6] = DEPTHWISE_CONV_2D(add_12, FLOAT32[1,3,3,6])  stride_w=1 stride_h=1 depth_multiplier=1
relu_15 FLOAT32[1,3,3,6] = RELU(depthwise_conv_2d_14)
fully_connected_19 FLOAT32[1,2] = FULLY_CONNECTED(relu_15, FLOAT32[2,54], FLOAT32{-1.785, 1.015})
output fully_connected_19
""",  # noqa: E501
)
def takes_in_what_comes_before(b: Builder) -> list[Tensor]:
    """Not the addition before the padded convolution."""
    x = b.input("x", "FLOAT32", (1, 4, 4, 4))
    y = b.op("ADD", [b.op("MUL", [x, f(2, 3, 4, 5)]), f(1)])
    y = b.op("CONV_2D", [y, floats(6, 2, 2, 2), floats(6)], padding="VALID", **CONV)
    y = b.op("ADD", [b.op("MUL", [b.op("RELU", [y]), f(3)]), f(2)])
    y = b.op("DEPTHWISE_CONV_2D", [y, floats(1, 3, 3, 6)], **CONV, depth_multiplier=1)
    y = b.op("SUB", [b.op("RELU", [y]), floats(6)])
    return [b.op("FULLY_CONNECTED", [y, floats(2, 54)])]


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
    """Only the clip that requantises has anything to do."""
    x = b.input("x", "INT8", (1, 4), 0.02, -128)
    y = b.op("RELU6", [b.op("RELU", [x])])
    y = b.op("RELU", [y], scale=0.03, zero=-128)
    return [b.op("MAXIMUM", [y, b.constant(np.array(-128, np.int8), 0.03, -128)])]


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
    """Not the first: SAME would put its windows elsewhere; nor that of the average, which leaves padding out."""
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
    transposes,
    """
input x FLOAT32[1,2,4,3]
transpose_2 FLOAT32[1,4,3,2] = TRANSPOSE(x, INT32{0, 2, 3, 1})
conv_2d_4 FLOAT32[1,4,3,2] = CONV_2D(transpose_2, FLOAT32{-0.8, -0.55, -0.3, -0.05})  stride_w=1 stride_h=1
transpose_6 FLOAT32[1,2,4,3] = TRANSPOSE(conv_2d_4, INT32{0, 3, 1, 2})
mul_8 FLOAT32[1,2,4,3] = MUL(transpose_6, FLOAT32{-0.8, -0.55})
prelu_10 FLOAT32[1,2,4,3] = PRELU(mul_8, FLOAT32{-0.8, -0.55})
pad_12 FLOAT32[1,2,4,3] = PAD(prelu_10, INT32[4,2])
concatenation_13 FLOAT32[1,4,4,3] = CONCATENATION(prelu_10, pad_12)  axis=1
mean_15 FLOAT32[1,4,1,1] = MEAN(concatenation_13, INT32{2, 3})  keep_dims=True
logistic_16 FLOAT32[1,4,1,1] = LOGISTIC(mean_15)
mul_17 FLOAT32[1,4,4,3] = MUL(concatenation_13, logistic_16)
transpose_19 FLOAT32[1,4,3,4] = TRANSPOSE(mul_17, INT32{0, 2, 3, 1})
conv_2d_21 FLOAT32[1,4,3,2] = CONV_2D(transpose_19, FLOAT32[2,1,1,4])  stride_w=1 stride_h=1
transpose_23 FLOAT32[1,2,4,3] = TRANSPOSE(conv_2d_21, INT32{0, 3, 1, 2})
mean_25 FLOAT32[1,2] = MEAN(transpose_23, INT32{2, 3})
output mean_25
""",
    """
input x FLOAT32[1,2,4,3]
transpose_2 FLOAT32[1,4,3,2] = TRANSPOSE(x, INT32{0, 2, 3, 1})
conv_2d_4 FLOAT32[1,4,3,2] = CONV_2D(transpose_2, FLOAT32{-0.8, -0.55, -0.3, -0.05})  stride_w=1 stride_h=1
mul_8 FLOAT32[1,4,3,2] = MUL(conv_2d_4, FLOAT32{-0.8, -0.55})
prelu_10 FLOAT32[1,4,3,2] = PRELU(mul_8, FLOAT32{-0.8, -0.55})
pad_12 FLOAT32[1,4,3,2] = PAD(prelu_10, INT32[4,2])
concatenation_13 FLOAT32[1,4,3,4] = CONCATENATION(prelu_10, pad_12)  axis=3
mean_15 FLOAT32[1,1,1,4] = MEAN(concatenation_13, INT32{1, 2})  keep_dims=True
logistic_16 FLOAT32[1,1,1,4] = LOGISTIC(mean_15)
mul_17 FLOAT32[1,4,3,4] = MUL(concatenation_13, logistic_16)
conv_2d_21 FLOAT32[1,4,3,2] = CONV_2D(mul_17, FLOAT32[2,1,1,4])  stride_w=1 stride_h=1
mean_25 FLOAT32[1,2] = MEAN(conv_2d_21, INT32{1, 2})
output mean_25
""",
)
def cancels_transposes(b: Builder) -> list[Tensor]:
    x = b.input("x", "FLOAT32", (1, 2, 4, 3))
    y = b.op("TRANSPOSE", [x, order(0, 2, 3, 1)])
    y = b.op("CONV_2D", [y, floats(2, 1, 1, 2)], **CONV)
    y = b.op("TRANSPOSE", [y, order(0, 3, 1, 2)])
    y = b.op("PRELU", [b.op("MUL", [y, floats(2, 1, 1)]), floats(2, 1, 1)])
    y = b.op("CONCATENATION", [y, b.op("PAD", [y, order(*[0] * 8).reshape(4, 2)])], axis=1)
    z = b.op("MEAN", [y, order(2, 3)], keep_dims=True)
    y = b.op("MUL", [y, b.op("LOGISTIC", [z])])
    y = b.op("CONV_2D", [b.op("TRANSPOSE", [y, order(0, 2, 3, 1)]), floats(2, 1, 1, 4)], **CONV)
    y = b.op("TRANSPOSE", [y, order(0, 3, 1, 2)])
    return [b.op("MEAN", [y, order(2, 3)])]


@shows(
    transposes,
    """
input x INT8[2,3]*0.05+3
fully_connected_3 INT8[2,24]*0.1 = FULLY_CONNECTED(x, INT8[24,3]*24 scales, INT32[24])
reshape_5 INT8[2,2,4,3]*0.1 = RESHAPE(fully_connected_3, INT32{2, 2, 4, 3})  new_shape=[2, 2, 4, 3]
transpose_7 INT8[2,4,3,2]*0.1 = TRANSPOSE(reshape_5, INT32{0, 2, 3, 1})
max_pool_2d_8 INT8[2,2,3,2]*0.1 = MAX_POOL_2D(transpose_7)  stride_w=1 stride_h=2 filter_width=2 filter_height=2
transpose_10 INT8[2,2,2,3]*0.1 = TRANSPOSE(max_pool_2d_8, INT32{0, 3, 1, 2})
reshape_12 INT8[2,12]*0.1 = RESHAPE(transpose_10, INT32{2, 12})  new_shape=[2, 12]
fully_connected_14 INT8[2,3]*0.2 = FULLY_CONNECTED(reshape_12, INT8[3,12]*0.01)
output fully_connected_14
""",
    """
input x INT8[2,3]*0.05+3
fully_connected_3/turned INT8[2,24]*0.1 = FULLY_CONNECTED(x, INT8[24,3]*24 scales, INT32[24])
transpose_7 INT8[2,4,3,2]*0.1 = RESHAPE(fully_connected_3/turned, INT32{2, 4, 3, 2})  new_shape=[2, 4, 3, 2]
max_pool_2d_8 INT8[2,2,3,2]*0.1 = MAX_POOL_2D(transpose_7)  stride_w=1 stride_h=2 filter_width=2 filter_height=2
reshape_12/flat INT8[2,12]*0.1 = RESHAPE(max_pool_2d_8, INT32{2, 12})  new_shape=[2, 12]
fully_connected_14 INT8[2,3]*0.2 = FULLY_CONNECTED(reshape_12/flat, INT8[3,12]*0.01)
output fully_connected_14
""",
)
def dense_layers_take_the_order_in(b: Builder) -> list[Tensor]:
    x = b.input("x", "INT8", (2, 3), 0.05, 3)
    w = b.constant(bytes_(24, 3), [0.01 + 0.001 * i for i in range(24)])
    y = b.op("FULLY_CONNECTED", [x, w, np.arange(24, dtype=np.int32)], scale=0.1)
    y = b.op("TRANSPOSE", [b.op("RESHAPE", [y, order(2, 2, 4, 3)], new_shape=(2, 2, 4, 3)), order(0, 2, 3, 1)])
    y = b.op("MAX_POOL_2D", [y], filter_height=2, filter_width=2, stride_h=2, stride_w=1)
    y = b.op("RESHAPE", [b.op("TRANSPOSE", [y, order(0, 3, 1, 2)]), order(2, 12)], new_shape=(2, 12))
    return [b.op("FULLY_CONNECTED", [y, b.constant(bytes_(3, 12), 0.01)], scale=0.2)]


@shows(
    transposes,
    """
input x FLOAT32[1,5,3]
transpose_2 FLOAT32[1,3,5] = TRANSPOSE(x, INT32{0, 2, 1})
transpose_5 FLOAT32[3,5] = TRANSPOSE(FLOAT32[5,3], INT32{1, 0})
add_6 FLOAT32[1,3,5] = ADD(transpose_2, transpose_5)
reshape_8 FLOAT32[1,3,1,5] = RESHAPE(add_6, INT32{1, 3, 1, 5})  new_shape=[1, 3, 1, 5]
transpose_10 FLOAT32[1,1,5,3] = TRANSPOSE(reshape_8, INT32{0, 2, 3, 1})
average_pool_2d_11 FLOAT32[1,1,5,3] = AVERAGE_POOL_2D(transpose_10)  stride_w=1 stride_h=1 filter_width=5 filter_height=1
mean_13 FLOAT32[1,1,1,3] = MEAN(average_pool_2d_11, INT32{2})  keep_dims=True
transpose_15 FLOAT32[1,3,1,1] = TRANSPOSE(mean_13, INT32{0, 3, 1, 2})
tanh_16 FLOAT32[1,3,1,1] = TANH(transpose_15)
output tanh_16
""",  # noqa: E501
    """
input x FLOAT32[1,5,3]
add_6/turned FLOAT32[1,5,3] = ADD(x, FLOAT32[1,5,3])
reshape_8/turned FLOAT32[1,5,1,3] = RESHAPE(add_6/turned, INT32{1, 5, 1, 3})  new_shape=[1, 5, 1, 3]
transpose_10 FLOAT32[1,1,5,3] = RESHAPE(reshape_8/turned, INT32{1, 1, 5, 3})  new_shape=[1, 1, 5, 3]
average_pool_2d_11 FLOAT32[1,1,5,3] = AVERAGE_POOL_2D(transpose_10)  stride_w=1 stride_h=1 filter_width=5 filter_height=1
mean_13 FLOAT32[1,1,1,3] = MEAN(average_pool_2d_11, INT32{2})  keep_dims=True
transpose_15 FLOAT32[1,3,1,1] = RESHAPE(mean_13, INT32{1, 3, 1, 1})  new_shape=[1, 3, 1, 1]
tanh_16 FLOAT32[1,3,1,1] = TANH(transpose_15)
output tanh_16
""",  # noqa: E501
)
def other_ranks(b: Builder) -> list[Tensor]:
    """Constants are transposed here; one that moves single elements is a RESHAPE."""
    x = b.input("x", "FLOAT32", (1, 5, 3))
    y = b.op("TRANSPOSE", [x, order(0, 2, 1)])
    y = b.op("ADD", [y, b.op("TRANSPOSE", [floats(5, 3), order(1, 0)])])
    y = b.op("RESHAPE", [y, order(1, 3, 1, 5)], new_shape=(1, 3, 1, 5))
    y = b.op("AVERAGE_POOL_2D", [b.op("TRANSPOSE", [y, order(0, 2, 3, 1)])], filter_width=5, filter_height=1, **CONV)
    y = b.op("TRANSPOSE", [b.op("MEAN", [y, order(2)], keep_dims=True), order(0, 3, 1, 2)])
    return [b.op("TANH", [y])]


@shows(
    transposes,
    """
input x INT8[1,4,3,6]*0.5
max_pool_2d_1 INT8[1,4,3,6]*0.5 = MAX_POOL_2D(x)  stride_w=1 stride_h=1 filter_width=1 filter_height=1
transpose_3 INT8[1,6,4,3]*0.5 = TRANSPOSE(max_pool_2d_1, INT32{0, 3, 1, 2})
slice_6 INT8[1,4,2,3]*0.5 = SLICE(transpose_3, INT32{0, 1, 2, 0}, INT32{1, 4, 2, 3})
strided_slice_10 INT8[1,2,2,2]*0.5 = STRIDED_SLICE(slice_6, INT32{0, 0, 0, 1}, INT32{1, 4, 2, 9}, INT32{1, 2, 1, 1})  begin_mask=1 end_mask=8
pad_12 INT8[1,5,5,6]*0.5 = PAD(strided_slice_10, INT32[4,2])
gather_14 INT8[1,3,5,6]*0.5 = GATHER(pad_12, INT32{2, 0, 1})  axis=1
transpose_16 INT8[1,5,6,3]*0.5 = TRANSPOSE(gather_14, INT32{0, 2, 3, 1})
softmax_17 INT8[1,5,6,3]*0.00390625-128 = SOFTMAX(transpose_16)  beta=1
output softmax_17
""",  # noqa: E501
    """
input x INT8[1,4,3,6]*0.5
max_pool_2d_1 INT8[1,4,3,6]*0.5 = MAX_POOL_2D(x)  stride_w=1 stride_h=1 filter_width=1 filter_height=1
slice_6 INT8[1,2,3,4]*0.5 = SLICE(max_pool_2d_1, INT32{0, 2, 0, 1}, INT32{1, 2, 3, 4})
strided_slice_10 INT8[1,2,2,2]*0.5 = STRIDED_SLICE(slice_6, INT32{0, 0, 1, 0}, INT32{1, 2, 9, 4}, INT32{1, 1, 1, 2})  begin_mask=1 end_mask=4
pad_12 INT8[1,5,6,5]*0.5 = PAD(strided_slice_10, INT32[4,2])
gather_14 INT8[1,5,6,3]*0.5 = GATHER(pad_12, INT32{2, 0, 1})  axis=3
softmax_17 INT8[1,5,6,3]*0.00390625-128 = SOFTMAX(gather_14)  beta=1
output softmax_17
""",  # noqa: E501
)
def axes_follow(b: Builder) -> list[Tensor]:
    x = b.input("x", "INT8", (1, 4, 3, 6), 0.5)
    y = b.op("TRANSPOSE", [b.op("MAX_POOL_2D", [x], filter_width=1, filter_height=1, **CONV), order(0, 3, 1, 2)])
    y = b.op("SLICE", [y, order(0, 1, 2, 0), order(1, 4, 2, 3)])
    y = b.op("STRIDED_SLICE", [y, order(0, 0, 0, 1), order(1, 4, 2, 9), order(1, 2, 1, 1)], end_mask=8, begin_mask=1)
    y = b.op("PAD", [y, order(0, 0, 1, 2, 3, 0, 0, 4).reshape(4, 2)])
    y = b.op("GATHER", [y, order(2, 0, 1)], shape=(1, 3, 5, 6), axis=1)
    y = b.op("SOFTMAX", [b.op("TRANSPOSE", [y, order(0, 2, 3, 1)])], scale=1 / 256, zero=-128, beta=1.0)
    return [y]


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


def graph_of(name: str) -> Graph:
    builder = Builder(name)
    return builder.graph(CASES[name][1](builder), signature="serving_default")


@pytest.mark.parametrize("name", CASES)
def test_text(name: str) -> None:
    step, _, before, after = CASES[name]
    graph = graph_of(name)
    assert text(graph) == before
    assert text(step(graph)) == after
    assert text(step(step(graph))) == after


@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str) -> None:
    """By the pass alone, and by the whole pipeline."""
    graph = graph_of(name)
    for changed in (CASES[name][0](graph), run(graph)):
        check(changed)
        assert_same(graph, changed)
        assert changed.outputs == graph.outputs
        assert changed.signatures == graph.signatures


def test_run_tells_what_each_pass_did() -> None:
    graph, seen = graph_of("joins_clips"), dict[str, str]()
    result = run(graph, (merge_relus, dead_code), after=lambda name, g: seen.__setitem__(name, text(g)))
    assert list(seen) == ["merge_relus", "dead_code"]
    assert seen["dead_code"] == text(result)


def test_run_checks_behind_every_pass() -> None:
    """A pass that loses an operator is found out."""
    graph = graph_of("joins_clips")
    with pytest.raises(ModelError, match="before any operator has written it"):
        run(graph, (lambda g: Graph(g.name, g.tensors, g.nodes[1:], g.inputs, g.outputs),))


def test_names() -> None:
    assert set(PIPELINE) < set(PASSES.values())
    assert all(name == step.__name__ and step.__doc__ for name, step in PASSES.items())


def test_rewrite_goes_on_until_nothing_changes() -> None:
    """What a change leaves without a reader goes, what the outside knows stays."""
    b = Builder("chain")
    x = b.input("x", "FLOAT32", (2,))
    y = b.op("NEG", [b.op("ABS", [x])])
    graph = b.graph([b.op("EXP", [y]), b.op("SIN", [y])])

    def skip(view: View, node: Node) -> Change | None:
        before = view.producer(node.input(0))
        return None if before is None else Change((node,), (Node(node.op, before.inputs, node.outputs),))

    assert text(rewrite(graph, skip)) == (
        "input x FLOAT32[2]\nexp_3 FLOAT32[2] = EXP(x)\nsin_4 FLOAT32[2] = SIN(x)\noutput exp_3\noutput sin_4\n"
    )


def test_state_is_left_alone() -> None:
    """What is read from a variable before it is written is not what is read after."""
    b = Builder("state")
    x, state = b.input("x", "INT8", (1, 4), 0.5), b.variable("state", "INT8", (1, 4), 0.5)
    old = b.op("RESHAPE", [state, order(1, 4)], new_shape=(1, 4))
    b.node("RELU", [x], [state])
    new = b.op("RESHAPE", [state, order(1, 4)], new_shape=(1, 4))
    graph = b.graph([b.op("ADD", [old, new])])
    assert text(run(graph)) == text(graph)
    assert_same(graph, run(graph, tuple(PASSES.values())))


def test_open_shapes_stay_open() -> None:
    """SHAPE of an open dimension is no constant, and a reshape of it says nothing of what it will be."""
    b = Builder("open")
    x = b.add(Tensor("x", "FLOAT32", (1, 4), shape_signature=(-1, 4)))
    b.inputs.append(x)
    shape = b.op("SHAPE", [x], type="INT32", shape=(2,), out_type="INT32")
    graph = b.graph([b.op("RESHAPE", [b.op("NEG", [x]), shape], shape=(1, 4))])
    assert text(run(graph)) == text(graph)


def test_interface_in_nhwc() -> None:
    b = Builder("image")
    x = b.input("x", "FLOAT32", (1, 2, 4, 3))
    y = b.op("MAX_POOL_2D", [b.op("TRANSPOSE", [x, order(0, 2, 3, 1)])], filter_height=2, filter_width=2, **CONV)
    graph = b.graph([b.op("TRANSPOSE", [y, order(0, 3, 1, 2)])], signature="serving_default")
    changed = nhwc_io(graph)
    check(changed)
    assert [(n.op, n.output.shape) for n in changed.nodes] == [("MAX_POOL_2D", (1, 4, 3, 2))]
    assert [t.name for t in (*changed.inputs, *changed.outputs)] == [t.name for t in (*graph.inputs, *graph.outputs)]
    assert (*changed.signatures[0].inputs.values(), *changed.signatures[0].outputs.values()) == (
        *changed.inputs,
        *changed.outputs,
    )
