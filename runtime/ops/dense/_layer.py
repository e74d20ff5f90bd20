"""A FULLY_CONNECTED as its kernels see it: rows of input, and one row of weights per output."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.core.by_sums import with_sums
from twinfer.runtime.ops.core.channels import constant_bias
from twinfer.runtime.ops.core.hybrid import is_hybrid
from twinfer.runtime.ops.core.unsigned import is_unsigned
from twinfer.runtime.ops.core.weights import unpacked
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.program import Call
from twinfer.runtime.variant import accept, present

#: The option of hybrid operators that says how rows are quantised at run time.
ASYMMETRIC = "asymmetric_quantize_inputs"


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
