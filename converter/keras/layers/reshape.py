"""Layers that move elements, cut, pad and repeat them, and resize images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.emit.products import as_image
from twinfer.converter.keras.call import Call
from twinfer.runtime.graph import Tensor

Pairs = list[tuple[int, int]]


def reshape(g: Emitter, call: Call) -> Tensor:
    call.channels_last()
    return g.reshape(call.input(), call.shape)


def repeat_vector(g: Emitter, call: Call) -> Tensor:
    x = call.input()
    line = g.reshape(x, (x.shape[0], 1, x.shape[1]))
    return g.emit("TILE", [line, np.array([1, call.layer.n, 1], np.int32)], call.shape)


def _pairs(value: Any) -> Pairs:
    rows = value if isinstance(value[0], Sequence) else [value]
    return [(int(a), int(b)) for a, b in rows]


def zero_padding(g: Emitter, call: Call) -> Tensor:
    call.channels_last()
    return g.pad(call.input(), [(0, 0), *_pairs(call.layer.padding), (0, 0)])


def cropping(g: Emitter, call: Call) -> Tensor:
    call.channels_last()
    return g.part(call.input(), (0, *(before for before, _ in _pairs(call.layer.cropping)), 0), call.shape)


def center_crop(g: Emitter, call: Call) -> Tensor:
    call.channels_last()
    x, size = call.input(), call.shape[1:3]
    call.need(all(new <= old for new, old in zip(size, x.shape[1:3], strict=True)), "images that are too small for it")
    begin = ((old - new) // 2 for new, old in zip(size, x.shape[1:3], strict=True))
    return g.part(x, (0, *begin, 0), call.shape)


def up_sampling_2d(g: Emitter, call: Call) -> Tensor:
    call.channels_last()
    mode = call.layer.interpolation
    call.need(mode in ("nearest", "bilinear"), f"interpolation {mode}; use nearest or bilinear")
    return _resized(g, call.input(), call.shape[1:3], mode)


def resizing(g: Emitter, call: Call) -> Tensor:
    call.channels_last()
    own = call.layer
    call.need(own.interpolation in ("nearest", "bilinear"), f"interpolation {own.interpolation}; use bilinear")
    for name in ("crop_to_aspect_ratio", "pad_to_aspect_ratio", "antialias"):
        call.need(not getattr(own, name, False), f"{name}; resize without it")
    x = call.input()
    if own.interpolation == "nearest":
        whole = all(new % old == 0 for new, old in zip(call.shape[1:3], x.shape[1:3], strict=True))
        call.need(whole, "nearest by a factor that is no whole number, for which Keras's backends differ; use bilinear")
    return _resized(g, x, call.shape[1:3], own.interpolation)


def _resized(g: Emitter, x: Tensor, size: Sequence[int], mode: str) -> Tensor:
    """With half-pixel centres, as Keras has them."""
    op = "RESIZE_NEAREST_NEIGHBOR" if mode == "nearest" else "RESIZE_BILINEAR"
    shape = (x.shape[0], *map(int, size), x.shape[3])
    return g.emit(op, [x, np.array(size, np.int32)], shape, align_corners=False, half_pixel_centers=True)


IMPORTERS = {
    "CenterCrop": center_crop,
    "Cropping1D": cropping,
    "Cropping2D": cropping,
    "Flatten": reshape,
    "Permute": lambda g, call: g.transpose(call.input(), (0, *call.layer.dims)),
    "RepeatVector": repeat_vector,
    "Reshape": reshape,
    "Resizing": resizing,
    "UpSampling1D": lambda g, call: as_image(g, call.input(), lambda x: _resized(g, x, (1, call.shape[1]), "nearest")),
    "UpSampling2D": up_sampling_2d,
    "ZeroPadding1D": zero_padding,
    "ZeroPadding2D": zero_padding,
}
