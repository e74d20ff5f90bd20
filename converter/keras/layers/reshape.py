"""Layers that move elements, cut, pad and repeat them, and resize images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.emit.products import as_image
from twinfer.converter.keras.call import Call, Importer, any_order
from twinfer.converter.keras.resize import Resize, resized
from twinfer.runtime.graph import Tensor

Pairs = list[tuple[int, int]]


def reshape(g: Emitter, call: Call) -> Tensor:
    return g.reshape(call.input(), call.shape)


def repeat_vector(g: Emitter, call: Call) -> Tensor:
    x = call.input()
    line = g.reshape(x, (x.shape[0], 1, x.shape[1]))
    return g.emit("TILE", [line, np.array([1, call.layer.n, 1], np.int32)], call.shape)


def _pairs(value: Any) -> Pairs:
    rows = value if isinstance(value[0], Sequence) else [value]
    return [(int(a), int(b)) for a, b in rows]


def zero_padding(g: Emitter, call: Call) -> Tensor:
    return g.pad(call.input(), [(0, 0), *_pairs(call.layer.padding), (0, 0)])


def cropping(g: Emitter, call: Call) -> Tensor:
    return g.part(call.input(), (0, *(before for before, _ in _pairs(call.layer.cropping)), 0), call.shape)


def center_crop(g: Emitter, call: Call) -> Tensor:
    """Images that are too small are resized, as Resizing with crop_to_aspect_ratio does."""
    x, size = call.input(), call.shape[1:3]
    if any(new > old for new, old in zip(size, x.shape[1:3], strict=True)):
        return resized(g, x, size, Resize(crop=True))
    begin = ((old - new) // 2 for new, old in zip(size, x.shape[1:3], strict=True))
    return g.part(x, (0, *begin, 0), call.shape)


def up_sampling_1d(g: Emitter, call: Call) -> Tensor:
    return as_image(g, call.input(), lambda x: resized(g, x, (1, call.shape[1]), Resize("nearest")))


def up_sampling_2d(g: Emitter, call: Call) -> Tensor:
    return resized(g, call.input(), call.shape[1:3], Resize(call.layer.interpolation))


def up_sampling_3d(g: Emitter, call: Call) -> Tensor:
    """Rows and columns of all planes, then the planes."""
    n, d, h, w, c = call.input().shape
    depth, *size = call.shape[1:4]
    y = resized(g, g.reshape(call.input(), (n * d, h, w, c)), size, Resize("nearest"))
    z = resized(g, g.reshape(y, (n, d, 1, math.prod(y.shape[1:]))), (depth, 1), Resize("nearest"))
    return g.reshape(z, call.shape)


def resizing(g: Emitter, call: Call) -> Tensor:
    own = call.layer
    how = Resize(own.interpolation, own.antialias, own.crop_to_aspect_ratio, own.pad_to_aspect_ratio, own.fill_value)
    x = call.input()
    if len(x.shape) == 3:  # one image
        return g.reshape(resized(g, g.reshape(x, (1, *x.shape)), call.shape[:2], how), call.shape)
    return resized(g, x, call.shape[1:3], how)


IMPORTERS: dict[str, Importer] = {
    "CenterCrop": any_order(center_crop),
    **{f"Cropping{rank}D": any_order(cropping) for rank in (2, 3)},
    "Cropping1D": cropping,
    "Flatten": any_order(reshape),
    "Permute": lambda g, call: g.transpose(call.input(), (0, *call.layer.dims)),
    "RepeatVector": repeat_vector,
    "Reshape": reshape,
    "Resizing": any_order(resizing),
    "UpSampling1D": up_sampling_1d,
    "UpSampling2D": any_order(up_sampling_2d),
    "UpSampling3D": any_order(up_sampling_3d),
    **{f"ZeroPadding{rank}D": any_order(zero_padding) for rank in (1, 2, 3)},
    "ops.Resize": any_order(resizing),
}
