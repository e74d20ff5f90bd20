"""Operators of com.microsoft: what ONNX Runtime's optimiser makes of several operators, and those of its quantiser that
keep float activations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.converter.emit import functions, products
from twinfer.converter.emit.emitter import Emitter, Operand
from twinfer.converter.emit.functions import number, scale_and_shift
from twinfer.converter.onnx.node import Importer, OnnxNode
from twinfer.converter.onnx.ops import activations, conv, dense, pool, quantised
from twinfer.converter.quantize.hybrid import remembering
from twinfer.runtime.graph import Tensor

#: What is fused behind an operator, with the names of its numbers in order.
ACTIVATIONS = {"LeakyRelu": ("alpha",), "Clip": ("min", "max"), "HardSigmoid": ("alpha", "beta")}


def plus(g: Emitter, x: Tensor, *others: Tensor | None) -> Tensor:
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
    return _activated(g, node, plus(g, y, node.optional(3)), node.attribute("activation_params", ()))


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
    return lambda g, node: g.unary("GELU", plus(g, node.input(0), node.optional(1)), approximate=approximate)


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
    total = plus(g, node.input(0), node.input(1), node.optional(4))
    return _normalised(g, node, total, node.input(2), node.optional(3)), None, None, total


def skip_simplified(g: Emitter, node: OnnxNode) -> tuple[Tensor | None, ...]:
    total = plus(g, node.input(0), node.input(1), node.optional(3))
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


def q_embed_layer_normalization(g: Emitter, node: OnnxNode) -> tuple[Tensor | None, ...]:
    """Tables, factors and addends are integers, with scales in inputs 8 to 12 and zero points behind these."""
    real: dict[int, Tensor | None] = {}
    for i in range(2, 7):
        x, scale, zero = node.optional(i), node.optional(i + 6), node.optional(i + 11)
        real[i] = None if x is None or scale is None else _real(g, node, x, scale, zero)
    inputs = (*node.inputs[:2], *real.values(), node.optional(7))
    return embed_layer_normalization(g, replace(node, inputs=inputs))


def matmul_integer_to_float(g: Emitter, node: OnnxNode) -> Tensor:
    """Integers with scales (inputs 2 and 3) and zero points (4 and 5), multiplied as real numbers."""
    sides = [(node.input(i), node.input(i + 2), node.optional(i + 4)) for i in (0, 1)]
    return plus(g, multiplied(g, node, *sides), node.optional(6))


Quantised = tuple[Tensor, Tensor, Tensor | None]


def multiplied(g: Emitter, node: OnnxNode, left: Quantised, right: Quantised) -> Tensor:
    """The product of integers as real numbers. Floats on the left, which would be quantised at run time, stay."""
    if left[0].type == "FLOAT32":
        return _dynamic(g, node, left[0], right)
    return products.matmul(g, _real(g, node, *left), _real(g, node, *right))


def dynamic_quantize_matmul(g: Emitter, node: OnnxNode) -> Tensor:
    """FULLY_CONNECTED of float values, which it quantises itself, and int8 weights."""
    return plus(
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


def named(names: dict[str, Callable[[Emitter, OnnxNode], Any]]) -> dict[str, Importer]:
    return {f"com.microsoft:{name}": run for name, run in names.items()}


IMPORTERS: dict[str, Importer] = {
    "SimplifiedLayerNormalization": simplified_layer_normalization,
    "twinfer:DynamicQuantizeConv": dynamic_quantize_conv,
    **named(
        {
            "BiasGelu": _gelu(False),
            "DynamicQuantizeMatMul": dynamic_quantize_matmul,
            "EmbedLayerNormalization": embed_layer_normalization,
            "FastGelu": _gelu(True),
            "FusedConv": fused_conv,
            "FusedGemm": fused_gemm,
            "FusedMatMul": fused_matmul,
            "Gelu": _gelu(False),
            "MatMulIntegerToFloat": matmul_integer_to_float,
            "NhwcConv": quantised.channels_last(fused_conv, 0, 3),
            "NhwcFusedConv": quantised.channels_last(fused_conv, 0, 3),
            "NhwcMaxPool": quantised.channels_last(pool.max_pool),
            "QEmbedLayerNormalization": q_embed_layer_normalization,
            "QuickGelu": quick_gelu,
            "SimplifiedLayerNormalization": simplified_layer_normalization,
            "SkipLayerNormalization": skip_layer_normalization,
            "SkipSimplifiedLayerNormalization": skip_simplified,
            "TransposeMatMul": fused_matmul,
        }
    ),
}
