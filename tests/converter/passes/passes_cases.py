"""Graphs for every pass. What it makes of them is in golden_passes.txt."""

from __future__ import annotations

import numpy as np
from passes_tools import CONV, bytes_, f, floats, order, shows

from twinfer.converter.build import Builder
from twinfer.converter.passes.batch_norm import batch_norm
from twinfer.converter.passes.common_subexpressions import common_subexpressions
from twinfer.converter.passes.constant_folding import constant_folding
from twinfer.converter.passes.custom_operators import custom_operators
from twinfer.converter.passes.dead_code import dead_code
from twinfer.converter.passes.dilations import dilations
from twinfer.converter.passes.elementwise_constants import elementwise_constants
from twinfer.converter.passes.equalize import equalize
from twinfer.converter.passes.float_weights import float_weights
from twinfer.converter.passes.functions_of_one import functions_of_one
from twinfer.converter.passes.fuse_activations import fuse_activations
from twinfer.converter.passes.fuse_padding import fuse_padding
from twinfer.converter.passes.horizontal_merge import horizontal_merge
from twinfer.converter.passes.identities import identities
from twinfer.converter.passes.merge_relus import merge_relus
from twinfer.converter.passes.moves_of_one import moves_of_one
from twinfer.converter.passes.multiplications import multiplications
from twinfer.converter.passes.normalisations import normalisations
from twinfer.converter.passes.reshapes import reshapes
from twinfer.converter.passes.softplus import softplus
from twinfer.converter.passes.transposes import transposes
from twinfer.runtime.graph import Tensor
from twinfer.runtime.op import tensor


@shows(constant_folding)
def folds_what_is_known(b: Builder) -> list[Tensor]:
    x = b.input("x", "FLOAT32", (1, 4))
    half = b.op("SQRT", [f(0.25, 4)])
    shape = b.op("SHAPE", [x], type="INT32", shape=(2,), out_type="INT32")
    y = b.op("RESHAPE", [x, shape], shape=(1, 4))
    y = b.op("RESHAPE", [y, order(2, 2)], new_shape=(2, 2))
    return [b.op("MUL", [y, half])]


@shows(constant_folding)
def folds_nothing_that_grows(b: Builder) -> list[Tensor]:
    x = b.input("x", "FLOAT32", (1, 1000))
    wide = b.op("DEQUANTIZE", [np.ones(1000, np.float16)], type="FLOAT32")
    y = b.op("ADD", [x, b.op("NEG", [floats(1000)])])
    return [b.op("MUL", [y, wide])]


@shows(functions_of_one)
def names_activations(b: Builder) -> list[Tensor]:
    """GELU by tanh, HARD_SWISH and LEAKY_RELU; x * LOGISTIC(x) has no operator, and y is read by another."""
    x = b.input("x", "FLOAT32", (2, 3))
    cube = b.op("MUL", [b.op("MUL", [x, x]), x])
    inner = b.op("MUL", [b.op("ADD", [x, b.op("MUL", [cube, f(0.044715)])]), f(0.7978845608)])
    gelu = b.op("MUL", [b.op("MUL", [x, f(0.5)]), b.op("ADD", [b.op("TANH", [inner]), f(1)])])
    swish = b.op("DIV", [b.op("MUL", [b.op("RELU6", [b.op("ADD", [gelu, f(3)])]), gelu]), f(6)])
    leaky = b.op("MAXIMUM", [swish, b.op("MUL", [swish, f(0.1)])])
    silu = b.op("MUL", [leaky, b.op("LOGISTIC", [leaky])])
    y = b.op("MUL", [silu, f(0.1)])
    return [b.op("MAXIMUM", [silu, y]), y]


@shows(moves_of_one)
def names_moves(b: Builder) -> list[Tensor]:
    """A mirrored border by GATHER, SPACE_TO_DEPTH by 4 dimensions, larger rows by TILE, in integers as well."""
    x = b.input("x", "INT8", (1, 4, 4, 2), 0.5)
    y = b.op("GATHER", [x, order(1, 0, 1, 2, 3, 2)], shape=(1, 6, 4, 2), axis=1)
    y = b.op("MAX_POOL_2D", [y], filter_height=1, filter_width=1, stride_h=1, stride_w=1, padding="VALID")
    y = b.op("RESHAPE", [y, order(3, 2, 2, 4)], shape=(3, 2, 2, 4))
    y = b.op("TRANSPOSE", [y, order(0, 2, 1, 3)], shape=(3, 2, 2, 4))
    y = b.op("RELU", [b.op("RESHAPE", [y, order(1, 3, 2, 8)], shape=(1, 3, 2, 8))])
    y = b.op("TILE", [b.op("RESHAPE", [y, order(3, 1, 16)], shape=(3, 1, 16)), order(1, 2, 1)], shape=(3, 2, 16))
    return [b.op("RESHAPE", [y, order(1, 6, 2, 8)], shape=(1, 6, 2, 8))]


@shows(moves_of_one)
def reads_the_operand(b: Builder) -> list[Tensor]:
    """The second of two joined rows, through a reshape, is that row; what takes some of each row stays."""
    x = b.input("x", "FLOAT32", (1, 4))
    rows = b.op("CONCATENATION", [b.op("RELU", [x]), b.op("TANH", [x])], axis=0, fused_activation_function="NONE")
    all_rows = b.op("RESHAPE", [rows, order(1, 2, 4)], shape=(1, 2, 4))
    last = b.op("GATHER", [all_rows, np.array(1, np.int32)], shape=(1, 4), axis=1)
    return [b.op("EXP", [last]), b.op("EXP", [b.op("SLICE", [rows, order(0, 1), order(2, 2)], shape=(2, 2))])]


@shows(normalisations)
def names_normalisation(b: Builder) -> list[Tensor]:
    """Of x; the greatest value of the others has a root of its own, and sums over another dimension stay."""
    x = b.input("x", "FLOAT32", (2, 3, 4))
    y = b.op("DIV", [x, b.op("SQRT", [b.op("SUM", [b.op("MUL", [x, x]), order(2)], keep_dims=True)])])
    e = b.op("EXP", [y])
    y = b.op("DIV", [e, b.op("TILE", [b.op("SUM", [e, order(2)], keep_dims=True), order(1, 1, 4)])])
    y = b.op("DIV", [y, b.op("SQRT", [b.op("REDUCE_MAX", [y, order(1, 2)], keep_dims=True)])])
    e = b.op("EXP", [y])
    return [b.op("DIV", [e, b.op("SUM", [e, order(1)], keep_dims=True)])]


@shows(softplus)
def bounds_softplus(b: Builder) -> list[Tensor]:
    """Once: what comes out is as it should be."""
    x = b.input("x", "FLOAT32", (2, 3))
    return [b.op("LOG", [b.op("ADD", [f(1), b.op("EXP", [x])])])]


@shows(dead_code)
def drops_what_nobody_needs(b: Builder) -> list[Tensor]:
    x = b.input("x", "INT8", (1, 4), 0.5)
    y = b.op("RELU", [x])
    b.op("ADD", [b.op("RELU6", [y]), b.constant(bytes_(4), 0.5)])
    return [y]


@shows(common_subexpressions)
def computes_once(b: Builder) -> list[Tensor]:
    x = b.input("x", "INT8", (1, 4), 0.5)
    y, z = (b.op("ADD", [x, b.constant(bytes_(4), 0.5)]) for _ in range(2))
    y, z = b.op("RELU", [y]), b.op("RELU", [z])
    return [b.op("MUL", [y, z], scale=2.0)]


@shows(elementwise_constants)
def joins_arithmetic(b: Builder) -> list[Tensor]:
    x = b.input("x", "FLOAT32", (1, 4, 2))
    y = b.op("SUB", [b.op("ADD", [x, f(1, 2)]), f(3)])
    y = b.op("DIV", [b.op("MUL", [y, f(2)]), f(4, 8)])
    y = b.op("MAXIMUM", [y, f(-3)])
    y = b.op("SUB", [f(5), y])
    y = b.op("MUL", [y, f(-1)], fused_activation_function="RELU")
    return [b.op("ADD", [b.op("MUL", [b.op("MUL", [y, f(2)]), f(0.5)]), f(0)])]


@shows(elementwise_constants)
def constants_do_not_grow(b: Builder) -> list[Tensor]:
    x = b.input("x", "FLOAT32", (1, 4, 2))
    return [b.op("MUL", [b.op("MUL", [x, f(2, 3)]), floats(4, 1)])]


@shows(batch_norm)
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


@shows(batch_norm)
def takes_in_what_comes_before(b: Builder) -> list[Tensor]:
    """All but the addition before the padded convolution."""
    x = b.input("x", "FLOAT32", (1, 4, 4, 4))
    y = b.op("ADD", [b.op("MUL", [x, f(2, 3, 4, 5)]), f(1)])
    y = b.op("CONV_2D", [y, floats(6, 2, 2, 2), floats(6)], padding="VALID", **CONV)
    y = b.op("ADD", [b.op("MUL", [b.op("RELU", [y]), f(3)]), f(2)])
    y = b.op("DEPTHWISE_CONV_2D", [y, floats(1, 3, 3, 6)], **CONV, depth_multiplier=1)
    y = b.op("SUB", [b.op("RELU", [y]), floats(6)])
    return [b.op("FULLY_CONNECTED", [y, floats(2, 54)])]


@shows(float_weights)
def widens_float16(b: Builder) -> list[Tensor]:
    x = b.input("x", "FLOAT32", (1, 2))
    w = b.op("DEQUANTIZE", [floats(3, 2).astype(np.float16)], type="FLOAT32")
    bias = b.op("DEQUANTIZE", [np.array([-1, 0, 0.5], np.float16)], type="FLOAT32")
    return [b.op("FULLY_CONNECTED", [x, w, bias])]


@shows(multiplications)
def multiplies(b: Builder) -> list[Tensor]:
    x = b.op("NEG", [b.input("x", "FLOAT32", (1, 4))])
    y = b.op("POW", [b.op("SQUARE", [x]), f(2)])
    return [b.op("POW", [y, f(0.5)])]


@shows(equalize)
def makes_ranges_equal(b: Builder) -> list[Tensor]:
    x = b.input("x", "FLOAT32", (1, 1))
    first = np.array([[8], [0.5]], np.float32)
    y = b.op("FULLY_CONNECTED", [x, first, f(4, 1)], fused_activation_function="RELU")
    return [b.op("FULLY_CONNECTED", [y, np.array([[0.5, 2]], np.float32)])]


@shows(identities)
def drops_what_does_nothing(b: Builder) -> list[Tensor]:
    x = b.input("x", "FLOAT32", (1, 4, 2))
    y = b.op("RESHAPE", [x, order(1, 4, 2)], new_shape=(1, 4, 2))
    y = b.op("TRANSPOSE", [y, order(0, 1, 2)])
    y = b.op("PAD", [y, np.zeros((3, 2), np.int32)])
    y = b.op("RELU", [b.op("SLICE", [y, order(0, 0, 0), order(1, 4, 2)])])
    y = b.op("CAST", [b.op("CONCATENATION", [y], axis=1)])
    return [b.op("MUL", [b.op("SUB", [y, f(0)]), f(1, 1)])]


@shows(identities)
def proves_int8_by_all_values(b: Builder) -> list[Tensor]:
    """The last addition stays: it requantises."""
    x = b.input("x", "INT8", (1, 4), 0.5, 3)
    y = b.op("QUANTIZE", [b.op("DEQUANTIZE", [x], type="FLOAT32")], type="INT8", scale=0.5, zero=3)
    y = b.op("ADD", [b.op("QUANTIZE", [y]), b.constant(np.array(-7, np.int8), 0.25, -7)])
    y = b.op("MUL", [b.constant(np.array(1, np.int8), 1.0), y])
    return [b.op("ADD", [y, b.constant(np.array(0, np.int8), 0.5)], scale=0.6, zero=3)]


@shows(reshapes)
def joins_reshapes(b: Builder) -> list[Tensor]:
    x = b.input("x", "FLOAT32", (1, 4, 1, 2))
    y = b.op("SQUEEZE", [x], squeeze_dims=(2,))
    y = b.op("RELU", [b.op("EXPAND_DIMS", [y, order(0)])])
    y = b.op("MUL", [y, f(2, 3)])
    z = b.op("RESHAPE", [b.op("RESHAPE", [y, order(8)], new_shape=(8,)), order(1, 4, 1, 2)], new_shape=(1, 4, 1, 2))
    flat = b.op("RESHAPE", [z, order(1, 8)], new_shape=(1, 8))
    return [b.op("FULLY_CONNECTED", [flat, floats(3, 8)])]


@shows(transposes)
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


@shows(transposes)
def dense_layers_take_the_order_in(b: Builder) -> list[Tensor]:
    x = b.input("x", "INT8", (2, 3), 0.05, 3)
    w = b.constant(bytes_(24, 3), [0.01 + 0.001 * i for i in range(24)])
    y = b.op("FULLY_CONNECTED", [x, w, np.arange(24, dtype=np.int32)], scale=0.1)
    y = b.op("TRANSPOSE", [b.op("RESHAPE", [y, order(2, 2, 4, 3)], new_shape=(2, 2, 4, 3)), order(0, 2, 3, 1)])
    y = b.op("MAX_POOL_2D", [y], filter_height=2, filter_width=2, stride_h=2, stride_w=1)
    y = b.op("RESHAPE", [b.op("TRANSPOSE", [y, order(0, 3, 1, 2)]), order(2, 12)], new_shape=(2, 12))
    return [b.op("FULLY_CONNECTED", [y, b.constant(bytes_(3, 12), 0.01)], scale=0.2)]


@shows(transposes)
def other_ranks(b: Builder) -> list[Tensor]:
    """Constants are transposed ahead; a transpose that moves no element becomes a RESHAPE."""
    x = b.input("x", "FLOAT32", (1, 5, 3))
    y = b.op("TRANSPOSE", [x, order(0, 2, 1)])
    y = b.op("ADD", [y, b.op("TRANSPOSE", [floats(5, 3), order(1, 0)])])
    y = b.op("RESHAPE", [y, order(1, 3, 1, 5)], new_shape=(1, 3, 1, 5))
    y = b.op("AVERAGE_POOL_2D", [b.op("TRANSPOSE", [y, order(0, 2, 3, 1)])], filter_width=5, filter_height=1, **CONV)
    y = b.op("TRANSPOSE", [b.op("MEAN", [y, order(2)], keep_dims=True), order(0, 3, 1, 2)])
    return [b.op("TANH", [y])]


@shows(transposes)
def axes_follow(b: Builder) -> list[Tensor]:
    x = b.input("x", "INT8", (1, 4, 3, 6), 0.5)
    y = b.op("TRANSPOSE", [b.op("MAX_POOL_2D", [x], filter_width=1, filter_height=1, **CONV), order(0, 3, 1, 2)])
    y = b.op("SLICE", [y, order(0, 1, 2, 0), order(1, 4, 2, 3)])
    y = b.op("STRIDED_SLICE", [y, order(0, 0, 0, 1), order(1, 4, 2, 9), order(1, 2, 1, 1)], end_mask=8, begin_mask=1)
    y = b.op("PAD", [y, order(0, 0, 1, 2, 3, 0, 0, 4).reshape(4, 2)])
    y = b.op("GATHER", [y, order(2, 0, 1)], shape=(1, 3, 5, 6), axis=1)
    y = b.op("SOFTMAX", [b.op("TRANSPOSE", [y, order(0, 2, 3, 1)])], scale=1 / 256, zero=-128, beta=1.0)
    return [y]


@shows(transposes)
def splits_follow(b: Builder) -> list[Tensor]:
    y = b.op("TRANSPOSE", [b.input("x", "FLOAT32", (1, 4, 6, 8)), order(0, 3, 1, 2)])
    some = [Tensor(f"part_{n}", "FLOAT32", (1, n, 4, 6)) for n in (3, 5)]
    parts = b.node("SPLIT_V", [y, order(3, 5), np.array(1, np.int32)], some, {"num_splits": 2})
    halves = [Tensor(f"half_{i}", "FLOAT32", (1, 3, 2, 6)) for i in range(2)]
    ends = [*b.node("SPLIT", [np.array(2, np.int32), parts[0]], halves, {"num_splits": 2}), parts[1]]
    return [b.op("TRANSPOSE", [end, order(0, 2, 3, 1)]) for end in ends]


@shows(merge_relus)
def joins_clips(b: Builder) -> list[Tensor]:
    x = b.input("x", "FLOAT32", (1, 4))
    y = b.op("RELU", [b.op("RELU6", [b.op("RELU", [x])])])
    z = b.op("MINIMUM", [f(1), b.op("MAXIMUM", [x, f(-1)])])
    z = b.op("RELU", [b.op("LOGISTIC", [b.op("MINIMUM", [b.op("RELU", [z]), f(0.5)])])])
    return [y, z]


@shows(merge_relus)
def int8_clips_by_its_range(b: Builder) -> list[Tensor]:
    x = b.input("x", "INT8", (1, 4), 0.02, -128)
    y = b.op("RELU6", [b.op("RELU", [x])])
    y = b.op("RELU", [y], scale=0.03, zero=-128)
    return [b.op("MAXIMUM", [y, b.constant(np.array(-128, np.int8), 0.03, -128)])]


@shows(merge_relus)
def integers_without_a_scale(b: Builder) -> list[Tensor]:
    x = b.input("x", "INT8", (1, 4))
    y = b.op("MINIMUM", [b.op("MAXIMUM", [x, np.array(0, np.int8)]), np.array(9, np.int8)])
    return [b.op("MINIMUM", [y, np.array(9, np.int8)])]


@shows(fuse_activations)
def fuses_clips(b: Builder) -> list[Tensor]:
    x = b.input("x", "FLOAT32", (1, 4, 4, 2))
    y = b.op("RELU6", [b.op("CONV_2D", [x, floats(2, 1, 1, 2)], **CONV)])
    y = b.op("MINIMUM", [b.op("MAXIMUM", [b.op("ADD", [x, y]), f(0)]), f(6)])
    y = b.op("RELU", [b.op("MAX_POOL_2D", [y], filter_height=2, filter_width=2, **CONV)])
    y = b.op("RELU_0_TO_1", [b.op("MUL", [y, f(2)])])
    return [b.op("RELU", [b.op("CONCATENATION", [y, x], axis=0)])]


@shows(fuse_activations)
def fuses_int8_of_one_scale(b: Builder) -> list[Tensor]:
    x = b.input("x", "INT8", (1, 4), 0.05, 3)
    y = b.op("RELU", [b.op("FULLY_CONNECTED", [x, b.constant(bytes_(4, 4), 0.01)], scale=0.04, zero=-9)])
    y = b.op("MINIMUM", [b.op("ADD", [y, x]), b.constant(np.array(9, np.int8), 0.04, -9)])
    return [b.op("RELU", [b.op("MUL", [y, x])], scale=0.03)]


@shows(fuse_padding)
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


@shows(horizontal_merge)
def merges_layers(b: Builder) -> list[Tensor]:
    x = b.input("x", "INT8", (1, 8), 0.05, 3)
    w = [b.constant(bytes_(n, 8), [0.01 * (n + i) for i in range(n)]) for n in (2, 3)]
    y = [b.op("FULLY_CONNECTED", [x, t, np.arange(t.shape[0], dtype=np.int32)], scale=0.1) for t in w]
    z = b.op("FULLY_CONNECTED", [x, b.constant(bytes_(2, 8), [0.01, 0.02])], scale=0.3)
    return [*y, z]


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


@shows(dilations)
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


@shows(dilations)
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


@shows(custom_operators)
def becomes_builtin(b: Builder) -> list[Tensor]:
    """A transposed convolution; a maximum with numbers, and values put back by these."""
    x = b.input("x", "FLOAT32", (1, 4, 6, 2))
    y = tensor((1, 8, 12, 3), name="y")
    b.node("CUSTOM:Convolution2DTransposeBias", [x, floats(3, 2, 2, 2), floats(3)], [y], extra=options(1, 2, 2))
    most, numbers = tensor((1, 2, 3, 2), name="most"), tensor((1, 2, 3, 2), name="numbers")
    b.node("CUSTOM:MaxPoolingWithArgmax2D", [x], [most, numbers], extra=options(2, 2, 2, 2, 2, 0))
    back = tensor((1, 4, 6, 2), name="back")
    b.node("CUSTOM:MaxUnpooling2D", [most, numbers], [back], extra=options(2, 2, 2, 2, 2, 0))
    return [y, numbers, back]


def options(*numbers: int) -> dict[str, bytes]:
    """Custom options that are a struct: padding, width and height of strides and windows, activation."""
    return {"custom_options": np.array(numbers, np.int32).tobytes()}
