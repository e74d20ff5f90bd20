"""MultiHeadAttention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from twinfer.converter.emit.emitter import Emitter, Shape
from twinfer.converter.emit.products import linear, product
from twinfer.converter.keras.call import Call, array, as_tensor
from twinfer.converter.keras.layers.activation import masked_softmax
from twinfer.runtime.graph import Tensor


def _heads(g: Emitter, x: Tensor, projection: Any, factor: float = 1.0) -> Tensor:
    """x [n, time, depth] as every head sees it, [n, heads, time, size]."""
    kernel = array(projection.kernel, f"{projection.name}/kernel") * np.float32(factor)
    bias = None if projection.bias is None else array(projection.bias, f"{projection.name}/bias").reshape(-1)
    depth, heads, size = kernel.shape
    addend = None if bias is None else bias * np.float32(factor)
    seen = linear(g, x, kernel.reshape(depth, heads * size), addend)
    return g.transpose(g.reshape(seen, (*x.shape[:2], heads, size)), (0, 2, 1, 3))


def multi_head_attention(g: Emitter, call: Call) -> list[Tensor]:
    """Softmax of the queries' products with the keys, times the values. Source: Vaswani et al., 2017."""
    own, query, value = call.layer, call.argument(0, "query"), call.argument(1, "value")
    key = call.argument(2, "key")
    key = value if key is None else key
    options = any(getattr(own, name, None) for name in ("_use_gate", "_sliding_window"))
    masks = any(call.argument(i, f"{name}_mask") is not None for i, name in ((3, "query"), (4, "value"), (5, "key")))
    parts = (own._query_dense, own._key_dense, own._value_dense, own._output_dense)
    options = options or any(getattr(part, "quantization_mode", None) for part in parts)
    if options or masks or not len(query.shape) == len(value.shape) == 3:
        return call.follow()
    factor = 1 / math.sqrt(own._query_dense.kernel.shape[-1])
    q, k = _heads(g, query, own._query_dense, factor), _heads(g, key, own._key_dense)
    scores = product(g, q, k, adjoint=True)
    mask, causal = call.argument(6, "attention_mask"), call.kwargs.get("use_causal_mask")
    if mask is not None:
        given = g.cast(as_tensor(g, mask), "BOOL")  # [batch, time, time], for all heads
        shown = g.reshape(given, (*given.shape[:-2], *[1] * (4 - len(given.shape)), *given.shape[-2:]))
        shown = g.binary("LOGICAL_AND", shown, np.isfinite(_causal(scores.shape))) if causal else shown
        zeros = own._dropout > 0 or bool(call.kwargs.get("return_attention_scores"))  # Keras takes another path then
        shares = masked_softmax(g, scores, -1, shown, zeros)
    else:
        scores = g.binary("ADD", scores, _causal(scores.shape)) if causal else scores
        shares = g.unary("SOFTMAX", scores, beta=1.0)
    seen = g.transpose(product(g, shares, _heads(g, value, own._value_dense)), (0, 2, 1, 3))
    flat = g.reshape(seen, (*query.shape[:2], seen.shape[2] * seen.shape[3]))
    output = own._output_dense
    kernel = array(output.kernel, f"{output.name}/kernel")
    bias = None if output.bias is None else array(output.bias, f"{output.name}/bias").reshape(-1)
    y = g.reshape(linear(g, flat, kernel.reshape(flat.shape[-1], -1), bias), call.shape)
    return [y, shares] if call.kwargs.get("return_attention_scores") else [y]


def _causal(shape: Shape) -> np.ndarray:
    """A mask [1, 1, time, time] of 0 and -infinity. Added to the scores, it hides later steps from every step."""
    hidden: np.ndarray = np.triu(np.full(shape[-2:], -np.inf, np.float32), 1)[None, None]
    return hidden


IMPORTERS = {"MultiHeadAttention": multi_head_attention}
