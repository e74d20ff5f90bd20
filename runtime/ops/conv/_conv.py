"""The numpy meaning that CONV_2D, DEPTHWISE_CONV_2D and TRANSPOSE_CONV share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._layer import geometry
from twinfer.runtime.ops.core.activation import float_range
from twinfer.runtime.ops.core.channels import finish
from twinfer.runtime.ops.core.hybrid import hybrid_ends, is_hybrid, quantize_dynamic, symmetric_hybrid
from twinfer.runtime.ops.core.unsigned import less_zero, weight_zero
from twinfer.runtime.ops.core.weights import unpacked
from twinfer.runtime.ops.core.window import Window


def slide(node: Node, inputs: list[Any], sums: Callable[[Array, Array, Window], Array]) -> list[Array]:
    """``convolve`` of CONV_2D or DEPTHWISE_CONV_2D; ``sums`` takes images, weights and the window."""
    window, node = geometry(node), unpacked(node)
    w = inputs[1] if node.input(1).data is None else node.constant(1)
    w = less_zero(w, weight_zero(node.input(1)))
    return convolve(node, inputs, lambda images: sums(images, w, window))


def convolve(node: Node, inputs: list[Any], sums: Callable[[Array], Array]) -> list[Array]:
    """The numpy meaning of a convolution: ``sums``, the bias, and how sums become outputs.

    ``sums`` takes images [batches, h, w, c], float32 or integers held in float64 (summed exactly), and returns the sums
    [batches, out_h, out_w, out_c] without a bias.
    """
    x = inputs[0]
    if is_hybrid(node):
        return _convolve_hybrid(node, x, sums)
    bias = inputs[2].reshape(-1) if len(inputs) > 2 and inputs[2] is not None else np.zeros(1, np.int32)
    if x.dtype.kind == "i":
        return finish(node, sums(x.astype(np.float64) - node.input(0).zero).astype(np.int64) + bias)
    low, high = float_range(node)
    return [(sums(x) + bias.astype(np.float32)).clip(np.float32(low), np.float32(high))]


def _convolve_hybrid(node: Node, x: Array, sums: Callable[[Array], Array]) -> list[Array]:
    scales, bias = hybrid_ends(node, node.output.shape[-1])
    low, high = float_range(node)
    symmetric = symmetric_hybrid(node)
    outputs = []
    for image in x:
        q, scale, zero = quantize_dynamic(image, symmetric)
        acc = sums(q[None].astype(np.float64) - zero)[0].astype(np.float32)
        real = acc * (scale * scales) if symmetric else acc * scales * scale
        outputs.append((real + bias).clip(np.float32(low), np.float32(high)))
    return [np.array(outputs, np.float32)]
