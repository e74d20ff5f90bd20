"""Images read at places that are computed: GridSample, AffineGrid, DeformConv."""

from __future__ import annotations

import math

import numpy as np

from twinfer.converter.emit.emitter import Emitter, constant
from twinfer.converter.emit.functions import number
from twinfer.converter.emit.products import product
from twinfer.converter.emit.sample import sample
from twinfer.converter.onnx.node import Importer, OnnxNode
from twinfer.converter.onnx.window import channels_last, window_of
from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Tensor

MODES = {"bilinear": "linear", "bicubic": "cubic"}  # before opset 20


def grid_sample(g: Emitter, node: OnnxNode) -> Tensor:
    """x [n, c, *spatial] at a grid [n, *out, spatial dimensions], -1 to 1 from one end to the other, the last dimension
    of the image first."""
    x, grid = node.input(0), node.input(1)
    rank, mode = len(x.shape) - 2, str(node.attribute("mode", "linear"))
    padding, aligned = str(node.attribute("padding_mode", "zeros")), bool(node.attribute("align_corners", 0))
    if len(grid.shape) != rank + 2 or grid.shape[-1] != rank or grid.shape[0] != x.shape[0]:
        raise ModelError(f"{node}: the grid {list(grid.shape)} does not fit {x}")
    n, *out, _ = grid.shape
    size = np.array(x.shape[:1:-1], np.float32)
    # (grid + 1) / 2 * (size - 1), or ((grid + 1) * size - 1) / 2, rounded alike: the nearest may turn on the last bit
    places = g.binary("ADD", g.reshape(grid, (n, math.prod(out), rank)), number(1))
    places = g.binary("MUL", places, (size - 1) / 2 if aligned else size / 2)
    places = places if aligned else g.binary("SUB", places, number(0.5))

    def run(image: Tensor) -> Tensor:
        y = sample(g, image, places, MODES.get(mode, mode), padding, aligned=aligned, last_first=True)
        return g.reshape(y, (n, *out, image.shape[-1]))

    return channels_last(g, x, run)


def affine_grid(g: Emitter, node: OnnxNode) -> Tensor:
    """The grid that GridSample takes, of theta [n, rank, rank + 1] times every place of the result and 1."""
    theta, size = node.input(0), node.constant(1)
    shape = tuple(int(v) for v in np.asarray(size).reshape(-1))
    rank, aligned = len(shape) - 2, bool(node.attribute("align_corners", 0))
    if theta.shape != (shape[0], rank, rank + 1):
        raise ModelError(f"{node}: theta {list(theta.shape)} does not fit the size {list(shape)}")
    g.budget.afford(4 * (rank + 1) * math.prod(shape[2:]), "a table of its places")
    ends = [1 if aligned else 1 - 1 / n for n in shape[2:]]
    places = np.meshgrid(*(np.linspace(-e, e, n) for e, n in zip(ends, shape[2:], strict=True)), indexing="ij")
    table = np.stack([*places[::-1], np.ones(shape[2:])], -1).reshape(1, -1, rank + 1)
    base = constant(table.astype(np.float32))
    return g.reshape(product(g, base, theta, adjoint=True), (shape[0], *shape[2:], rank))


def deform_conv(g: Emitter, node: OnnxNode) -> Tensor:
    """A convolution whose taps read x at places of their own: all of them by ``sample``, then a product."""
    x, w, offset, mask = node.input(0), node.input(1), node.input(2), node.optional(4)
    n, c, *size = x.shape
    groups, own = int(node.attribute("group", 1)), int(node.attribute("offset_group", 1))
    node.need(len(size) == 2, f"{len(size)} spatial dimensions; two have a form in TFLite's operators")
    window = window_of(node, w.shape[2:], tuple(size))
    out, taps = window.outputs(tuple(size)), math.prod(window.kernel)
    if c % own or c % groups or w.shape[1] * groups != c or offset.shape != (n, own * taps * 2, *out):
        raise ModelError(f"{node}: weights {list(w.shape)} and offsets {list(offset.shape)} do not fit {x}")
    pixels, each = math.prod(out), c // own
    # [n, own * taps * 2, *out] -> [n, pixels, own * taps, 2], beside where the taps of a plain convolution are
    moved = g.transpose(g.reshape(offset, (n, own * taps, 2, pixels)), (0, 3, 1, 2))
    ends = zip(out, window.strides, window.pads, window.kernel, window.dilations, strict=True)
    lines = [(np.arange(o)[:, None] * s - p[0], np.arange(k) * d) for o, s, p, k, d in ends]
    rows, columns = (first + step for first, step in lines)
    both = np.broadcast_arrays(rows[:, None, :, None], columns[None, :, None, :])
    plain = np.stack([v.reshape(pixels, taps) for v in both], -1)
    places = g.binary("ADD", moved, np.tile(plain, (1, own, 1)).astype(np.float32))

    def run(image: Tensor) -> Tensor:
        seen = _sampled(g, image, places, own)  # [n, pixels, own * taps, each]
        if mask is not None:
            factor = g.transpose(g.reshape(mask, (n, own * taps, pixels)), (0, 2, 1))
            seen = g.binary("MUL", seen, g.reshape(factor, (n, pixels, own * taps, 1)))
        seen = g.transpose(g.reshape(seen, (n * pixels, own, taps, each)), (0, 1, 3, 2))
        flat = g.reshape(seen, (n, *out, c * taps))
        weights = g.reshape(w, (w.shape[0], 1, 1, c // groups * taps))
        bias = node.optional(3) or np.zeros(w.shape[0], np.float32)
        shape = (n, *out, w.shape[0])
        return g.emit("CONV_2D", [flat, weights, bias], shape, padding="VALID", stride_h=1, stride_w=1)

    return channels_last(g, x, run)


def _sampled(g: Emitter, x: Tensor, places: Tensor, own: int) -> Tensor:
    """Of x [n, h, w, c] the pixels at places [n, pixels, own * taps, 2]: [n, pixels, own * taps, c / own]. Each of so
    many groups of channels has places of its own."""
    n, h, w, c = x.shape
    pixels, taps, each = places.shape[1], places.shape[2] // own, c // own
    x = g.reshape(g.transpose(g.reshape(x, (n, h * w, own, each)), (0, 2, 1, 3)), (n * own, h, w, each))
    at = g.transpose(g.reshape(places, (n, pixels, own, taps * 2)), (0, 2, 1, 3))
    y = sample(g, x, g.reshape(at, (n * own, pixels * taps, 2)))
    y = g.transpose(g.reshape(y, (n, own, pixels, taps * each)), (0, 2, 1, 3))
    return g.reshape(y, (n, pixels, own * taps, each))


IMPORTERS: dict[str, Importer] = {"AffineGrid": affine_grid, "DeformConv": deform_conv, "GridSample": grid_sample}
