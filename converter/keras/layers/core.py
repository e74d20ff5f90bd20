"""Dense layers, embeddings, layers that make one tensor of several, and those that do nothing when a model runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from twinfer.converter.emit.emitter import Emitter, constant
from twinfer.converter.emit.functions import along
from twinfer.converter.emit.products import einsum, linear, product
from twinfer.converter.keras.call import Call, composed, numbers, unpacked
from twinfer.runtime.graph import Tensor


def dense(g: Emitter, call: Call) -> Tensor:
    kernel = unpacked(call.layer, "kernel", call.name)
    return call.activated(linear(g, call.input(), kernel, call.optional("bias")))


def einsum_dense(g: Emitter, call: Call) -> Tensor:
    """By a product of matrices. Quantised weights are divided by their scales where Keras does so: in the result."""
    own = call.layer
    if not getattr(own, "quantization_mode", None):
        return call.follow()[0]
    call.need(own.quantization_mode in ("int8", "float8"), f"weights of {own.quantization_mode}; use int8")
    kernel = constant(numbers(own.kernel).astype(np.float32), f"{call.name}/kernel")
    y = einsum(g, own.equation, [call.input(), kernel])
    if own.quantization_mode == "int8":
        y = g.binary("MUL", y, (1 / numbers(own.kernel_scale)).astype(np.float32))
    bias = call.optional("bias")
    return call.activated(y if bias is None else g.binary("ADD", y, bias))


def reversible_embedding(g: Emitter, call: Call) -> Tensor:
    """Rows of the table, or products with all of them."""
    own = call.layer
    if not getattr(own, "quantization_mode", None):
        return call.follow()[0]
    if not call.argument(1, "reverse", False):
        return embedding(g, call)
    table = unpacked(own, "embeddings", call.name)
    kernel = table.T if own.tie_weights else unpacked(own, "reverse_embeddings", call.name)
    y = linear(g, call.input(), kernel, None)
    cap = own.logit_soft_cap
    if cap is None:
        return y
    y = g.unary("TANH", g.binary("MUL", y, np.array(1 / cap, np.float32)))
    return g.binary("MUL", y, np.array(cap, np.float32))


def embedding(g: Emitter, call: Call) -> Tensor:
    """Rows of the table by integer inputs, which may come as floats."""
    x, table = call.input(), constant(unpacked(call.layer, "embeddings", call.name), f"{call.name}/embeddings")
    x = x if x.type in ("INT32", "INT64") else g.cast(x, "INT32")
    return g.gather(table, x, 0)


#: Layers that act in training alone.
IDENTITIES = (
    "ActivityRegularization", "AlphaDropout", "Dropout", "GaussianDropout", "GaussianNoise", "Identity",
    "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "RandomBrightness", "RandomContrast", "RandomFlip",
    "RandomHue", "RandomRotation", "RandomSaturation", "RandomTranslation", "RandomZoom",
)  # fmt: skip


Importer = Callable[[Emitter, Call], Tensor]


def _alike(g: Emitter, tensors: list[Tensor]) -> list[Tensor]:
    """All inputs with the highest rank: ones are put behind the batch dimension, as Keras broadcasts."""
    rank = max(len(t.shape) for t in tensors)
    return [g.reshape(t, (*t.shape[:1], *[1] * (rank - len(t.shape)), *t.shape[1:])) for t in tensors]


def _merge(op: str) -> Importer:
    return lambda g, call: reduce(lambda a, b: g.binary(op, a, b), _alike(g, call.inputs()))


def average(g: Emitter, call: Call) -> Tensor:
    return g.binary("MUL", _merge("ADD")(g, call), np.array(1 / len(call.inputs()), np.float32))


def concatenate(g: Emitter, call: Call) -> Tensor:
    parts = call.inputs()
    return g.concat(parts, int(call.layer.axis) % len(parts[0].shape))


def dot(g: Emitter, call: Call) -> Tensor:
    """Sums over one dimension of each: matrices [n, rows, columns] or vectors [n, columns]."""
    a, b = call.inputs()
    axes = call.layer.axes if isinstance(call.layer.axes, list | tuple) else (call.layer.axes,) * 2
    first, second = (axis % len(t.shape) for axis, t in zip(axes, (a, b), strict=True))
    call.need(first > 0 and second > 0, "the batch as an axis")
    if call.layer.normalize:
        a, b = (along(g, "L2_NORMALIZATION", t, axis) for t, axis in ((a, first), (b, second)))
    if max(len(a.shape), len(b.shape)) > 3:
        letters = "bcdefghij"[: len(a.shape) - 1], "klmnopqrs"[: len(b.shape) - 1]
        rows = "a" + letters[0]
        columns = "a" + letters[1].replace(letters[1][second - 1], letters[0][first - 1])
        kept = [c for c in rows + columns[1:] if c != letters[0][first - 1]]
        return g.reshape(einsum(g, f"{rows},{columns}->{''.join(kept)}", [a, b]), call.shape)
    left = g.reshape(a, (a.shape[0], 1, a.shape[1])) if len(a.shape) == 2 else a
    right = g.reshape(b, (b.shape[0], b.shape[1], 1)) if len(b.shape) == 2 else b
    left = g.transpose(left, (0, 2, 1)) if len(a.shape) == 3 and first == 1 else left
    right = g.transpose(right, (0, 2, 1)) if len(b.shape) == 3 and second == 2 else right
    return g.reshape(product(g, left, right), call.shape)


IMPORTERS: dict[str, Any] = {
    "CategoryEncoding": composed(lambda own, x, count_weights=None: own._encode(x, count_weights)),
    **dict.fromkeys(IDENTITIES, lambda g, call: call.input()),
    "Dense": dense,
    "EinsumDense": einsum_dense,
    "Embedding": embedding,
    "ReversibleEmbedding": reversible_embedding,
    "Add": _merge("ADD"),
    "Average": average,
    "Concatenate": concatenate,
    "Dot": dot,
    "Maximum": _merge("MAXIMUM"),
    "Minimum": _merge("MINIMUM"),
    "Multiply": _merge("MUL"),
    "Subtract": _merge("SUB"),
}
