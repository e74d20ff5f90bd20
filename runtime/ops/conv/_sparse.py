"""Weights of which many blocks of four, along a channel's inputs, are zero: kernels that skip these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.graph import PACKED_BITS, Array, Node
from twinfer.runtime.ops.conv._layer import convolution_of
from twinfer.runtime.ops.core.packing import padded
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.ops.dense._layer import dense_of
from twinfer.runtime.params import Param
from twinfer.runtime.program import Argument, Call
from twinfer.runtime.variant import accept

#: Weights of a block.
BLOCK = 4

#: The most of the blocks that may be stored, if a weight has eight bits: a block takes 6 bytes in place of 4, and one
#: to two times the instructions.
MOST = 0.5

#: The fewest blocks of a channel: below, most of the work is at the ends of sums.
FEWEST = 4

#: How emitted C names the layout.
LAYOUT = "blocks of four that are not all zero, and their places"


class Sparse(NamedTuple):
    """A CONV_2D, or a FULLY_CONNECTED whose batches are pixels; ``weights`` are int8 [out, k]. Its kernel skips blocks
    of ``outputs`` x 4 of them that are zero."""

    node: Node
    window: Window
    weights: Array
    bias: Array
    outputs: int

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which blocks are not zero, [out / outputs, k / 4]."""
        kept = padded(np.asarray(blocks_of(self.weights).any(2)), self.outputs)
        return np.asarray(kept.reshape(-1, self.outputs, kept.shape[1]).any(1))

    def call(
        self,
        kernel: str,
        params: Mapping[str, Param],
        inputs: tuple[Argument, ...],
        scratch: int,
        pixels: int,
    ) -> Call:
        """The call of a kernel that takes ``pixels`` at once."""
        size, kept = self.weights.size, BLOCK * self.outputs * int(self.kept.sum())
        rows = self.window.by_rows(pixels) if self.node.op == "CONV_2D" else None
        macs, skipped = (count * self.window.pixels for count in (size, max(size - kept, 0)))
        made, arguments = (self.node.output,), (self.node.input(0), *inputs)
        return Call(kernel, params, arguments, made, scratch, macs=macs, skipped=skipped, rows=rows)


def sparse_of(node: Node, outputs: int = 1) -> Sparse:
    """The layer for a kernel that skips blocks of ``outputs`` x 4 weights; Declined if so few of these are zero that it
    does not pay."""
    bits = PACKED_BITS.get(node.input(1).type, 8)
    if node.op == "CONV_2D":
        conv = convolution_of(node)
        layer = Sparse(conv.node, conv.window, conv.rows, conv.bias, outputs)
    else:
        dense = dense_of(node)
        layer = Sparse(dense.node, dense.window, dense.weights, dense.bias, outputs)
    kept, most = layer.kept, MOST * bits / 8
    accept(bool(kept.any()), "all its weights are zero: there is no block to store")
    accept(kept.shape[1] >= FEWEST, f"its channels have fewer than {BLOCK * FEWEST} inputs")
    share = f"{1 - float(kept.mean()):.0%} of its blocks of {outputs} x {BLOCK} weights are zero"
    accept(float(kept.mean()) <= most, f"{share}, fewer than {1 - most:.0%}")
    return layer


def blocks_of(w: Array) -> NDArray[np.int8]:
    """Weights int8 [out, k] as blocks [out, k / 4, 4]."""
    return padded(w, BLOCK, 1).reshape(len(w), -1, BLOCK)
