"""Operators of com.microsoft: what ONNX Runtime's optimiser makes of several operators, and those of its quantiser that
keep float activations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.converter.emit import functions, products
from twinfer.converter.emit.emitter import Emitter, Operand
from twinfer.converter.emit.functions import number, scale_and_shift
from twinfer.converter.onnx.hybrid import remembering
from twinfer.converter.onnx.node import Importer, OnnxNode
from twinfer.converter.onnx.ops import activations, conv, dense, quantised
from twinfer.runtime.graph import Tensor

#: What is fused behind an operator, with the names of its numbers in order.
ACTIVATIONS = {"LeakyRelu": ("alpha",), "Clip": ("min", "max"), "HardSigmoid": ("alpha", "beta")}


def _plus(g: Emitter, x: Tensor, *others: Tensor | None) -> Tensor:
    for other in others:
        x = x if other is None else g.binary("ADD", x, other)
    return x


def _activated(g: Emitter, node: OnnxNode, y: Tensor, numbers: Sequence[float]) -> Tensor:
    name = str(node.attribute("activation", ""))
    if not name:
        return y
    node.need(name in activations.IMPORTERS, f"the fused activation {name}; optimise the model without fusions")
    values = dict(zip(ACTIVATIONS.get(name, ()), numbers, strict=False))
    return activations.IMPORTERS[name](g, replace(node, op=name, opset=7, inputs=(y,), attributes=values))


def fused_conv(g: Emitter, node: OnnxNode) -> Tensor:
    y = conv.conv(g, replace(node, op="Conv", inputs=node.inputs[:3]))
    return _activated(g, node, _plus(g, y, node.optional(3)), node.attribute("activation_params", ()))


def fused_gemm(g: Emitter, node: OnnxNode) -> Tensor:
    numbers = [node.attributes[key] for key in ("activation_alpha", "activation_beta") if key in node.attributes]
    return _activated(g, node, dense.gemm(g, node), numbers)


def fused_matmul(g: Emitter, node: OnnxNode) -> Tensor:
    """alpha * A' * B', where the last two dimensions may be swapped."""
    node.need(not any(node.attribute(f"transBatch{side}", 0) for side in "AB"), "batches behind rows; transpose before")
    a, b = (
        _swapped(g, node.input(i)) if node.attribute(f"trans{side}", 0) and len(node.input(i).shape) > 1
        else node.input(i) for i, side in enumerate("AB")
    )  # fmt: skip
    y, alpha = products.matmul(g, a, b), float(node.attribute("alpha", 1.0))
    return y if alpha == 1 else g.binary("MUL", y, number(alpha))


def _swapped(g: Emitter, x: Tensor) -> Tensor:
    rank = len(x.shape)
    return g.transpose(x, [*range(rank - 2), rank - 1, rank - 2])


def _gelu(approximate: bool) -> Importer:
    return lambda g, node: g.unary("GELU", _plus(g, node.input(0), node.optional(1)), approximate=approximate)


def quick_gelu(g: Emitter, node: OnnxNode) -> Tensor:
    return activations.swish(g, replace(node, attributes={"alpha": node.attribute("alpha", 1.702)}))


def _normalised(g: Emitter, node: OnnxNode, x: Tensor, scale: Operand, bias: Operand) -> Tensor:
    y, _, _ = functions.normalize(g, x, (len(x.shape) - 1,), float(node.attribute("epsilon", 1e-12)))
    return scale_and_shift(g, y, scale, bias)


def _by_squares(g: Emitter, node: OnnxNode, x: Tensor, scale: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """x / sqrt(mean of squares + epsilon) * scale, and what x was multiplied by."""
    mean = functions.mean(g, g.binary("MUL", x, x), tuple(range(axis, len(x.shape))))
    factor = g.unary("RSQRT", g.binary("ADD", mean, number(float(node.attribute("epsilon", 1e-5)))))
    return g.binary("MUL", g.binary("MUL", x, factor), scale), factor


def simplified_layer_normalization(g: Emitter, node: OnnxNode) -> tuple[Tensor, Tensor]:
    return _by_squares(g, node, node.input(0), node.input(1), node.axis(-1))


def skip_layer_normalization(g: Emitter, node: OnnxNode) -> tuple[Tensor | None, ...]:
    total = _plus(g, node.input(0), node.input(1), node.optional(4))
    return _normalised(g, node, total, node.input(2), node.optional(3)), None, None, total


def skip_simplified(g: Emitter, node: OnnxNode) -> tuple[Tensor | None, ...]:
    total = _plus(g, node.input(0), node.input(1), node.optional(3))
    return _by_squares(g, node, total, node.input(2), len(total.shape) - 1)[0], None, None, total


def embed_layer_normalization(g: Emitter, node: OnnxNode) -> tuple[Tensor | None, ...]:
    """The sum of the embeddings of words, positions and segments, normalised; and how many words the mask has."""
    words, positions = g.gather(node.input(2), node.input(0), 0), node.input(3)
    length = node.input(0).shape[1]
    at = node.optional(8)
    places = g.part(positions, (0, 0), (length, positions.shape[1])) if at is None else g.gather(positions, at, 0)
    total, segments = g.binary("ADD", words, places), node.optional(1)
    if segments is not None and node.optional(4) is not None:
        total = g.binary("ADD", total, g.gather(node.input(4), segments, 0))
    mask = node.optional(7)
    count = None if mask is None else functions.reduced(g, "SUM", mask, (1,), False)
    return _normalised(g, node, total, node.input(5), node.input(6)), count, total


def _heads(g: Emitter, x: Tensor, heads: int) -> Tensor:
    """[batch, heads, length, size] of [batch, length, heads * size]."""
    n, length, width = x.shape
    return g.transpose(g.reshape(x, (n, length, heads, width // heads)), (0, 2, 1, 3))


def _attended(g: Emitter, node: OnnxNode, parts: Sequence[Tensor], mask: Tensor | None, bias: Tensor | None) -> Tensor:
    """softmax(Q * K' * scale + mask) * V of several heads. ``mask`` [batch, length] is 0 where a key is hidden."""
    query, key, value = parts
    n, heads, length, size = query.shape
    scale = float(node.attribute("scale", 0.0)) or 1 / math.sqrt(size)
    hidden = float(node.attribute("mask_filter_value", -10000.0))
    scores = products.product(g, g.binary("MUL", query, number(scale)), key, adjoint=True)
    scores = scores if bias is None else g.binary("ADD", scores, bias)
    if mask is not None:
        node.need(len(mask.shape) == 2 and mask.shape == (n, key.shape[2]), "a mask that is not [batch, keys]")
        off = g.binary("SUB", number(1), g.cast(mask, "FLOAT32"))
        off = g.reshape(g.binary("MUL", off, number(hidden)), (n, 1, 1, key.shape[2]))
        scores = g.binary("ADD", scores, off)
    if node.attribute("unidirectional", 0):
        ahead = np.triu(np.full((length, key.shape[2]), hidden, np.float32), 1 + key.shape[2] - length)
        scores = g.binary("ADD", scores, ahead)
    y = g.transpose(products.product(g, g.unary("SOFTMAX", scores, beta=1.0), value), (0, 2, 1, 3))
    return g.reshape(y, (n, length, heads * value.shape[3]))


def attention(g: Emitter, node: OnnxNode) -> Tensor:
    """Attention of a sequence to itself: one product makes queries, keys and values."""
    node.need(node.optional(4) is None, "past keys and values; export the model without a cache")
    product = products.matmul(g, node.input(0), node.input(1))
    return _to_itself(g, node, product, node.optional(3), node.optional(5))


def _to_itself(g: Emitter, node: OnnxNode, product: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
    heads, width = int(node.attribute("num_heads", 1)), product.shape[2]
    sizes = [int(v) for v in node.attribute("qkv_hidden_sizes", (width // 3,) * 3)]
    joint = _plus(g, product, node.optional(2))
    return _attended(g, node, _split(g, joint, sizes, heads), mask, bias)


def q_attention(g: Emitter, node: OnnxNode) -> Tensor:
    """Attention of integers: scales are in inputs 3 and 4, zero points in 6 and 7, the mask in 5."""
    node.need(node.optional(8) is None, "past keys and values; export the model without a cache")
    sides = [(node.input(i), node.input(i + 3), node.optional(i + 6)) for i in (0, 1)]
    return _to_itself(g, node, _multiplied(g, node, *sides), node.optional(5), None)


def _split(g: Emitter, joint: Tensor, sizes: Sequence[int], heads: int) -> list[Tensor]:
    starts = np.cumsum([0, *sizes])
    lead = joint.shape[:2]
    return [
        _heads(g, g.part(joint, (0, 0, int(start)), (*lead, size)), heads)
        for start, size in zip(starts, sizes, strict=False)
    ]


def multi_head_attention(g: Emitter, node: OnnxNode) -> Tensor:
    node.need(all(node.optional(i) is None for i in (6, 7)), "past keys and values; export the model without a cache")
    node.need(all(len(node.input(i).shape) == 3 for i in range(3)), "packed queries, keys and values; unpack them")
    heads, bias = int(node.attribute("num_heads", 1)), node.constant(3)
    parts, at = [], 0
    for i in range(3):
        x = node.input(i)
        addend = None if bias is None else bias[at : at + x.shape[2]]
        parts.append(_heads(g, x if addend is None else g.binary("ADD", x, addend), heads))
        at += x.shape[2]
    return _attended(g, node, parts, node.optional(4), node.optional(5))


def matmul_n_bits(g: Emitter, node: OnnxNode) -> Tensor:
    """Weights of 2, 4 or 8 bits in blocks along the depth, each with its scale: floats here."""
    depth, out, bits, block = (
        int(node.attribute(key, v)) for key, v in (("K", 0), ("N", 0), ("bits", 4), ("block_size", 32))
    )
    node.need(bits in (2, 4, 8) and node.optional(4) is None, f"{bits} bits or reordered groups; export with 4 bits")
    blocks = -(-depth // block)
    steps = _unpacked(np.asarray(node.constant(1)).reshape(out, -1), bits)[:, : blocks * block].reshape(
        out, blocks, block
    )
    zero = node.constant(3)
    if zero is None:
        zeros: Any = 1 << (bits - 1)
    elif zero.dtype == np.uint8:
        zeros = _unpacked(zero.reshape(out, -1), bits)[:, :blocks, None]
    else:
        zeros = zero.reshape(out, blocks, 1)
    scales = np.asarray(node.constant(2), np.float32).reshape(out, blocks, 1)
    weights = ((steps - zeros) * scales).reshape(out, -1)[:, :depth].astype(np.float32)
    return _plus(g, products.linear(g, node.input(0), weights.T, None), node.optional(5))


def _unpacked(data: np.ndarray, bits: int) -> np.ndarray:
    """Unsigned integers [rows, values] of bytes [rows, bytes], the lowest bits first."""
    shifts = np.arange(0, 8, bits)
    return ((data[..., None] >> shifts) & ((1 << bits) - 1)).reshape(len(data), -1).astype(np.float32)


def matmul_integer_to_float(g: Emitter, node: OnnxNode) -> Tensor:
    """Integers with scales (inputs 2 and 3) and zero points (4 and 5), multiplied as real numbers."""
    sides = [(node.input(i), node.input(i + 2), node.optional(i + 4)) for i in (0, 1)]
    return _plus(g, _multiplied(g, node, *sides), node.optional(6))


Quantised = tuple[Tensor, Tensor, Tensor | None]


def _multiplied(g: Emitter, node: OnnxNode, left: Quantised, right: Quantised) -> Tensor:
    """The product of integers as real numbers. Floats on the left, which would be quantised at run time, stay."""
    if left[0].type == "FLOAT32":
        return _dynamic(g, node, left[0], right)
    return products.matmul(g, _real(g, node, *left), _real(g, node, *right))


def dynamic_quantize_matmul(g: Emitter, node: OnnxNode) -> Tensor:
    """FULLY_CONNECTED of float values, which it quantises itself, and int8 weights."""
    return _plus(
        g,
        _dynamic(g, node, node.input(0), (node.input(1), node.input(2), node.optional(3))),
        node.optional(4),
    )


def _dynamic(g: Emitter, node: OnnxNode, a: Tensor, right: Quantised) -> Tensor:
    b, scale, zero = right
    constant = b.data is not None and scale.data is not None and (zero is None or zero.data is not None)
    if not constant or len(b.shape) != 2:
        return products.matmul(g, a, _real(g, node, *right))
    return products.matmul(g, a, remembering(b, np.asarray(scale.data), None if zero is None else zero.data, 1))


def dynamic_quantize_conv(g: Emitter, node: OnnxNode) -> Tensor:
    """A convolution of float values, which it quantises itself. Behind them are int8 weights, their scale and zero
    point, and a bias."""
    w = remembering(node.input(1), np.asarray(node.constant(2), np.float32), node.constant(3), 0)
    return conv.conv(g, replace(node, op="Conv", inputs=(node.input(0), w, node.optional(4))))


def _real(g: Emitter, node: OnnxNode, x: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    return quantised.dequantize_linear(g, replace(node, inputs=(x, scale, zero), attributes={"axis": len(x.shape) - 1}))


def _all(names: dict[str, Callable[[Emitter, OnnxNode], Any]]) -> dict[str, Importer]:
    return {f"com.microsoft:{name}": run for name, run in names.items()}


IMPORTERS: dict[str, Importer] = {
    "SimplifiedLayerNormalization": simplified_layer_normalization,
    "twinfer:DynamicQuantizeConv": dynamic_quantize_conv,
    **_all(
        {
            "Attention": attention,
            "BiasGelu": _gelu(False),
            "DynamicQuantizeMatMul": dynamic_quantize_matmul,
            "EmbedLayerNormalization": embed_layer_normalization,
            "FastGelu": _gelu(True),
            "FusedConv": fused_conv,
            "FusedGemm": fused_gemm,
            "FusedMatMul": fused_matmul,
            "Gelu": _gelu(False),
            "MatMulIntegerToFloat": matmul_integer_to_float,
            "MatMulNBits": matmul_n_bits,
            "MultiHeadAttention": multi_head_attention,
            "QAttention": q_attention,
            "QuickGelu": quick_gelu,
            "SimplifiedLayerNormalization": simplified_layer_normalization,
            "SkipLayerNormalization": skip_layer_normalization,
            "SkipSimplifiedLayerNormalization": skip_simplified,
        }
    ),
}
