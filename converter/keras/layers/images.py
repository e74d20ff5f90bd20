"""Operations of ``keras.ops.image``, made of others of ``keras.ops``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from twinfer.converter.keras.call import composed
from twinfer.converter.keras.resize import kernel
from twinfer.runtime.errors import UnsupportedOperatorError

ops = keras.ops


def last(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function over images [n, h, w, c], also for a single one, and for those with the channels in front."""

    def run(own: Any, *images: Any, **more: Any) -> Any:
        rank = len(images[0].shape)
        first = (getattr(own, "data_format", None) or keras.config.image_data_format()) == "channels_first"
        given = [ops.expand_dims(x, 0) if rank == 3 else x for x in images]
        y = function(own, *[ops.transpose(x, (0, 2, 3, 1)) if first else x for x in given], **more)
        if first and len(y.shape) >= 4:
            y = ops.transpose(y, (0, 3, 1, 2, *range(4, len(y.shape))))
        return ops.squeeze(y, 0) if rank == 3 and len(y.shape) >= 4 else y

    return run


def grayscale(own: Any, x: Any) -> Any:
    return ops.matmul(x, np.array([[0.2989], [0.587], [0.114]], np.float32)) if x.shape[-1] == 3 else x


def hsv(own: Any, x: Any) -> Any:
    r, g, b = (x[..., i] for i in range(3))
    value, least = ops.max(x, axis=-1), ops.min(x, axis=-1)
    span = value - least
    share = 1.0 / (ops.where(span > 0, span, 1.0) * 6.0)
    hue = ops.where(ops.equal(value, g), share * (b - r) + 2 / 6, share * (r - g) + 4 / 6)
    hue = ops.where(ops.equal(value, r), share * (g - b), hue)
    hue = ops.where(span > 0, hue, 0.0) + ops.cast(hue < 0, "float32")
    saturation = ops.where(value > 0, span / ops.where(value > 0, value, 1.0), 0.0)
    return ops.stack([hue, saturation, value], axis=-1)


def rgb(own: Any, x: Any) -> Any:
    hue, saturation, value = (x[..., i] for i in range(3))
    turn = (hue - ops.floor(hue)) * 6.0
    shares = (
        ops.clip(ops.abs(turn - 3.0) - 1.0, 0.0, 1.0),
        ops.clip(2.0 - ops.abs(turn - 2.0), 0.0, 1.0),
        ops.clip(2.0 - ops.abs(turn - 4.0), 0.0, 1.0),
    )
    return ops.stack([value * (saturation * share + (1.0 - saturation)) for share in shares], axis=-1)


def _mirrored(index: Any, size: int) -> Any:
    half = max(size - 1, 1)
    return ops.abs(ops.mod(index + half, 2 * half) - half)


#: Which index stands for one outside.
OUTSIDE: dict[str, Callable[[Any, int], Any]] = {
    "constant": lambda index, size: ops.clip(index, 0, size - 1),
    "nearest": lambda index, size: ops.clip(index, 0, size - 1),
    "wrap": lambda index, size: ops.mod(index, size),
    "mirror": _mirrored,
    "reflect": lambda index, size: ops.floor_divide(_mirrored(index * 2 + 1, 2 * size + 1) - 1, 2),
}


def sampled(rows: Any, sizes: Sequence[int], places: Sequence[Any], start: Any, how: tuple[int, str, Any]) -> Any:
    """Rows [product of sizes, …] at these places, one tensor for each size, from the row ``start`` on: each a mean of
    the neighbours by distance (order 1), or the nearest (order 0)."""
    order, mode, fill = how
    if mode not in OUTSIDE:
        raise UnsupportedOperatorError(f"fill_mode {mode!r}; use {', '.join(OUTSIDE)}")
    choices = []
    for place in map(ops.convert_to_tensor, places):
        low = ops.floor(place) if order else ops.round(place)
        at, share = ops.cast(low, "int32"), place - low
        choices.append([(at, 1.0 - share), (at + 1, share)] if order else [(at, None)])
    total: Any = None
    for taps in itertools.product(*choices):
        index, weight, inside = start, None, None
        for (at, share), size, step in zip(taps, sizes, _steps(sizes), strict=True):
            index = OUTSIDE[mode](at, size) * step + index
            weight = share if weight is None else weight * share
            if mode == "constant":
                within = ops.logical_and(at >= 0, at < size)
                inside = within if inside is None else ops.logical_and(inside, within)
        value = ops.take(rows, index, axis=0)
        more = (1,) * (len(value.shape) - len(index.shape))
        if inside is not None:
            value = ops.where(ops.reshape(inside, (*inside.shape, *more)), value, np.float32(fill))
        value = value if weight is None else value * ops.reshape(weight, (*weight.shape, *more))
        total = value if total is None else total + value
    return total


def _steps(sizes: Sequence[int]) -> list[int]:
    return [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]


ORDERS = {"nearest": 0, "bilinear": 1}


def _moved(own: Any, x: Any, places: tuple[Any, Any], mode: str) -> Any:
    """Images at places [n, h, w] of rows and columns."""
    n, h, w, c = x.shape
    start = (np.arange(n, dtype=np.int32) * (h * w))[:, None, None]
    how = (ORDERS[own.interpolation], mode, own.fill_value)
    return sampled(ops.reshape(x, (n * h * w, c)), (h, w), places, start, how)


def affine(own: Any, x: Any, transform: Any) -> Any:
    """Every pixel from where the transform [n, 8] of its place says."""
    n, h, w, _ = x.shape
    transform = ops.reshape(ops.convert_to_tensor(transform), (-1, 8, 1, 1))
    a0, a1, a2, b0, b1, b2 = (transform[:, i] for i in range(6))
    rows, columns = np.arange(h, dtype=np.float32)[:, None], np.arange(w, dtype=np.float32)
    zeros = np.zeros((n, h, w), np.float32)
    across = a0 * columns + a1 * rows + a2 + zeros
    down = b0 * columns + b1 * rows + b2 + zeros
    return _moved(own, x, (down, across), own.fill_mode)


def perspective(own: Any, x: Any, start_points: Any, end_points: Any) -> Any:
    if any(isinstance(v, keras.KerasTensor) for v in (start_points, end_points)):
        raise UnsupportedOperatorError("corners that are an input; give them as numbers")
    n, h, w, _ = x.shape
    first, second = (
        np.broadcast_to(np.asarray(keras.ops.convert_to_numpy(v), np.float64).reshape(-1, 4, 2), (n, 4, 2))
        for v in (start_points, end_points)
    )
    rows, columns = np.arange(h)[:, None], np.arange(w)
    places = []
    for start, end in zip(first, second, strict=True):
        lines, targets = [], []
        for (sx, sy), (ex, ey) in zip(start, end, strict=True):
            lines += [[ex, ey, 1, 0, 0, 0, -sx * ex, -sx * ey], [0, 0, 0, ex, ey, 1, -sy * ex, -sy * ey]]
            targets += [sx, sy]
        a = np.linalg.solve(np.array(lines), np.array(targets))
        depth = a[6] * columns + a[7] * rows + 1
        across, down = (a[0] * columns + a[1] * rows + a[2]) / depth, (a[3] * columns + a[4] * rows + a[5]) / depth
        places.append((down, across))
    down, across = (np.stack(part).astype(np.float32) for part in zip(*places, strict=True))
    return _moved(own, x, (down, across), "constant")


def map_coordinates(own: Any, x: Any, coordinates: Any) -> Any:
    coordinates = ops.convert_to_tensor(coordinates)
    places = [coordinates[i] for i in range(len(x.shape))]
    return sampled(ops.reshape(x, (-1,)), x.shape, places, np.int32(0), (own.order, own.fill_mode, own.fill_value))


def _edges(size: int, before: Any, after: Any, target: Any) -> tuple[int, int]:
    """What is added or cut before and after, of which the target may say one."""
    if before is None:
        return size - target - after, after
    return before, size - target - before if after is None else after


def crop_images(own: Any, x: Any) -> Any:
    top, bottom = _edges(x.shape[1], own.top_cropping, own.bottom_cropping, own.target_height)
    left, right = _edges(x.shape[2], own.left_cropping, own.right_cropping, own.target_width)
    return x[:, top : x.shape[1] - bottom, left : x.shape[2] - right]


def pad_images(own: Any, x: Any) -> Any:
    ends = [
        tuple(abs(n) for n in _edges(size, before, after, target))
        for size, before, after, target in (
            (x.shape[1], _negative(own.top_padding), _negative(own.bottom_padding), own.target_height),
            (x.shape[2], _negative(own.left_padding), _negative(own.right_padding), own.target_width),
        )
    ]
    return ops.pad(x, ((0, 0), *ends, (0, 0)))


def _negative(n: int | None) -> int | None:
    return None if n is None else -n


def extract_patches(own: Any, x: Any) -> Any:
    """Patches of two or three dimensions behind each other: [n, rows, columns, kernel * c]."""
    rank = len(x.shape) - 2
    kernel, strides, dilations = (
        (v,) * rank if isinstance(v, int) else tuple(v) for v in (own.size, own.strides or own.size, own.dilation_rate)
    )
    for axis, (k, s, d) in enumerate(zip(kernel, strides, dilations, strict=True)):
        at, size, reach = 1 + 2 * axis, x.shape[1 + 2 * axis], (k - 1) * d + 1
        if str(own.padding).lower() == "same":
            more = max((-(-size // s) - 1) * s + reach - size, 0)
            x = ops.pad(x, [(more // 2, more - more // 2) if i == at else (0, 0) for i in range(len(x.shape))])
            size += more
        places = np.arange((size - reach) // s + 1)[:, None] * s + np.arange(k) * d
        x = ops.take(x, places.astype(np.int32), axis=at)
    order = (0, *range(1, 2 * rank, 2), *range(2, 2 * rank + 1, 2), 2 * rank + 1)
    y = ops.transpose(x, order)
    return ops.reshape(y, (*y.shape[: rank + 1], -1))


def _filtered(x: Any, table: Any, padding: str = "same") -> Any:
    """Every channel by the same kernel."""
    weights = np.repeat(np.asarray(table, np.float32)[:, :, None, None], x.shape[-1], axis=2)
    return ops.depthwise_conv(x, weights, padding=padding, data_format="channels_last")


def _bell(size: int, sigma: float) -> Any:
    x = np.arange(size) - (size - 1) / 2
    table = np.exp(-0.5 * (x / sigma) ** 2)
    return table / table.sum()


def gaussian_blur(own: Any, x: Any) -> Any:
    (height, width), (sigma_x, sigma_y) = own.kernel_size, own.sigma
    return _filtered(x, np.outer(_bell(height, sigma_y), _bell(width, sigma_x)))


def sobel_edges(own: Any, x: Any) -> Any:
    across = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    return ops.stack([_filtered(x, across.T), _filtered(x, across)], axis=-1)


def ssim(own: Any, x: Any, y: Any) -> Any:
    """Source: Wang et al., Image quality assessment: from error visibility to structural similarity, 2004."""
    bell = _bell(own.filter_size, own.filter_sigma)
    table = np.outer(bell, bell)
    a, b, aa, bb, ab = (_filtered(v, table, "valid") for v in (x, y, x * x, y * y, x * y))
    c1, c2 = (own.k1 * own.max_val) ** 2, (own.k2 * own.max_val) ** 2
    light = (a * b * 2.0 + c1) / (a * a + b * b + c1)
    detail = ((ab - a * b) * 2.0 + c2) / (aa - a * a + bb - b * b + c2)
    return ops.mean(light * detail, axis=(1, 2, 3))


def scale_and_translate(own: Any, x: Any, output_shape: Any, scale: Any, translation: Any) -> Any:
    """One product with a matrix for each dimension. Source: JAX's jax.image.scale_and_translate."""
    if any(isinstance(v, keras.KerasTensor) for v in (scale, translation)):
        raise UnsupportedOperatorError("a scale or translation that is an input; give it as numbers")
    scales, moves = (np.asarray(keras.ops.convert_to_numpy(v), np.float64) for v in (scale, translation))
    mode = {
        "linear": "bilinear",
        "triangle": "bilinear",
        "trilinear": "bilinear",
        "cubic": "bicubic",
        "tricubic": "bicubic",
    }
    method = mode.get(own.method, own.method)
    for i, axis in enumerate(own.spatial_dims):
        old, new, step = x.shape[axis], int(output_shape[axis]), 1 / scales[i]
        at = (np.arange(new) + 0.5) * step - moves[i] * step - 0.5
        table = kernel(method, (at[None] - np.arange(old)[:, None]) / (max(step, 1) if own.antialias else 1))
        total = table.sum(0, keepdims=True)
        table = np.where(np.abs(total) > 1e-4, table / np.where(total == 0, 1, total), 0)
        table = np.where((at >= -0.5) & (at <= old - 0.5), table, 0).astype(np.float32)
        x = ops.moveaxis(ops.tensordot(x, table, axes=[[axis], [0]]), -1, axis)
    return x


def elastic(own: Any, x: Any) -> Any:
    if own.alpha:
        raise UnsupportedOperatorError("a random change in prediction; leave it out of the model")
    return x


COMPOSED: dict[str, Callable[..., Any]] = {
    "AffineTransform": lambda own, x, transform: last(lambda own, x: affine(own, x, transform))(own, x),
    "CropImages": last(crop_images),
    "ElasticTransform": elastic,
    "ExtractPatches": last(extract_patches),
    "GaussianBlur": last(gaussian_blur),
    "HSVToRGB": last(rgb),
    "MapCoordinates": map_coordinates,
    "PadImages": last(pad_images),
    "PerspectiveTransform": lambda own, x, a, b: last(lambda own, x: perspective(own, x, a, b))(own, x),
    "RGBToGrayscale": last(grayscale),
    "RGBToHSV": last(hsv),
    "SSIM": last(ssim),
    "ScaleAndTranslate": scale_and_translate,
    "SobelEdges": last(sobel_edges),
}

IMPORTERS = {f"ops.{name}": composed(function) for name, function in COMPOSED.items()}
