"""Passes over arithmetic, as text before and after."""

from __future__ import annotations

import numpy as np
from passes_tools import CONV, bytes_, f, floats, order, shows

from twinfer.converter.build import Builder
from twinfer.converter.passes.batch_norm import batch_norm
from twinfer.converter.passes.common_subexpressions import common_subexpressions
from twinfer.converter.passes.constant_folding import constant_folding
from twinfer.converter.passes.dead_code import dead_code
from twinfer.converter.passes.elementwise_constants import elementwise_constants
from twinfer.converter.passes.equalize import equalize
from twinfer.converter.passes.float_weights import float_weights
from twinfer.converter.passes.multiplications import multiplications
from twinfer.runtime.graph import Tensor


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
    """All but the addition before the padded convolution."""
    x = b.input("x", "FLOAT32", (1, 4, 4, 4))
    y = b.op("ADD", [b.op("MUL", [x, f(2, 3, 4, 5)]), f(1)])
    y = b.op("CONV_2D", [y, floats(6, 2, 2, 2), floats(6)], padding="VALID", **CONV)
    y = b.op("ADD", [b.op("MUL", [b.op("RELU", [y]), f(3)]), f(2)])
    y = b.op("DEPTHWISE_CONV_2D", [y, floats(1, 3, 3, 6)], **CONV, depth_multiplier=1)
    y = b.op("SUB", [b.op("RELU", [y]), floats(6)])
    return [b.op("FULLY_CONNECTED", [y, floats(2, 54)])]


@shows(
    float_weights,
    """
input x FLOAT32[1,2]
dequantize_2 FLOAT32[3,2] = DEQUANTIZE(FLOAT16[3,2])
dequantize_4 FLOAT32[3] = DEQUANTIZE(FLOAT16{-1, 0, 0.5})
fully_connected_5 FLOAT32[1,3] = FULLY_CONNECTED(x, dequantize_2, dequantize_4)
output fully_connected_5
""",
    """
input x FLOAT32[1,2]
fully_connected_5 FLOAT32[1,3] = FULLY_CONNECTED(x, FLOAT32[3,2], FLOAT32{-1, 0, 0.5})
output fully_connected_5
""",
)
def widens_float16(b: Builder) -> list[Tensor]:
    x = b.input("x", "FLOAT32", (1, 2))
    w = b.op("DEQUANTIZE", [floats(3, 2).astype(np.float16)], type="FLOAT32")
    bias = b.op("DEQUANTIZE", [np.array([-1, 0, 0.5], np.float16)], type="FLOAT32")
    return [b.op("FULLY_CONNECTED", [x, w, bias])]


@shows(
    multiplications,
    """
input x FLOAT32[1,4]
neg_1 FLOAT32[1,4] = NEG(x)
square_2 FLOAT32[1,4] = SQUARE(neg_1)
pow_4 FLOAT32[1,4] = POW(square_2, FLOAT32{2})
pow_6 FLOAT32[1,4] = POW(pow_4, FLOAT32{0.5})
output pow_6
""",
    """
input x FLOAT32[1,4]
neg_1 FLOAT32[1,4] = MUL(x, FLOAT32{-1})
square_2 FLOAT32[1,4] = MUL(neg_1, neg_1)
pow_4 FLOAT32[1,4] = MUL(square_2, square_2)
pow_6 FLOAT32[1,4] = POW(pow_4, FLOAT32{0.5})
output pow_6
""",
)
def multiplies(b: Builder) -> list[Tensor]:
    x = b.op("NEG", [b.input("x", "FLOAT32", (1, 4))])
    y = b.op("POW", [b.op("SQUARE", [x]), f(2)])
    return [b.op("POW", [y, f(0.5)])]


@shows(
    equalize,
    """
input x FLOAT32[1,1]
fully_connected_3 FLOAT32[1,2] = FULLY_CONNECTED(x, FLOAT32{8, 0.5}, FLOAT32{4, 1})  fused_activation_function=RELU
fully_connected_5 FLOAT32[1,1] = FULLY_CONNECTED(fully_connected_3, FLOAT32{0.5, 2})
output fully_connected_5
""",
    """
input x FLOAT32[1,1]
fully_connected_3 FLOAT32[1,2] = FULLY_CONNECTED(x, FLOAT32{2, 1}, FLOAT32{1, 2})  fused_activation_function=RELU
fully_connected_5 FLOAT32[1,1] = FULLY_CONNECTED(fully_connected_3, FLOAT32{2, 1})
output fully_connected_5
""",
)
def makes_ranges_equal(b: Builder) -> list[Tensor]:
    x = b.input("x", "FLOAT32", (1, 1))
    first = np.array([[8], [0.5]], np.float32)
    y = b.op("FULLY_CONNECTED", [x, first, f(4, 1)], fused_activation_function="RELU")
    return [b.op("FULLY_CONNECTED", [y, np.array([[0.5, 2]], np.float32)])]
