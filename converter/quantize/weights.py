"""Weights and biases as integers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.facts import Parameters
from twinfer.converter.quantize.affine import LEAST_SCALE
from twinfer.converter.quantize.observed import Observed
from twinfer.runtime.affine import dequantize, quantize
from twinfer.runtime.graph import Node, Quant, Tensor
from twinfer.runtime.read.packed import pack
from twinfer.runtime.registry import operator

#: Bits of weights -> greatest magnitude; symmetric, so that -128 and -8 are not used.
MOST = {8: 127, 4: 7}

#: How near to integers weights are that are multiples of a step.
NEAR = 1e-4

#: A bias must fit int32 and leave room for the sums that it is added to.
MOST_BIAS = 1 << 30


@dataclass(frozen=True)
class Layer:
    """A node with constant weights and how they are to be quantised."""

    node: Node
    parameters: Parameters
    bits: int = 8
    per_channel: bool = True

    @property
    def weights(self) -> Tensor:
        return self.node.input(self.parameters.weights)

    @property
    def bias(self) -> Tensor | None:
        return None if self.parameters.bias is None else self.node.optional(self.parameters.bias)

    @property
    def channels(self) -> int:
        return self.parameters.channels(self.node)

    def values(self) -> NDArray[np.float64]:
        return np.asarray(self.weights.data, np.float64)

    def biases(self) -> NDArray[np.float64]:
        """The bias, zero where there is none, [channels]."""
        bias = self.bias
        return np.zeros(self.channels) if bias is None else np.asarray(bias.data, np.float64).reshape(-1)


def weight_quant(layer: Layer, in_scale: float, values: NDArray[np.float64] | None = None) -> Quant:
    """Symmetric scales from the greatest magnitudes, wide enough for the bias in steps of in_scale * scale. Weights
    that are multiples of a step already, as after quantisation-aware training, keep their values. ``values``: other
    weights than the layer's."""
    values = layer.values() if values is None else values
    rows = np.moveaxis(values, layer.parameters.axis, 0).reshape(layer.channels, -1)
    rows = rows if layer.per_channel else rows.reshape(1, -1)
    least = np.abs(layer.biases()) / MOST_BIAS / in_scale
    scales = np.maximum(_steps(rows, MOST[layer.bits]), least if layer.per_channel else least.max(keepdims=True))
    dead = scales < LEAST_SCALE  # all weights are 0: any scale will do
    scales = np.where(dead, 1.0 if dead.all() else scales.max(), scales).astype(np.float32)
    return Quant(scales, np.zeros(scales.size, np.int64), layer.parameters.axis if layer.per_channel else 0)


def _steps(rows: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """The step of each row [n, m]: the greatest magnitude is the integer ``most``, or a lesser one if all values of the
    row are integers then."""
    size = np.abs(rows)
    peaks: NDArray[np.float64] = size.max(axis=1, initial=0.0)
    steps, open_ = peaks / most, peaks > LEAST_SCALE
    second = np.partition(size, -2, axis=1)[:, -2] if size.shape[1] > 1 else peaks  # tells of most rows
    counts = np.arange(most, 0, -1)
    shares = np.divide(second, peaks, out=np.zeros_like(peaks), where=open_) * counts[:, None]
    likely = open_ & (np.abs(shares - np.rint(shares)) < 2 * NEAR)
    for count, rows_at in zip(counts, likely, strict=True):
        at = np.flatnonzero(rows_at & open_)
        whole = size[at] / (peaks[at] / count)[:, None]
        near = at[np.abs(whole - np.rint(whole)).max(axis=1, initial=0.0) < NEAR]
        steps[near], open_[near] = peaks[near] / count, False
    return steps


def integers(layer: Layer, quant: Quant) -> NDArray[np.int64]:
    return quantize(layer.values(), quant, -MOST[layer.bits], MOST[layer.bits])


def weight_tensor(layer: Layer, quant: Quant, q: NDArray[np.int64]) -> Tensor:
    small = q.astype(np.int8)
    data: NDArray[Any] = pack(small, 4) if layer.bits == 4 else small
    data.flags.writeable = False
    return replace(layer.weights, type="INT4" if layer.bits == 4 else "INT8", data=data, quant=quant)


def bias_tensor(layer: Layer, values: NDArray[np.float64], in_scale: float, weights: Quant, wide: bool) -> Tensor:
    """The bias in steps of in_scale * weight scale: INT32, or INT64 where activations are INT16 (``wide``)."""
    scale = (np.float64(in_scale) * weights.scale.astype(np.float64)).astype(np.float32)
    quant = Quant(scale, np.zeros(scale.size, np.int64), 0)
    limit = 1 << (62 if wide else 31)
    steps = quantize(values, quant, -limit, limit - 1).astype(np.int64 if wide else np.int32)
    steps.flags.writeable = False
    source = layer.bias
    kind, shape = "INT64" if wide else "INT32", values.shape
    if source is None:
        return Tensor(f"{layer.node.output.name}_bias", kind, shape, quant, steps)
    return replace(source, type=kind, shape=shape, quant=quant, data=steps)


def with_weights(layer: Layer, values: NDArray[np.float32]) -> Node:
    """The node with other weights and no activation: operators may take constants from node or inputs."""
    inputs = list(layer.node.inputs)
    inputs[layer.parameters.weights] = replace(layer.weights, data=values)
    options = {**layer.node.options, "fused_activation_function": "NONE"}
    return replace(layer.node, inputs=tuple(inputs), options=options)


def correction(layer: Layer, quant: Quant, q: NDArray[np.int64], position: int, seen: Observed) -> NDArray[np.float64]:
    """Minus the average that the rounding of the weights adds to every output channel, [channels]. ``seen`` is what
    calibration saw of the input at ``position``.

    The layer is linear: E[layer(x, dW)] = layer(E[x], dW), averaged over the positions. Source: Nagel et al. 2019,
    "Data-Free Quantization Through Weight Equalization and Bias Correction", section 4.2, with means from calibration.
    """
    error = (dequantize(q, quant) - layer.values()).astype(np.float32)
    parameters, node = layer.parameters, layer.node
    inputs: list[Any] = [None if t is None else t.data for t in node.inputs]
    inputs[parameters.weights] = error
    inputs[position] = seen.mean.reshape(node.input(position).shape)  # in float64, which numpy sums at once
    if layer.bias is not None and parameters.bias is not None:
        inputs[parameters.bias] = np.zeros(layer.channels, np.float32)
    plain = with_weights(layer, error)
    (mean,) = operator(node).reference(plain, inputs)
    return np.asarray(-np.asarray(mean, np.float64).reshape(-1, layer.channels).mean(axis=0), np.float64)
