"""The output channels of a layer with weights: scales, multipliers, biases, and how sums become outputs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime import constant
from twinfer.runtime.constant import Constant, Role
from twinfer.runtime.errors import ModelError
from twinfer.runtime.fixed_point import quantize_multipliers, requantize, requantize_wide, wrap32
from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.ops.core.activation import output_range, quantized_range
from twinfer.runtime.ops.core.packing import padded
from twinfer.runtime.ops.core.quantized import need_quant
from twinfer.runtime.ops.core.requantize import Channels, fast_channels
from twinfer.runtime.ops.core.unsigned import products

#: The farthest shift to the right of sums that end in one rounding over lanes: TW_FAST_RIGHT of wide.h.
FAST_RIGHT = 20


def narrow_sums(node: Node) -> bool:
    """Whether sums have 32 bits: always with int8, with int16 if the bias has."""
    bias = node.optional(2)
    return node.input(0).type == "INT8" or (bias is not None and bias.type == "INT32")


def weight_scales(node: Node, channels: int) -> NDArray[np.float64]:
    """Scale of every output channel, [channels]; ModelError if the weights have no usable ones."""
    w = node.input(1)
    quant = w.quant
    if quant is None:
        raise ModelError(f"{node}: {w} has no quantisation")
    scales = quant.scales
    if scales.size not in (1, channels):
        raise ModelError(f"{node}: {w} has {scales.size} scales for {channels} output channels")
    if not quant.usable:
        raise ModelError(f"{node}: {w} has a scale that is negative or not a number")
    if not quant.zeros_of_bytes:
        raise ModelError(f"{node}: {w} has zero points outside of its type, or not one per scale")
    return np.broadcast_to(scales, (channels,)) if scales.size == 1 else scales


def multipliers(node: Node, channels: int) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Fixed-point multiplier and shift of every output channel: in_scale * w_scale / out_scale in float64.

    Of uint8 the product of both scales is rounded to float32 first, as LiteRT's GetQuantizedConvolutionMultipler does.
    """
    x, y = node.input(0), node.output
    scales = weight_scales(node, channels)
    need_quant(node, x, y)
    return quantize_multipliers(products(node, x.scale, scales) / y.scale)


def mults_of(*ends: Array) -> int:
    """How many multipliers (and shifts) a layer keeps: 1 if those of all its channels are the same, else all."""
    return 1 if all((values == values[0]).all() for values in ends) else len(ends[0])


def bias_of(node: Node, channels: int) -> Tensor | Constant:
    """The bias input, or zeros where there is none."""
    bias = node.optional(2)
    if bias is not None:
        return bias if bias.data is None else Constant(bias.data, Role.BIAS, tensor=bias)
    zeros = np.zeros(channels, np.float32 if node.input(0).type == "FLOAT32" else np.int32)
    return Constant(zeros, Role.BIAS)


def constant_bias(node: Node, channels: int) -> Array | None:
    """The bias's value, zeros where there is none, None where it is computed at run time."""
    bias = bias_of(node, channels)
    return bias.array.reshape(-1) if isinstance(bias, Constant) else None


def known_bias(node: Node, channels: int) -> Array:
    """``constant_bias``; ModelError where the bias is computed at run time."""
    bias = constant_bias(node, channels)
    return node.constant(2) if bias is None else bias


def finish(node: Node, acc: Array) -> list[Array]:
    """Integer sums [..., channels] as outputs, in numpy: requantised, the zero point added, clamped."""
    y = node.output
    mult, shift = multipliers(node, acc.shape[-1])
    low, high = quantized_range(node, y)
    if narrow_sums(node):
        out = wrap32(requantize(wrap32(acc), mult, shift) + y.zero)
    else:
        out = requantize_wide(acc, mult, shift)
    return [out.clip(low, high).astype(y.dtype).reshape(y.shape)]


def fold_zero(w: Array, bias: Array, offset: int) -> NDArray[np.int32]:
    """bias - offset * (sum of each channel's weights), wrapped to int32; w: [out, k]."""
    return wrap32(bias.astype(np.int64) - offset * w.sum(axis=1, dtype=np.int64)).astype(np.int32)


def epilogue(node: Node) -> dict[str, int]:
    """The params ``tw_epilogue_s8`` of an int8 node: what is added to scaled sums, and their range."""
    return {"zero": node.output.zero, **output_range(node)}


def channels_of(node: Node, w: Array, bias: Array) -> Channels:
    """The channels of int8 weights [out, k] and bias int32 [out], the input zero point folded in."""
    y = node.output
    folded = fold_zero(w, bias, node.input(0).zero)
    return Channels(w, folded, *multipliers(node, len(w)), y.zero, *quantized_range(node, y))


def plain_channels(node: Node, w: Array, bias: Array) -> tuple[Channels, bool]:
    """The channels for the plain kernels, and whether tw_scaled suits them."""
    channels = channels_of(node, w, bias)
    fast = fast_channels(channels)
    return fast or channels, fast is not None


def channel_constants(channels: Channels, mults: int | None = None) -> tuple[Constant, Constant, Constant]:
    """Bias, multiplier and shift of the channels; only ``mults`` of the latter two, if those serve all."""
    ends = constant.requantize(channels.mult[:mults]), constant.requantize(channels.shift[:mults])
    return constant.bias(channels.bias), *ends


def one_rounding(shift: Array) -> int:
    """Whether sums with these shifts can end in one rounding (``fast`` of the kernels over 16 lanes)."""
    return int(bool(((shift <= -1) & (shift >= -FAST_RIGHT)).all()))


def lane_ends(node: Node, channels: int) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Multipliers and shifts; of a multiplier of 0 any shift will do, and -1 is that of one rounding."""
    mult, shift = multipliers(node, channels)
    return mult, np.where(mult == 0, -1, shift).astype(np.int8)


def lane_channels(
    node: Node, bias: Array, times: int = 1, *, one: bool = False
) -> tuple[tuple[Constant, Constant, Constant], int]:
    """Bias and multiplier int32 and shift int8 of every channel, all of them ``times`` times, padded to whole blocks of
    16 lanes; and whether their sums can end in one rounding. With ``one``, a single multiplier and shift where these
    serve all channels."""
    mult, shift = lane_ends(node, bias.shape[-1])
    lanes = [padded(np.tile(values, times) if times > 1 else values, axis=-1) for values in (bias, mult, shift)]
    if one and mults_of(mult, shift) == 1:
        lanes[1:] = mult[:1], shift[:1]
    ends = constant.requantize(lanes[1]), constant.requantize(lanes[2])
    return (constant.bias(lanes[0]), *ends), one_rounding(shift)
