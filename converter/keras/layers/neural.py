"""Operations of neural nets that are made of others of ``keras.ops``: normalisation, attention, losses."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np

from twinfer.converter.keras.call import composed, dimensions
from twinfer.runtime.errors import UnsupportedOperatorError

ops = keras.ops


def _over(value: Any, x: Any, axes: Any) -> Any:
    """A parameter of these dimensions as it broadcasts."""
    axes = dimensions(axes, x)
    return ops.reshape(value, [n if i in axes else 1 for i, n in enumerate(x.shape)])


def batch_norm(own: Any, x: Any, mean: Any, variance: Any, offset: Any = None, scale: Any = None) -> Any:
    factor = ops.rsqrt(ops.convert_to_tensor(variance) + own.epsilon)
    factor = factor if scale is None else factor * ops.convert_to_tensor(scale)
    shift = -(ops.convert_to_tensor(mean) * factor)
    shift = shift if offset is None else shift + ops.convert_to_tensor(offset)
    return x * _over(factor, x, own.axis) + _over(shift, x, own.axis)


def layer_norm(own: Any, x: Any, gamma: Any = None, beta: Any = None) -> Any:
    epsilon = keras.backend.epsilon() if own.epsilon is None else own.epsilon
    rest = x - ops.mean(x, axis=own.axis, keepdims=True)
    factor = ops.rsqrt(ops.mean(ops.square(rest), axis=own.axis, keepdims=True) + epsilon)
    y = (x if getattr(own, "rms_scaling", False) else rest) * factor
    y = y if gamma is None else y * _over(gamma, x, own.axis)
    return y if beta is None else y + _over(beta, x, own.axis)


def rms_norm(own: Any, x: Any, scale: Any = None) -> Any:
    epsilon = keras.backend.epsilon() if own.epsilon is None else own.epsilon
    y = x * ops.rsqrt(ops.mean(ops.square(x), axis=own.axis, keepdims=True) + epsilon)
    return y if scale is None else y * _over(scale, x, own.axis)


def attention(own: Any, query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None, scale: Any = None) -> Any:
    """query [batch, time, heads, size]; fewer heads of keys and values serve several heads of queries each."""
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    q, k, v = (ops.transpose(x, (0, 2, 1, 3)) for x in (query * factor, key, value))
    if k.shape[1] != q.shape[1]:
        k, v = (ops.repeat(x, q.shape[1] // k.shape[1], axis=1) for x in (k, v))
    scores = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2)))
    scores = scores if bias is None else scores + bias
    if own.attn_logits_soft_cap is not None:
        scores = ops.tanh(scores / own.attn_logits_soft_cap) * own.attn_logits_soft_cap
    if own.is_causal:
        causal = np.tril(np.ones(scores.shape[-2:], np.bool_))[None, None]
        mask = causal if mask is None else ops.logical_and(mask, causal)
    if mask is not None:
        scores = ops.where(mask, scores, np.float32(-1e9))
    return ops.transpose(ops.matmul(ops.softmax(scores), v), (0, 2, 1, 3))


def _share(x: Any) -> Any:
    least = keras.backend.epsilon()
    return ops.clip(x, least, 1 - least)


def binary_crossentropy(own: Any, target: Any, output: Any) -> Any:
    """From logits as max(x, 0) - x * target + log(1 + exp(-|x|))."""
    if own.from_logits:
        return ops.relu(output) - output * target + ops.log(ops.exp(-ops.abs(output)) + 1.0)
    output = _share(output)
    return -(target * ops.log(output) + (1.0 - target) * ops.log(1.0 - output))


def _log_shares(own: Any, output: Any) -> Any:
    if own.from_logits:
        return ops.log_softmax(output, axis=own.axis)
    return ops.log(_share(output / ops.sum(output, axis=own.axis, keepdims=True)))


def categorical_crossentropy(own: Any, target: Any, output: Any) -> Any:
    return -ops.sum(target * _log_shares(own, output), axis=own.axis)


def sparse_crossentropy(own: Any, target: Any, output: Any) -> Any:
    if own.axis not in (-1, len(output.shape) - 1):
        raise UnsupportedOperatorError("classes that are not the last axis; transpose the output")
    if len(target.shape) == len(output.shape):
        target = ops.squeeze(target, -1)
    hot = ops.one_hot(ops.cast(target, "int32"), output.shape[-1])
    return -ops.sum(hot * _log_shares(own, output), axis=-1)


def psnr(own: Any, a: Any, b: Any) -> Any:
    return 20 * math.log10(own.max_val) - ops.log(ops.mean(ops.square(a - b))) * (10 / math.log(10))


def squared_distance(own: Any, x: Any, y: Any) -> Any:
    """Of all rows of the one to all rows of the other."""
    rest = ops.expand_dims(x, -2) - ops.expand_dims(y, -3)
    return ops.sqrt(ops.sum(ops.square(rest), axis=-1))


IMPORTERS = {
    f"ops.{name}": composed(function)
    for name, function in {
        "BatchNorm": batch_norm,
        "BinaryCrossentropy": binary_crossentropy,
        "CDist": squared_distance,
        "CategoricalCrossentropy": categorical_crossentropy,
        "DotProductAttention": attention,
        "LayerNorm": layer_norm,
        "PSNR": psnr,
        "RMSNorm": rms_norm,
        "SparseCategoricalCrossentropy": sparse_crossentropy,
    }.items()
}
