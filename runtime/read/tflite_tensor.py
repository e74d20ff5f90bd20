"""Tensors of a .tflite file: raw tables -> ``Tensor``, with every shape, size, index and quantisation checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.graph import DTYPES, EMPTY, LIMITS, PACKED_BITS, Quant, Tensor
from twinfer.runtime.read.flatbuffer import Damage, Values, at

#: The most bytes that a process can address (47 bits on x86-64).
MAX_BYTES = 1 << 47
MAX_RANK = 32

#: The bytes of every buffer of the file, None for an empty one.
Buffers = Sequence[NDArray[np.uint8] | None]


def pick(tensors: Sequence[Tensor], indices: Sequence[int], field: str) -> tuple[Tensor, ...]:
    """The tensors at these indices; Damage naming ``field`` if one does not exist."""
    for index in indices:
        if not 0 <= index < len(tensors):
            raise Damage(f"tensor {index} does not exist, there are {len(tensors)}", f"field {field}")
    return tuple(tensors[index] for index in indices)


def pick_optional(tensors: Sequence[Tensor], indices: Sequence[int], field: str) -> tuple[Tensor | None, ...]:
    """As ``pick``; -1 stands for an absent tensor."""
    present = iter(pick(tensors, [index for index in indices if index != -1], field))
    return tuple(None if index == -1 else next(present) for index in indices)


def pick_buffer(buffers: Buffers, index: int) -> NDArray[np.uint8] | None:
    """The bytes of a buffer, None if it has none; Damage if it does not exist. Buffer 0 is always empty."""
    if index and index >= len(buffers):
        raise Damage(f"buffer {index} does not exist, there are {len(buffers)}", "field buffer")
    return buffers[index] if index else None


def read_tensors(raws: Sequence[Values], buffers: Buffers, repaired: list[str]) -> tuple[Tensor, ...]:
    """All tensors of a subgraph; Damage if one is wrong. The names of repaired ones are added to ``repaired``."""
    tensors: list[Tensor] = []
    for i, raw in enumerate(raws):
        with at("Tensor", i, raw["name"]):
            tensors.append(_tensor(raw, buffers, repaired))
    for i, raw in enumerate(raws):  # only now: the details of a quantisation refer to other tensors
        details = raw["quantization"] and raw["quantization"]["details"]
        if details:
            with at("Tensor", i, raw["name"]), at("field details"):
                extra = {**tensors[i].extra, "details": _details(details, tensors, raws)}
                tensors[i] = replace(tensors[i], extra=MappingProxyType(extra))
    return tuple(tensors)


def _tensor(raw: Values, buffers: Buffers, repaired: list[str]) -> Tensor:
    shape = _shape(raw["shape"], raw["type"])
    quant, signature = _quant(raw, shape, repaired), _shape_signature(raw["shape_signature"], shape)
    tensor = Tensor(raw["name"], raw["type"], shape, quant, None, raw["is_variable"], signature, _tensor_extra(raw))
    data = _constant(raw, tensor, buffers)
    return tensor if data is None else replace(tensor, data=data)


def _quant(raw: Values, shape: tuple[int, ...], repaired: list[str]) -> Quant | None:
    quant = raw["quantization"]
    if quant is None or not quant["scale"]:
        return None
    scale, zero, axis = np.array(quant["scale"], np.float32), quant["zero_point"], quant["quantized_dimension"]
    if len(zero) != len(scale):
        raise Damage(f"{len(zero)} zero points, but {len(scale)} scales", "field zero_point")
    if not np.isfinite(scale).all():
        raise Damage("a scale is infinite or not a number", "field scale")
    _check_zero_points(zero, raw["type"])
    if len(scale) == 1:
        axis = axis if 0 <= axis < len(shape) else 0
    elif not (0 <= axis < len(shape) and shape[axis] == len(scale)):
        if shape != (len(scale),):
            what = f"{len(scale)} scales along axis {axis} do not fit shape {list(shape)}"
            raise Damage(what, "field quantized_dimension")
        repaired.append(raw["name"])
        axis = 0
    return Quant(scale, np.array(zero, np.int64), axis)


def _constant(raw: Values, tensor: Tensor, buffers: Buffers) -> NDArray[Any] | None:
    """The tensor's value as a view of its buffer; None if it has none."""
    if raw["external_buffer"]:
        reason = "the value lies in another file (external buffer); store it in the model"
        raise Damage(reason, "field external_buffer")
    data = pick_buffer(buffers, raw["buffer"])
    if data is None or (not data.size and (tensor.type not in DTYPES or tensor.size)):
        return None  # an empty buffer says the same as none, unless there is nothing to store
    if tensor.variable:
        raise Damage("a variable tensor cannot have a constant value", "field buffer")
    if raw["sparsity"] or not (tensor.type in DTYPES or tensor.type in PACKED_BITS):
        return data
    _check_length(data, tensor)
    return data.view(tensor.dtype).reshape(tensor.shape) if tensor.type in DTYPES else data


def _shape(dimensions: tuple[int, ...], type: str) -> tuple[int, ...]:
    """The checked shape: no product of it overflows."""
    if len(dimensions) > MAX_RANK:
        raise Damage(f"{len(dimensions)} dimensions, at most {MAX_RANK} are possible", "field shape")
    size = DTYPES[type].itemsize if type in DTYPES else 1
    for dimension in dimensions:
        if dimension < 0:
            raise Damage(f"dimension {dimension} in {list(dimensions)} is negative", "field shape")
        size *= max(dimension, 1)
    if size > MAX_BYTES:
        raise Damage(f"{type}{list(dimensions)} is larger than any memory", "field shape")
    return dimensions


def _shape_signature(signature: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    if not signature or min(signature) >= 0:
        return ()
    if len(signature) != len(shape) or min(signature) < -1:
        raise Damage(f"{list(signature[:MAX_RANK])} does not fit shape {list(shape)}", "field shape_signature")
    return signature


def _check_zero_points(zero: tuple[int, ...], type: str) -> None:
    bits = PACKED_BITS.get(type)
    if bits is not None and "INT" in type:
        low, high = (0, (1 << bits) - 1) if type.startswith("U") else (-(1 << bits - 1), (1 << bits - 1) - 1)
    elif type in LIMITS:
        low, high = LIMITS[type]
    else:
        return
    for value in (min(zero), max(zero)):
        if not low <= value <= high:
            raise Damage(f"zero point {value} is outside of {type} ({low} to {high})", "field zero_point")


def _check_length(data: NDArray[np.uint8], tensor: Tensor) -> None:
    if data.size != tensor.nbytes:
        what = f"{tensor.type}{list(tensor.shape)} takes {tensor.nbytes} bytes, the buffer has {data.size}"
        raise Damage(what, "field buffer")
    if tensor.type == "BOOL" and data.size and data.max() > 1:
        raise Damage(f"a bool is 0 or 1, the buffer has {data.max()}", "field buffer")


def _tensor_extra(raw: Values) -> Mapping[str, Any]:
    """What has no place in ``Tensor``: calibration ranges, sparsity, the subtypes of variants."""
    quant = raw["quantization"] or {}
    extra = {key: quant[key] for key in ("min", "max") if quant.get(key)}
    for key in ("has_rank", "sparsity", "variant_tensors"):
        if raw[key]:
            extra[key] = _plain(raw[key])
    if raw["sparsity"] and len(raw["sparsity"]["dim_metadata"]) != len(raw["sparsity"]["traversal_order"]):
        raise Damage("traversal_order and dim_metadata have different lengths", "field sparsity")
    return MappingProxyType(extra) if extra else EMPTY


def _plain(value: Any) -> Any:
    """The value with copies in place of views of the file."""
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


def _details(details: tuple[str, Values], tensors: Sequence[Tensor], raws: Sequence[Values]) -> tuple[str, Values]:
    """Quantisation details, where the scales are tensors themselves: indices become tensors (-1: None)."""
    kind, values = details
    resolved = dict(values)
    if kind == "CustomQuantization":
        return kind, {"custom": bytes(values["custom"] or b"")}
    for field in ("scales", "zero_points"):
        index = values[field]
        resolved[field] = pick_optional(tensors, [index], field)[0]
        if index != -1 and raws[index]["quantization"] and raws[index]["quantization"]["details"]:
            raise Damage(f"tensor {index} has quantisation details itself", f"field {field}")
    return kind, resolved
