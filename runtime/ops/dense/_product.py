"""A product of two matrices that are both computed: a BATCH_MATMUL or, of int8, a FULLY_CONNECTED by such weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from twinfer.runtime.constant import Constant
from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.ops.core.channels import bias_of, constant_bias, epilogue, multipliers
from twinfer.runtime.ops.core.hybrid import is_hybrid
from twinfer.runtime.ops.core.loops import Outer
from twinfer.runtime.ops.core.requantize import BOUND, SHIFTS
from twinfer.runtime.ops.core.unsigned import is_unsigned, weight_zero
from twinfer.runtime.ops.core.weights import unpacked
from twinfer.runtime.ops.dense import batch_matmul
from twinfer.runtime.ops.dense._layer import as_dense, macs_of, shape_of
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import accept, present

#: The greatest magnitude of a product of two int8 less their zero points.
_PRODUCT = 255 * 255

#: The farthest that neighbours may lie apart on Helium: offsets of eight of them have 16 bits.
_APART = 9362


class Product(NamedTuple):
    """What the kernels need: ``matrices`` is ``tw_matrices`` of kernels_c/dense/batch_matmul.h, ``bias`` is [cols]."""

    node: Node
    matrices: dict[str, Any]
    mult: int
    shift: int
    bias: Tensor | Constant | None
    macs: int

    def call(self, kernel: str, params: Mapping[str, Param], scratch: int, ends: tuple[Constant, ...] = ()) -> Call:
        """The kernel's call; ``params`` are those of its tiles, ``ends`` say how sums end where params do not."""
        a, b = self.node.input(0), self.node.input(1)
        own: dict[str, Param] = {"matrices": self.matrices, "end": epilogue(self.node), **params}
        own |= {"a_zero": a.zero, "b_zero": weight_zero(b)} | ({} if ends else {"mult": self.mult})
        return Call(kernel, own, (a, b, self.bias, *ends), (self.node.output,), scratch, macs=self.macs)


def product_of(node: Node) -> Product:
    """A node of int8; Declined where one factor is better packed before the run, or sums do not fit the kernels."""
    product = _of_dense(node) if node.op == "FULLY_CONNECTED" else _of_matrices(node)
    depth, most = product.matrices["depth"], 0
    if product.bias is not None:
        bias = present(constant_bias(product.node, product.matrices["cols"]), "the bias is computed at run time")
        most = int(np.abs(bias.astype(np.int64)).max())
    accept(most + depth * _PRODUCT < BOUND, "the sums do not fit the short requantisation")
    accept(SHIFTS[0] <= product.shift <= SHIFTS[1], f"the shift is {product.shift}, not in {SHIFTS[0]}..{SHIFTS[1]}")
    return product


def need_near(matrices: dict[str, Any]) -> None:
    """Declined unless Helium's offsets reach the neighbours in a row of the first matrix and a column of the second."""
    near = max(matrices["a_depth"], matrices["b_depth"]) <= _APART
    accept(near, f"neighbours in a column lie more than {_APART} values apart")


def matrices_s16(node: Node) -> dict[str, Any]:
    """``tw_matrices`` of a BATCH_MATMUL of int16; Declined if the second operand is better packed before the run."""
    accept(as_dense(node) is None, "the second operand is one constant matrix")
    return batch_matmul.matrices(node)


def product_s16(node: Node, target: Target, kernel: str, own: dict[str, Param], scratch: int) -> Call:
    """The plain call of int16 by int16 or int8 with another kernel; ``own`` are the params of its tiles."""
    plain = batch_matmul.lower(node, target)
    size = node.input(1).dtype.itemsize
    return replace(plain, kernel=kernel, params={**plain.params, **own, "bytes": size}, scratch=scratch)


def _of_matrices(node: Node) -> Product:
    accept(node.input(1).type == "INT8", "activations are float and weights int8")
    computed = as_dense(node) is None or weight_zero(node.input(1)) != 0
    accept(computed, "the second operand is one constant matrix")
    ((mult, shift),) = batch_matmul.multipliers(node)
    matrices = batch_matmul.matrices(node)
    return Product(node, matrices, mult, shift, None, math.prod(node.output.shape) * matrices["depth"])


def _of_dense(node: Node) -> Product:
    node = unpacked(node)
    accept(not (is_hybrid(node) or is_unsigned(node)), "the sums are scaled in float")
    w = node.input(1)
    accept(w.data is None or weight_zero(w) != 0, "the weights are constant")
    accept(w.quant is not None and not w.quant.per_channel, "the weights have several scales")
    shape = shape_of(node)
    depth, out = shape["depth"], shape["out"]
    matrices = {
        "batches": Outer.of([], [], [])._asdict(), "rows": shape["batches"], "depth": depth, "cols": out,
        "a_row": depth, "a_depth": 1, "b_depth": 1, "b_col": depth,
    }  # fmt: skip
    mult, shift = multipliers(node, out)
    return Product(node, matrices, int(mult[0]), int(shift[0]), bias_of(node, out), macs_of(node))
