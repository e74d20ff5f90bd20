"""CONV_2D, whole and in groups, and TRANSPOSE_CONV on the DSP extension, int8 and int16: kernels_c/conv/*_dsp*.h."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinfer.runtime.constant import Constant, per_channel, weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._layer import ONE_CHANNEL, convolution_of
from twinfer.runtime.ops.conv._parts import groups_of, groups_s16, phases_of, phases_s16
from twinfer.runtime.ops.core.packing import ENDS, PAIRS
from twinfer.runtime.ops.core.requantize import Channels
from twinfer.runtime.ops.isa.dsp import PIXELS, pairs, pairs_s16
from twinfer.runtime.ops.isa.short import channels_s8, channels_s16, ends_of
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept


def lower_s8(node: Node, target: Target) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel."""
    layer = convolution_of(node)
    channels = channels_s8(layer.node, layer.rows, layer.bias)
    words, chunk = pairs(channels.weights, 2)
    k4 = 2 * words.shape[1]
    accept(chunk >= words.shape[1], "the sums over a window do not fit half a word")
    params = {"window": layer.window.params, "k4": k4, "in_zero": node.input(0).zero, "end": channels.end}
    inputs = (node.input(0), weights(words, PAIRS), per_channel(ends_of(channels), ENDS))
    scratch, stored = (2 * PIXELS + 1) * k4, Weights(halves=True)
    return layer.call("tw_conv2d_dsp_s8", params, inputs, scratch, PIXELS, stored)


def lower_s16(node: Node, target: Target) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel."""
    layer = convolution_of(node)
    c = channels_s16(layer.node, layer.rows)
    packed, ends = pairs_s16(c)
    words = packed.shape[1]
    params = {"window": layer.window.params, "words": words, "chunk": 2 * c.chunk(4), "limits": c.limits}
    inputs = (node.input(0), weights(packed, PAIRS), per_channel(ends, ENDS))
    scratch = 4 * (PIXELS + 1) * words
    return layer.call("tw_conv2d_dsp_s16", params, inputs, scratch, PIXELS, Weights())


def _packed(parts: Sequence[Channels]) -> tuple[Constant, Constant]:
    """Weights and ends of all parts, one after the other."""
    packed = [pairs(channels.weights, 2) for channels in parts]
    accept(all(chunk >= words.shape[1] for words, chunk in packed), "the sums over a window do not fit half a word")
    words = np.concatenate([words.reshape(-1) for words, _ in packed])
    return weights(words, PAIRS), per_channel(np.concatenate([ends_of(channels) for channels in parts]), ENDS)


def _padded(depth: int) -> int:
    return -(-depth // 4) * 4


def lower_groups(node: Node, target: Target) -> Call:
    """The call of a CONV_2D with groups."""
    layer, groups = groups_of(node)
    out, depth = groups[0].weights.shape
    k4 = _padded(depth)
    sizes = {"k4": k4, "in_zero": node.input(0).zero, "bytes": layer.weights.shape[3], "out": out}
    params: dict[str, Param] = {"window": layer.window.params, "end": groups[0].end, **sizes}
    inputs = (node.input(0), *_packed(groups))
    scratch = (2 * PIXELS + 1) * k4
    return layer.call("tw_conv2d_groups_dsp_s8", params, inputs, scratch, PIXELS)


def lower_transposed(node: Node, target: Target) -> Call:
    """The call of a TRANSPOSE_CONV."""
    layer, x = phases_of(node), node.input(2)
    k4 = _padded(layer.depth)
    sizes = {"k4": k4, "in_zero": x.zero}
    params: dict[str, Param] = {"window": layer.window.params, "end": layer.channels[0].end, **sizes}
    inputs, scratch = (x, *_packed(layer.channels)), (2 * PIXELS + 1) * k4
    return Call("tw_transpose_conv_dsp_s8", params, inputs, (node.output,), scratch, macs=layer.macs)


def lower_groups_s16(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer, groups = groups_s16(node)
    accept(len(groups) > 1, "it has no groups")
    packed = [pairs_s16(channels) for channels in groups]
    whole, ends = (np.concatenate(parts) for parts in zip(*packed, strict=True))
    sizes = {"words": whole.shape[1], "bytes": 2 * layer.weights.shape[3], "out": len(groups[0].weights)}
    params: dict[str, Param] = {"window": layer.window.params, "limits": groups[0].limits, **sizes}
    inputs = (node.input(0), weights(whole, PAIRS), per_channel(ends, ENDS))
    kernel, scratch = "tw_conv2d_groups_dsp_s16", 4 * (PIXELS + 1) * whole.shape[1]
    return layer.call(kernel, params, inputs, scratch, PIXELS)


def lower_transposed_s16(node: Node, target: Target) -> Call:
    """The call of a TRANSPOSE_CONV."""
    layer = phases_s16(node)
    packed, ends = zip(*map(pairs_s16, layer.channels), strict=True)
    accept(all(np.array_equal(each, ends[0]) for each in ends), "a channel is constant in some phases alone")
    words, limits = 2 * -(-layer.depth // 4), layer.channels[0].limits
    params: dict[str, Param] = {"window": layer.window.params, "limits": limits, "words": words}
    whole = np.concatenate([part.reshape(-1) for part in packed])
    inputs, scratch = (node.input(2), weights(whole, PAIRS), per_channel(ends[0], ENDS)), 4 * (PIXELS + 1) * words
    return Call("tw_transpose_conv_dsp_s16", params, inputs, (node.output,), scratch, macs=layer.macs)


VARIANTS = (
    Variant("dsp", ("CONV_2D",), frozenset({"dsp"}), lower_s8, ("INT8",), ONE_CHANNEL),
    Variant("dsp", ("CONV_2D",), frozenset({"dsp"}), lower_groups, ("INT8",)),
    Variant("dsp", ("TRANSPOSE_CONV",), frozenset({"dsp"}), lower_transposed),
    Variant("dsp", ("CONV_2D",), frozenset({"dsp"}), lower_groups_s16, ("INT16",)),
    Variant("dsp", ("CONV_2D",), frozenset({"dsp"}), lower_s16, ("INT16",), ONE_CHANNEL),
    Variant("dsp", ("TRANSPOSE_CONV",), frozenset({"dsp"}), lower_transposed_s16),
)
