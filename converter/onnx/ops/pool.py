"""Pools: MAX_POOL_2D, AVERAGE_POOL_2D and L2_POOL_2D over one to three dimensions, and reductions over whole images."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate, product

import numpy as np

from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.emit.functions import number
from twinfer.converter.onnx.node import Importer, OnnxNode, Shape
from twinfer.converter.onnx.window import Floats, Window, channels_last, pool, pool_window, sums, window_of
from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Tensor


def max_pool(g: Emitter, node: OnnxNode) -> list[Tensor | None]:
    x, window = node.input(0), pool_window(node)
    kind = x.type
    if kind not in ("FLOAT32", "INT8", "INT16", "UINT8") or (x.dtype.kind != "f" and not g.quantised(x)):
        x, kind = g.cast(x, "FLOAT32"), x.type  # TFLite pools integers that are quantised
    # beside values that are never negative, zeros do as well as -infinity, and can be quantised
    least = 0.0 if g.nonnegative(x) else -np.inf
    least = least if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    y = channels_last(g, x, lambda image: pool(g, "MAX_POOL_2D", image, window, least))
    told = len(node.outputs) > 1 and node.outputs[1]
    return [g.cast(y, kind), _indices(g, node, x, window) if told else None]


def _indices(g: Emitter, node: OnnxNode, x: Tensor, window: Window) -> Tensor:
    """Where in the whole of x [n, c, *spatial] the greatest element of every window is: which tap it is, by ARG_MAX
    over a table of all windows, and where that tap lies."""
    n, c, *size = x.shape
    out, extents = window.outputs(tuple(size)), [e + sum(pad) for e, pad in zip(size, window.pads, strict=True)]
    taps = math.prod(window.kernel)
    g.budget.take(4 * taps * math.prod(out), "a table of its windows")
    ends = list(zip(out, window.strides, window.kernel, window.dilations, strict=True))
    steps = _steps(extents)
    corners = _places([np.arange(o) * s for o, s, _, _ in ends], steps)
    offsets = _places([np.arange(k) * d for _, _, k, d in ends], steps)
    lowest = -np.finfo(np.float32).max if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    padded = g.reshape(g.pad(x, [(0, 0), (0, 0), *window.pads], lowest), (n, c, math.prod(extents)))
    tap = g.emit("ARG_MAX", [g.gather(padded, corners[:, None] + offsets, 2), np.array(-1, np.int32)],
                 (n, c, corners.size), "INT32", output_type="INT32")  # fmt: skip
    # the same places in x itself, where the corner of a window may lie before the first element
    steps = _steps(size[::-1])[::-1] if node.attribute("storage_order", 0) else _steps(size)
    corners = _places([np.arange(o) * s - p[0] for (o, s, _, _), p in zip(ends, window.pads, strict=True)], steps)
    offsets = _places([np.arange(k) * d for _, _, k, d in ends], steps)
    at = g.binary("ADD", g.emit("GATHER", [offsets.astype(np.int32), tap], tap.shape, axis=0), corners.astype(np.int32))
    if n * c > 1:
        images = np.arange(n * c, dtype=np.int32).reshape(n, c, 1) * np.int32(math.prod(size))
        at = g.binary("ADD", at, images)
    return g.cast(g.reshape(at, (n, c, *out)), "INT64")


def _steps(size: list[int]) -> list[int]:
    """Elements from one to the next along each dimension."""
    return [*accumulate([1, *size[:0:-1]], lambda a, b: a * b)][::-1]


def _places(axes: list[np.ndarray], steps: list[int]) -> np.ndarray:
    """Places of all combinations of positions along the axes."""
    return np.array([sum(p * s for p, s in zip(at, steps, strict=True)) for at in product(*axes)], np.int64)


def max_unpool(g: Emitter, node: OnnxNode) -> Tensor:
    """Values at their places among zeros. Places count in the tensor that the window tells, around which
    ``output_shape`` has more zeros."""
    x, places, wanted = node.input(0), node.input(1), node.ints("output_shape", 2)
    size = x.shape[2:]
    window = window_of(node, tuple(node.attribute("kernel_shape", ())), size)
    rows = zip(size, window.strides, window.pads, window.kernel, strict=True)
    shape = (*x.shape[:2], *((n - 1) * s - sum(pads) + k for n, s, pads, k in rows))
    at = g.reshape(g.cast(places, "INT32"), (x.size, 1))
    total = np.array([math.prod(shape)], np.int32)
    y = g.emit("SCATTER_ND", [at, g.reshape(x, (x.size,)), total], (math.prod(shape),), x.type)
    y = g.reshape(y, shape)
    if wanted is None or tuple(wanted) == shape:
        return y
    if len(wanted) != len(shape) or any(n < d for n, d in zip(wanted, shape, strict=True)):
        raise ModelError(f"{node}: output_shape {list(wanted)} is smaller than {list(shape)}")
    return g.pad(y, [(0, n - d) for n, d in zip(wanted, shape, strict=True)])


def average_pool(g: Emitter, node: OnnxNode) -> Tensor:
    """TFLite's SAME leaves the padding out of the average; where ONNX counts otherwise, a constant corrects it."""
    window, size = pool_window(node), node.input(0).shape[2:]
    padded = (extent + sum(pads) for extent, pads in zip(size, window.pads, strict=True))
    g.budget.afford(8 * math.prod(padded), "the count of elements in its windows")
    window.outputs(size)
    counted, inside = _counts(node, window, size), sums(np.pad(np.ones(size), window.pads), window)

    def run(x: Tensor) -> Tensor:
        plain = window.undilated and (window.unpadded or window.same(size))
        if plain and (counted == inside).all():
            return pool(g, "AVERAGE_POOL_2D", x, window)
        image, ratio = g.pad(x, [(0, 0), *window.pads, (0, 0)]), math.prod(window.kernel) / counted
        y = pool(g, "AVERAGE_POOL_2D", image, window.inside())
        return y if (ratio == 1).all() else g.binary("MUL", y, ratio[None, ..., None].astype(x.dtype))

    return channels_last(g, node.input(0), run)


def _counts(node: OnnxNode, window: Window, size: Shape) -> Floats:
    """Elements that every output is divided by; padding that ceil_mode adds never counts."""
    if not node.attribute("count_include_pad", 0):
        return sums(np.pad(np.ones(size), window.pads), window)
    explicit = window_of(node, window.kernel, size).pads
    ones = np.pad(np.ones(size), explicit, constant_values=1)
    rest = [(0, p[1] - e[1]) for p, e in zip(window.pads, explicit, strict=True)]
    return sums(np.pad(ones, rest), window)


def lp_pool(g: Emitter, node: OnnxNode) -> Tensor:
    """The p-norm of every window: its mean of powers times its taps, to the power of 1 / p."""
    window, p = pool_window(node), int(node.attribute("p", 2))
    taps = math.prod(window.kernel)

    def run(x: Tensor) -> Tensor:
        image, inside = g.pad(x, [(0, 0), *window.pads, (0, 0)]), window.inside()
        if p == 2:
            return g.binary("MUL", pool(g, "L2_POOL_2D", image, inside), number(math.sqrt(taps)))
        total = pool(g, "AVERAGE_POOL_2D", _power(g, g.unary("ABS", image), p), inside)
        return _power(g, g.binary("MUL", total, number(taps)), 1 / p)

    return channels_last(g, node.input(0), run)


def _power(g: Emitter, x: Tensor, p: float) -> Tensor:
    return x if p == 1 else g.binary("POW", x, number(p))


def global_lp_pool(g: Emitter, x: Tensor, p: int) -> Tensor:
    if p == 2:
        return g.unary("SQRT", _everywhere(g, "SUM", g.binary("MUL", x, x)))
    return _power(g, _everywhere(g, "SUM", _power(g, g.unary("ABS", x), p)), 1 / p)


def _everywhere(g: Emitter, op: str, x: Tensor) -> Tensor:
    """A reduction of [n, *spatial, c] over all spatial dimensions, each of which becomes one."""
    axes = range(1, len(x.shape) - 1)
    return g.emit(op, [x, np.array(axes, np.int32)], (x.shape[0], *(1 for _ in axes), x.shape[-1]), keep_dims=True)


def _globally(run: Callable[[Emitter, OnnxNode, Tensor], Tensor]) -> Callable[[Emitter, OnnxNode], Tensor]:
    return lambda g, node: channels_last(g, node.input(0), lambda x: run(g, node, x))


global_average_pool = _globally(lambda g, node, x: _everywhere(g, "MEAN", x))

IMPORTERS: dict[str, Importer] = {
    "MaxPool": max_pool,
    "MaxUnpool": max_unpool,
    "AveragePool": average_pool,
    "LpPool": lp_pool,
    "GlobalAveragePool": global_average_pool,
    "GlobalMaxPool": _globally(lambda g, node, x: _everywhere(g, "REDUCE_MAX", x)),
    "GlobalLpPool": _globally(lambda g, node, x: global_lp_pool(g, x, int(node.attribute("p", 2)))),
}
