"""The changes that make random nodes of cases. Each gives the trial itself where it does not apply."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinfer.bench.fuzz.model import Rng, Trial, fit
from twinfer.runtime.graph import DTYPES, PACKED_BITS, Array, Quant, Tensor
from twinfer.runtime.op import Shape
from twinfer.runtime.registry import operators

#: Types that a type may become.
OTHERS = {
    "INT8": ("UINT8", "UINT8", "INT16"), "INT16": ("INT8",), "UINT8": ("INT8",), "FLOAT32": ("INT32", "INT64"),
    "INT32": ("INT64", "FLOAT32"), "INT64": ("INT32",), "BOOL": ("INT8",), "UINT32": ("INT32",),
}  # fmt: skip


# -- shapes ------------------------------------------------------------------------------------------------------------


def _extent(rng: Rng, old: int) -> int:
    """Another extent: near, small, about the width of a register, or one."""
    kind = rng.integers(4)
    if kind == 0:
        return max(1, old + int(rng.integers(-2, 3)))
    if kind == 1:
        return int(rng.integers(1, 9))
    return int(rng.choice([1, 15, 16, 17, 31, 32, 33, 64])) if kind == 2 else int(rng.integers(1, 24))


def _fed(trial: Trial) -> list[Tensor]:
    """The tensors that have dimensions to change: all but arguments such as axes."""
    return [t for t in trial.tensors if t.shape and t not in trial.node.outputs and t.type not in PACKED_BITS]


def reshape(tensor: Tensor, shape: Shape) -> Tensor:
    """The tensor in another shape, with its values repeated or cut, and a scale per channel still."""
    data = None if tensor.data is None else fit(tensor.data, replace(tensor, shape=shape, data=None))
    quant = tensor.quant
    if quant is not None and quant.per_channel and quant.axis < len(shape):
        count = shape[quant.axis]
        quant = Quant(np.resize(quant.scale, count), np.resize(quant.zero_point, count), quant.axis)
    return replace(tensor, shape=shape, data=data, quant=quant)


def extent_everywhere(rng: Rng, trial: Trial) -> Trial:
    """An extent becomes another one wherever it occurs, in constants of shapes and in options, too."""
    fed = _fed(trial)
    sizes = sorted({d for t in fed for d in t.shape})
    if not sizes:
        return trial
    old = int(rng.choice(sizes))
    new, axis = _extent(rng, old), int(rng.integers(4)) if rng.random() < 0.5 else None
    swap: dict[Tensor, Tensor] = {}
    for t in fed:
        shape = tuple(new if d == old and axis in (None, i) else d for i, d in enumerate(t.shape))
        changed = reshape(t, shape) if shape != t.shape else t
        if _is_argument(t) and t.data is not None and rng.random() < 0.6:
            values = np.where(changed.data == old, new, changed.data).astype(t.dtype)  # type: ignore[arg-type]
            changed = replace(changed, data=values)
        swap[t] = changed
    return trial.swap(swap)


def extent_here(rng: Rng, trial: Trial) -> Trial:
    """An extent of one tensor becomes another one, often 1: broadcasting."""
    fed = _fed(trial)
    if not fed:
        return trial
    tensor = fed[int(rng.integers(len(fed)))]
    axis = int(rng.integers(len(tensor.shape)))
    new = 1 if rng.random() < 0.4 else _extent(rng, tensor.shape[axis])
    return trial.swap({tensor: reshape(tensor, (*tensor.shape[:axis], new, *tensor.shape[axis + 1 :]))})


def rank(rng: Rng, trial: Trial) -> Trial:
    """A dimension in front, or a dimension of 1 less, of one or all inputs."""
    values = [t for t in trial.node.inputs if t is not None and not _is_argument(t) and t.type not in PACKED_BITS]
    if not values:
        return trial
    chosen = values if rng.random() < 0.5 else [values[int(rng.integers(len(values)))]]
    front = (int(rng.choice([1, 1, 2, 3])),)
    if rng.random() < 0.5:
        return trial.swap({t: reshape(t, (*front, *t.shape)) for t in chosen})
    return trial.swap({t: reshape(t, t.shape[1:]) for t in chosen if t.shape})


# -- quantisation ------------------------------------------------------------------------------------------------------


def _group(rng: Rng, trial: Trial) -> list[Tensor]:
    """A quantised tensor, mostly together with all of the same quantisation."""
    tensors = [t for t in trial.tensors if t.quant is not None and t.type in ("INT8", "UINT8", "INT16")]
    if not tensors:
        return []
    one = tensors[int(rng.integers(len(tensors)))]
    return [t for t in tensors if t.quant == one.quant] if rng.random() < 0.7 else [one]


def scales(rng: Rng, trial: Trial) -> Trial:
    """Another scale; a bias follows the product of input and weights."""
    factor = (
        np.float32(2.0 ** rng.uniform(-4, 4)) if rng.random() < 0.8 else np.float32(2.0 ** int(rng.integers(-3, 4)))
    )
    swap = {t: replace(t, quant=replace(t.quant, scale=t.quant.scale * factor)) for t in _group(rng, trial) if t.quant}
    return _with_bias_scale(trial.swap(swap)) if swap else trial


def _with_bias_scale(trial: Trial) -> Trial:
    node = trial.node
    if operators()[node.op].uint8 != "layer" or len(node.inputs) < 3:
        return trial
    bias, weights = node.inputs[-1], node.inputs[1]
    x = node.inputs[2 if node.op == "TRANSPOSE_CONV" else 0]
    if bias is None or bias.quant is None or x is None or x.quant is None or weights is None or weights.quant is None:
        return trial
    product = np.float32(x.quant.scale[0]) * weights.quant.scale
    if bias.type not in ("INT32", "INT64") or product.shape != bias.quant.scale.shape:
        return trial
    return trial.swap({bias: replace(bias, quant=replace(bias.quant, scale=product))})


def zeros(rng: Rng, trial: Trial) -> Trial:
    """Another zero point: at random, or at the end of the type."""
    swap: dict[Tensor, Tensor] = {}
    group = _group(rng, trial)
    for t in group:
        if t.quant is not None and (t.type != "INT16"):
            info = np.iinfo(t.dtype)
            ends = [info.min, info.max, (info.min + info.max + 1) // 2]
            zero = int(rng.choice(ends)) if rng.random() < 0.4 else int(rng.integers(info.min, info.max + 1))
            zero = swap[group[0]].zero if group[0] in swap and not t.quant.per_channel else zero
            if not t.quant.per_channel:
                swap[t] = replace(t, quant=replace(t.quant, zero_point=np.full(1, zero, np.int64)))
    return trial.swap(swap) if swap else trial


# -- values ------------------------------------------------------------------------------------------------------------


def _is_argument(tensor: Tensor) -> bool:
    """Whether it looks like axes, sizes or indices."""
    return tensor.type in ("INT32", "INT64") and tensor.quant is None and tensor.size <= 64


def constant_values(rng: Rng, trial: Trial) -> Trial:
    """Other values of a constant of weights."""
    held = [t for t in trial.tensors if t.data is not None and t.type in DTYPES and not _is_argument(t) and t.size]
    if not held:
        return trial
    tensor = held[int(rng.integers(len(held)))]
    return trial.swap({tensor: replace(tensor, data=_values(rng, tensor))})


def _values(rng: Rng, tensor: Tensor) -> Array:
    kept = np.asarray(tensor.data)
    if tensor.dtype.kind in "iu" and tensor.type in ("INT8", "UINT8"):
        info = np.iinfo(tensor.dtype)
        ends = np.array([info.min, info.min + 1, info.max], tensor.dtype)
        if rng.random() < 0.3:
            return rng.choice(ends, tensor.shape).astype(tensor.dtype)
        return rng.integers(info.min, info.max, tensor.shape, tensor.dtype, endpoint=True)
    return np.ascontiguousarray(rng.permutation(kept.reshape(-1)).reshape(tensor.shape))


def indices(rng: Rng, trial: Trial) -> Trial:
    """One element of an argument changes, or two change places; it may be a constant or a value that is fed."""
    arguments = [t for t in trial.tensors if _is_argument(t) and t.size and (t.data is not None or t in trial.given)]
    if not arguments:
        return trial
    tensor = arguments[int(rng.integers(len(arguments)))]
    values = np.array(trial.given[tensor] if tensor.data is None else tensor.data).reshape(-1)
    i, j = (int(k) for k in rng.integers(values.size, size=2))
    if rng.random() < 0.7 or i == j:
        info = np.iinfo(values.dtype)
        values[i] = min(max(int(values[i]) + int(rng.choice([-2, -1, 1, 2])), info.min), info.max)
    else:
        values[i], values[j] = values[j], values[i]
    values = values.reshape(tensor.shape)
    if tensor.data is None:
        return replace(trial, given={**trial.given, tensor: values})
    return trial.swap({tensor: replace(tensor, data=values)})


def hold_or_feed(rng: Rng, trial: Trial) -> Trial:
    """A constant becomes an input of the model, or an input a constant."""
    inputs = [t for t in trial.node.inputs if t is not None and not t.variable and t.type in DTYPES]
    if not inputs:
        return trial
    tensor = inputs[int(rng.integers(len(inputs)))]
    if tensor.data is not None:
        fed = replace(tensor, data=None)
        swapped = trial.swap({tensor: fed})
        return replace(swapped, given={**swapped.given, fed: tensor.data})
    value = trial.given.get(tensor)
    if value is None and tensor.type not in ("INT8", "UINT8", "FLOAT32", "INT16", "BOOL"):
        return trial
    if value is None:
        value = fit(np.round(rng.normal(size=max(tensor.size, 1)) * 40), tensor)
    return trial.swap({tensor: replace(tensor, data=value)})


# -- types -------------------------------------------------------------------------------------------------------------


def types(rng: Rng, trial: Trial) -> Trial:
    """A type becomes another one in all tensors that have it; uint8 keeps the meaning of int8."""
    present = sorted({t.type for t in trial.tensors if t.type in OTHERS})
    if not present:
        return trial
    old = str(rng.choice(present))
    new = str(rng.choice(OTHERS[old]))
    if new == "UINT8" and operators()[trial.node.op].uint8 not in ("layer", "computes", "moves"):
        return trial
    swap = {t: _typed(t, new) for t in trial.tensors if t.type == old and (old != "INT32" or t.quant is None)}
    oracle = "litert" if new == "UINT8" and trial.oracle == "tflm" else trial.oracle
    return replace(trial.swap(swap), oracle=oracle)


def _typed(tensor: Tensor, new: str) -> Tensor:
    shift = 128 * ((new == "UINT8") - (tensor.type == "UINT8"))
    quant, data = tensor.quant, tensor.data
    if quant is not None:
        quant = replace(quant, zero_point=quant.zero_point * (new != "INT16") + shift)
    if data is not None:
        wide = data.astype(np.int64) + shift if data.dtype.kind in "iub" else data
        data = fit(wide, replace(tensor, type=new, data=None))
    return replace(tensor, type=new, quant=quant, data=data)
