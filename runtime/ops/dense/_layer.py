"""A FULLY_CONNECTED as its kernels see it: rows of input, and one row of weights per output."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from twinfer.runtime.constant import bias, requantize, weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.core.by_sums import with_sums
from twinfer.runtime.ops.core.channels import constant_bias, epilogue, fold_zero, known_bias
from twinfer.runtime.ops.core.hybrid import is_hybrid
from twinfer.runtime.ops.core.packing import LANES, LANES_S8, pack_s8
from twinfer.runtime.ops.core.unsigned import in_integers, is_unsigned, less_zero, weight_zero
from twinfer.runtime.ops.core.weights import unpacked
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.variant import accept, present

#: The option of hybrid operators that says how rows are quantised at run time.
ASYMMETRIC = "asymmetric_quantize_inputs"


#: Sums of uint8, doubled, stay below 32 bits.
MOST = 1 << 30


class Dense(NamedTuple):
    """A FULLY_CONNECTED with constant weights and bias.

    ``weights`` are int8 or float32 [out, depth], ``bias`` is [out]. weights of 4 or 2 bits are unpacked in ``node``.
    """

    node: Node
    weights: Array
    bias: Array

    @property
    def shape(self) -> dict[str, int]:
        """The params that every kernel has."""
        return shape_of(self.node)

    @property
    def window(self) -> Window:
        """That of a convolution over a row of pixels, which are the batches."""
        batches, depth, out = (self.shape[name] for name in ("batches", "depth", "out"))
        return Window(1, 1, batches, depth, 1, batches, out, 1, 1, 1, 1, 1, 1, 0, 0)

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return macs_of(self.node)


def dense_by_sums(layer: Dense, call: Call, kernel: str, units: int = 1) -> Call:
    """The call of a layer and, if it has one batch, ``kernel`` for layers by rows.

    Its params are ``all`` of the call's and the part that it sees; rows must be multiples of ``units`` elements.
    """
    (out, depth) = layer.weights.shape
    if layer.shape["batches"] != 1 or depth % units:
        return call
    return with_sums(call, kernel, {"all": call.params}, depth, -(-out // 4) * 4, units)


def shape_of(node: Node) -> dict[str, int]:
    """The params that every kernel has."""
    out, depth = node.input(1).shape
    return {"batches": node.input(0).size // depth, "depth": depth, "out": out}


def macs_of(node: Node) -> int:
    """Multiply-accumulates."""
    return node.input(0).size * node.input(1).shape[0]


def dense_of(node: Node) -> Dense:
    """A FULLY_CONNECTED, or a BATCH_MATMUL that is one; Declined if float activations meet int8 weights, if weights or
    bias are not constant, or if the weights have a zero point."""
    node = present(as_dense(node), "the second operand is not one constant int8 matrix, or the first is transposed")
    node = unpacked(node)
    accept(not is_hybrid(node), "activations are float and weights int8")
    w = node.input(1)
    weights = present(w.data, "the weights are computed at run time")
    accept(not is_unsigned(node), "LiteRT scales the sums of uint8 in float64")
    accept(w.type != "INT8" or w.quant is None or not w.quant.zero_point.any(), "the weights have a zero point")
    return Dense(node, weights, present(constant_bias(node, w.shape[0]), "the bias is computed at run time"))


class Unsigned(NamedTuple):
    """A FULLY_CONNECTED of what was uint8 whose sums are scaled in integers.

    ``weights`` are int8 [out, depth], ``bias`` int32 [out] has the input's zero point folded in, ``mult`` and ``right``
    are those of ``in_integers``.
    """

    node: Node
    weights: Array
    bias: Array
    mult: int
    right: int

    def params(self, bits: int = 0) -> dict[str, Param]:
        """The params that every kernel has; its sums come times 2**bits."""
        end = {"mult": self.mult, "right": self.right + bits, **epilogue(self.node)}
        return {**shape_of(self.node), "end": end}


def unsigned_of(node: Node) -> Unsigned:
    """A FULLY_CONNECTED of what was uint8; Declined if it is another, if its weights or bias are not constant, if the
    weights have a zero point, or if sums take too many bits."""
    accept(node.op == "FULLY_CONNECTED" and is_unsigned(node), "it was not uint8")
    x, w = node.input(0), node.input(1)
    weights = present(w.data, "the weights are computed at run time")
    accept(weight_zero(w) == 0, "the weights have a zero point")
    bias = fold_zero(weights, present(constant_bias(node, w.shape[0]), "the bias is computed at run time"), x.zero)
    reach = int((np.abs(bias.astype(np.int64)) + 128 * np.abs(weights.astype(np.int64)).sum(1)).max())
    accept(reach < MOST, f"sums up to {reach} do not fit 31 bits")
    scale = present(in_integers(unsigned_scale(node), reach), "no integers scale its sums as float64 does")
    return Unsigned(node, weights, bias, *scale)


def in_float64(node: Node) -> Call:
    """The call for what was uint8 whose sums are scaled in float64, over 16 lanes."""
    x, w, out = node.input(0), node.constant(1), node.input(1).shape[0]
    zero = weight_zero(node.input(1))
    folded = fold_zero(less_zero(w, zero), known_bias(node, out), 128 + x.zero)
    depth4 = -(-w.shape[1] // 4) * 4
    params: dict[str, Param] = {**shape_of(node), "depth4": depth4, "w_zero": zero, "end": epilogue(node)}
    ends = (bias(folded), requantize(np.array([unsigned_scale(node)])))
    scratch = -(-depth4 // 16) * 16 + 4 * -(-out // LANES) * LANES
    inputs, kernel = (x, weights(pack_s8(w), LANES_S8), *ends), "tw_fully_connected_unsigned_f64_s8"
    return Call(kernel, params, inputs, (node.output,), scratch, macs=macs_of(node), weights=Weights())


def unsigned_scale(node: Node) -> float:
    """What LiteRT multiplies the sums of uint8 by."""
    return node.input(0).scale * node.input(1).scale / node.output.scale


def as_dense(node: Node) -> Node | None:
    """A BATCH_MATMUL by one constant int8 matrix as a FULLY_CONNECTED without bias, None if it is another one.

    Scales per column become those of the rows of weights. A FULLY_CONNECTED is returned itself.
    """
    if node.op != "BATCH_MATMUL":
        return node
    a, b = node.input(0), node.input(1)
    turned = bool(node.options.get("adj_x", False))
    if b.data is None or b.type != "INT8" or turned or math.prod(b.shape[:-2]) != 1:
        return None
    matrix = b.data.reshape(b.shape[-2:])
    rows = matrix if node.options.get("adj_y", False) else np.ascontiguousarray(matrix.T)
    quant = None if b.quant is None else replace(b.quant, axis=0)
    weights = replace(b, shape=rows.shape, data=rows, quant=quant, shape_signature=())
    options = {"keep_num_dims": True, ASYMMETRIC: bool(node.options.get(ASYMMETRIC, False))}
    return replace(node, op="FULLY_CONNECTED", inputs=(a, weights), options=options)
