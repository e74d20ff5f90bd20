"""What CONV_2D, DEPTHWISE_CONV_2D, TRANSPOSE_CONV and FULLY_CONNECTED check of their tensors."""

from __future__ import annotations

from dataclasses import replace

from twinfer.runtime.graph import PACKED_BITS, Node
from twinfer.runtime.op import need, need_type, unsupported
from twinfer.runtime.ops.core.activation import quantized_range
from twinfer.runtime.ops.core.channels import weight_scales
from twinfer.runtime.ops.core.hybrid import is_hybrid
from twinfer.runtime.ops.core.quantized import need_symmetric
from twinfer.runtime.ops.core.unsigned import is_unsigned
from twinfer.runtime.read.packed import unpack

#: Type of the activations -> types of the bias. 16x8 usually has INT64.
BIAS_TYPES = {"INT8": ("INT32",), "INT16": ("INT64", "INT32"), "FLOAT32": ("FLOAT32",)}

#: TFLM widens such a bias when it prepares.
_MORE_BIAS_TYPES = {("TRANSPOSE_CONV", "INT16"): ("INT16",)}

#: Most output channels. Every channel gets a multiplier, so a hostile file with a huge number would cost much.
MOST_CHANNELS = 1 << 20


def check_types(node: Node, channels: int) -> None:
    """Types, bias shape and quantisation of input 0, weights (input 1), bias (input 2, optional) and output 0."""
    x, w, bias, y = node.input(0), node.input(1), node.optional(2), node.output
    if channels > MOST_CHANNELS:
        raise unsupported(node, f"{w} makes {channels} output channels, {MOST_CHANNELS} are the limit; split it")
    need_type(node, x, "INT8", "INT16", "FLOAT32")
    if not is_hybrid(node):
        need_type(node, w, "INT8" if x.type == "INT16" else x.type)
    need_type(node, y, x.type)
    if bias is not None:
        need_type(node, bias, *BIAS_TYPES[x.type], *_MORE_BIAS_TYPES.get((node.op, x.type), ()))
        need(bias.size == channels, node, f"{bias} must have {channels} elements, one per output channel")
    if is_hybrid(node):
        weight_scales(node, channels)
        check_symmetric(node)
        need(all(t is None or t.data is not None for t in node.inputs[1:]), node, "weights and bias must be constants")
    if x.type in ("INT8", "INT16"):
        weight_scales(node, channels)
        need_symmetric(node, x, y)
        quantized_range(node, y)
    if x.type == "INT16":
        _check_symmetric_16(node)


def check_symmetric(node: Node) -> None:
    """ModelError if quantised weights have a zero point other than 0; those of uint8 may have one, for all channels."""
    w = node.input(1)
    if is_unsigned(node) and w.quant is not None:
        need(not w.quant.per_channel, node, f"{w} was uint8 and must have one scale")
    elif w.type == "INT8" and w.quant is not None:
        need(not w.quant.zero_point.any(), node, f"{w} must have zero points of 0")


def _check_symmetric_16(node: Node) -> None:
    """What 16x8 also needs. No runtime takes a bias of 32 bits in DEPTHWISE_CONV_2D."""
    check_symmetric(node)
    bias = node.optional(2)
    if bias is not None and node.op == "DEPTHWISE_CONV_2D":
        need_type(node, bias, "INT64")


def unpacked(node: Node) -> Node:
    """The node with constant INT4 or INT2 weights as INT8."""
    w = node.input(1)
    if w.type not in ("INT4", "INT2") or w.data is None:
        return node
    values = replace(w, type="INT8", data=unpack(w.data, PACKED_BITS[w.type], w.shape))
    return replace(node, inputs=(node.inputs[0], values, *node.inputs[2:]))
