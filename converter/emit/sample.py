"""Images read between their pixels, at places that are known at run time: a GATHER of pixels around, and weights."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.emit.emitter import Emitter, constant
from twinfer.converter.emit.functions import number
from twinfer.converter.emit.products import fully_connected, product
from twinfer.runtime.graph import Tensor

Floats = NDArray[np.float32]

#: Weights of the taps around a place as polynomials of its distance from the pixel before: [taps, powers from 0 up].
#: Source of the cubic ones: R. Keys, Cubic convolution interpolation for digital image processing, 1981; a = -0.75.
LINEAR = np.array([[1, -1], [0, 1]], np.float32)
CUBIC = np.array([[0, -0.75, 1.5, -0.75], [1, 0, -2.25, 1.25], [0, 0.75, 1.5, -1.25], [0, 0, -0.75, 0.75]], np.float32)


def sample(
    g: Emitter,
    x: Tensor,
    at: Tensor,
    mode: str = "linear",
    padding: str = "zeros",
    *,
    aligned: bool = False,
    last_first: bool = False,
) -> Tensor:
    """Pixels of x [n, *spatial, c] at places [n, m, spatial dimensions], counted in pixels: [n, m, c].

    ``mode``: nearest, linear or cubic. ``padding``: of what lies outside, zeros, border, or reflection at the centres
    of the outermost pixels (``aligned``) or at their edges. ``last_first``: places name the last dimension first.
    """
    n, c, (_, m, rank) = x.shape[0], x.shape[-1], at.shape
    if padding == "zeros":  # an edge of zeros, where all places outside end
        x = g.pad(x, [(0, 0), *[(1, 1)] * rank, (0, 0)])
    size = x.shape[1:-1]
    steps = np.array([math.prod(size[i + 1 :]) for i in range(rank)], np.int32)[:: -1 if last_first else 1, None]
    extents = np.array(size, np.float32)[:: -1 if last_first else 1, None]
    pixels, weights = _taps(g, g.reshape(at, (n, m, rank, 1)), extents, mode, padding, aligned)
    index = _crossed(g, "ADD", g.binary("MUL", g.cast(pixels, "INT32"), steps))
    if n > 1:
        first = np.arange(n, dtype=np.int32).reshape(n, 1, 1, 1) * np.int32(math.prod(size))
        index = g.binary("ADD", index, first)
    count = math.prod(index.shape[2:])
    rows = g.reshape(x, (n * math.prod(size), c))
    seen = g.emit("GATHER", [rows, index], (*index.shape, c), axis=0)
    if weights is not None:
        weights = g.reshape(_crossed(g, "MUL", weights), (n * m, 1, count))
        seen = product(g, weights, g.reshape(seen, (n * m, count, c)))
    return g.reshape(seen, (n, m, c))


def _crossed(g: Emitter, op: str, x: Tensor) -> Tensor:
    """[n, m, rank, taps] -> [n, m, taps^(rank - 1), taps]: every tap of one dimension with every one of the others."""
    n, m, rank, taps = x.shape
    parts = [g.part(x, (0, 0, i, 0), (n, m, 1, taps)) for i in range(rank)]
    return reduce(lambda a, b: g.binary(op, g.reshape(a, (n, m, math.prod(a.shape[2:]), 1)), b), parts)


def _taps(
    g: Emitter, place: Tensor, size: Floats, mode: str, padding: str, aligned: bool
) -> tuple[Tensor, Tensor | None]:
    """The pixels around each place [n, m, rank, 1] along each dimension, [n, m, rank, taps], and their weights."""
    place = g.unary("ROUND", place) if mode == "nearest" else place
    if padding == "zeros":
        place = g.binary("ADD", place, number(1))
    if mode == "nearest":
        return _bounded(g, place, size, padding, aligned), None
    if mode == "cubic":
        table, low = CUBIC, g.unary("FLOOR", place)
        pixels = g.binary("ADD", low, np.arange(-1, 3, dtype=np.float32))
        pixels = _bounded(g, pixels, size, padding, aligned)
    else:
        table, place = LINEAR, _bounded(g, place, size, padding, aligned)
        low = g.binary("MINIMUM", g.unary("FLOOR", place), np.maximum(size - 2, 0))
        pixels = g.binary("ADD", low, np.minimum(size - 1, np.array([0, 1], np.float32)))
    powers = [g.binary("SUB", place, low)]
    for _ in range(table.shape[1] - 2):
        powers.append(g.binary("MUL", powers[-1], powers[0]))
    return pixels, fully_connected(g, g.concat(powers, 3), constant(table[:, 1:]), constant(table[:, 0]))


def _bounded(g: Emitter, place: Tensor, size: Floats, padding: str, aligned: bool) -> Tensor:
    """Places, or whole pixels, inside an image of this size."""
    if padding == "reflection":
        low, span = (0.0, np.maximum(size - 1, 1)) if aligned else (-0.5, size)
        turned = g.binary("FLOOR_MOD", g.binary("SUB", place, number(low)), 2 * span)
        place = g.binary("SUB", span + np.float32(low), g.unary("ABS", g.binary("SUB", turned, span)))
    return g.binary("MINIMUM", g.binary("MAXIMUM", place, number(0)), size - 1)
