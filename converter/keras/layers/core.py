"""Dense layers, embeddings, layers that make one tensor of several, and those that do nothing when a model runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from twinfer.converter.emit.emitter import Emitter, constant
from twinfer.converter.emit.functions import along
from twinfer.converter.emit.products import einsum, linear, product
from twinfer.converter.keras.call import Call, composed
from twinfer.runtime.graph import Tensor


def dense(g: Emitter, call: Call) -> Tensor:
    call.need(not getattr(call.layer, "quantization_mode", None), "quantised weights; convert the float model")
    return call.activated(linear(g, call.input(), call.weight("kernel"), call.optional("bias")))


def embedding(g: Emitter, call: Call) -> Tensor:
    """Rows of the table by integer inputs, which may come as floats."""
    call.need(not getattr(call.layer, "quantization_mode", None), "quantised weights; convert the float model")
    x, table = call.input(), constant(call.weight("embeddings"), f"{call.name}/embeddings")
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
    "Embedding": embedding,
    "Add": _merge("ADD"),
    "Average": average,
    "Concatenate": concatenate,
    "Dot": dot,
    "Maximum": _merge("MAXIMUM"),
    "Minimum": _merge("MINIMUM"),
    "Multiply": _merge("MUL"),
    "Subtract": _merge("SUB"),
}
