"""Passes over operators that move elements, as text before and after."""

from __future__ import annotations

import numpy as np
from passes_tools import CONV, bytes_, f, floats, order, shows

from twinfer.converter.build import Builder
from twinfer.converter.passes.identities import identities
from twinfer.converter.passes.reshapes import reshapes
from twinfer.converter.passes.transposes import transposes
from twinfer.runtime.graph import Tensor


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
    """The last addition stays: it requantises."""
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
    """Constants are transposed ahead; a transpose that moves no element becomes a RESHAPE."""
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
