"""Convolutions and transposed convolutions with one to three spatial dimensions. One gets a height of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.emit.emitter import Emitter, Shape, constant
from twinfer.converter.emit.products import as_image, spread, transpose_conv
from twinfer.converter.emit.volumes import conv_3d, transpose_conv_3d
from twinfer.converter.keras.call import Call, Importer, any_order, array
from twinfer.runtime.graph import Tensor

Floats = NDArray[np.float32]


def each(value: Any, rank: int) -> Shape:
    """One number for each of so many dimensions."""
    return tuple(int(v) for v in value) if isinstance(value, list | tuple) else (int(value),) * rank


@dataclass(frozen=True)
class Steps:
    """Strides, dilations and padding, with a height of one for a single spatial dimension."""

    strides: Shape
    dilations: Shape
    padding: str

    @classmethod
    def of(cls, own: Any, rank: int) -> Steps:
        lead = (1,) * (rank == 1)
        return cls((*lead, *each(own.strides, rank)), (*lead, *each(own.dilation_rate, rank)), str(own.padding).lower())

    def outputs(self, size: Shape, kernel: Shape) -> Shape:
        rows = zip(size, kernel, self.strides, self.dilations, strict=True)
        if self.padding == "same":
            return tuple(-(-n // s) for n, _, s, _ in rows)
        return tuple((n - (k - 1) * d - 1) // s + 1 for n, k, s, d in rows)


def _image_weight(w: Floats) -> Floats:
    """[*kernel, a, b] with a height of one if it has none."""
    return w if w.ndim > 3 else w[None]


def convolution(g: Emitter, x: Tensor, w: Floats, bias: Floats | None, steps: Steps) -> Tensor:
    """Of x [n, *spatial, c] with w [*kernel, c / groups, out]: a depthwise one where every group reads one channel and
    there are several; else CONV_2D, which knows groups."""
    w = _image_weight(w)
    if w.ndim == 5:
        addend = np.zeros(w.shape[-1], np.float32) if bias is None else bias
        padding = "SAME" if steps.padding == "same" else "VALID"
        return conv_3d(g, x, constant(w, f"{g.place}/kernel"), addend, steps.strides, steps.dilations, padding)
    if w.shape[2] == 1 and x.shape[-1] > 1:
        weights, depthwise = constant(w.transpose(2, 0, 1, 3)), True
    else:
        weights, depthwise = constant(w.transpose(3, 0, 1, 2)), False
    return as_image(g, x, lambda image: _windowed(g, image, (weights, bias), steps, depthwise))


def _windowed(g: Emitter, x: Tensor, w: tuple[Tensor, Floats | None], steps: Steps, depthwise: bool) -> Tensor:
    """CONV_2D with weights [out, kh, kw, in], or DEPTHWISE_CONV_2D with [1, kh, kw, out], and bias [out]."""
    weights, bias = w
    kernel, out = weights.shape[1:3], weights.shape[3 if depthwise else 0]
    strides, dilations = steps.strides, steps.dilations
    if steps.padding == "causal":
        x = g.pad(x, [(0, 0), (0, 0), ((kernel[1] - 1) * dilations[1], 0), (0, 0)])
    shape = (x.shape[0], *steps.outputs(x.shape[1:3], kernel), out)
    padding = "SAME" if steps.padding == "same" else "VALID"
    options: dict[str, Any] = {"padding": padding, "stride_h": strides[0], "stride_w": strides[1]}
    options |= {"dilation_h_factor": dilations[0], "dilation_w_factor": dilations[1]}
    if depthwise:
        options["depth_multiplier"] = out // x.shape[3]
    addend = np.zeros(out, np.float32) if bias is None else bias
    return g.emit("DEPTHWISE_CONV_2D" if depthwise else "CONV_2D", [x, weights, addend], shape, **options)


def by_channel(g: Emitter, x: Tensor, w: Floats, bias: Floats | None, steps: Steps) -> Tensor:
    """Every channel with kernels of its own: w [*kernel, c, multiplier]."""
    w = _image_weight(w)
    weights = constant(w.reshape(1, *w.shape[:2], -1))
    return as_image(g, x, lambda image: _windowed(g, image, (weights, bias), steps, True))


def pointwise(g: Emitter, x: Tensor, w: Floats, bias: Floats | None) -> Tensor:
    """A convolution of 1 x 1."""
    return convolution(g, x, w, bias, Steps((1,) * max(w.ndim - 2, 2), (1,) * max(w.ndim - 2, 2), "valid"))


def conv(g: Emitter, call: Call) -> Tensor:
    x = call.input()
    steps = Steps.of(call.layer, len(x.shape) - 2)
    return call.activated(convolution(g, x, call.weight("kernel"), call.optional("bias"), steps))


def depthwise(g: Emitter, call: Call) -> Tensor:
    x = call.input()
    steps = Steps.of(call.layer, len(x.shape) - 2)
    return call.activated(by_channel(g, x, call.weight("kernel"), call.optional("bias"), steps))


def separable(g: Emitter, call: Call) -> Tensor:
    """A depthwise convolution without bias, and one of 1x1 behind it."""
    x = call.input()
    steps = Steps.of(call.layer, len(x.shape) - 2)
    seen = by_channel(g, x, call.weight("depthwise_kernel"), None, steps)
    return call.activated(pointwise(g, seen, call.weight("pointwise_kernel"), call.optional("bias")))


def transposition(g: Emitter, x: Tensor, w: Floats, bias: Floats | None, steps: Steps, size: Shape) -> Tensor:
    """A transposed convolution of x [n, *spatial, in] with w [*kernel, out, in] to a result [n, *size, out]."""
    w = _image_weight(w)
    rank = w.ndim - 2
    w = spread(np.moveaxis(w, (-2, -1), (0, 1)), steps.dilations)  # [out, in, *kernel]
    addend = np.zeros(w.shape[0], np.float32) if bias is None else bias
    strides, kernel, size = steps.strides, w.shape[2:], (*(1,) * (rank - len(size)), *size)

    def run(image: Tensor) -> Tensor:
        full = tuple((n - 1) * s + k for n, s, k in zip(image.shape[1:-1], strides, kernel, strict=True))
        rows = zip(image.shape[1:-1], kernel, strides, size, strict=True)
        begin = tuple(_begin(*row) if steps.padding == "same" else 0 for row in rows)
        places = strides, full, begin, size
        if rank == 3:
            weights = constant(np.ascontiguousarray(w.transpose(2, 3, 4, 0, 1)), f"{g.place}/kernel")
            return transpose_conv_3d(g, image, weights, addend, places)
        return transpose_conv(g, image, (constant(np.ascontiguousarray(w.transpose(0, 2, 3, 1))), addend), places)

    return run(x) if rank == 3 else as_image(g, x, run)


def _begin(length: int, kernel: int, stride: int, size: int) -> int:
    """Where "same" padding begins in the full extent. Source: Keras's padding of transposed convolutions for JAX."""
    padding = size - (length - 1) * stride + kernel - 2
    return kernel - 1 - min(-(-padding // 2), kernel - 1)


def transposed(g: Emitter, call: Call) -> Tensor:
    x = call.input()
    steps = Steps.of(call.layer, len(x.shape) - 2)
    y = transposition(g, x, call.weight("kernel"), call.optional("bias"), steps, tuple(call.shape[1:-1]))
    return call.activated(y)


def _weight(call: Call, i: int, name: str) -> Floats:
    value = call.argument(i, name)
    call.need(not isinstance(value, Tensor), f"{name} that is an input; make it a weight")
    return array(value, f"{call.name}/{name}")


def conv_operation(g: Emitter, call: Call) -> Tensor:
    x, given = call.input(), call.argument(1, "kernel")
    if isinstance(given, Tensor) and len(given.shape) == 4:
        weights = g.transpose(given, (3, 0, 1, 2))
        return _windowed(g, x, (weights, None), Steps.of(call.layer, 2), False)
    w = _weight(call, 1, "kernel")
    return convolution(g, x, w, None, Steps.of(call.layer, len(x.shape) - 2))


def depthwise_operation(g: Emitter, call: Call) -> Tensor:
    x, w = call.input(), _weight(call, 1, "kernel")
    return by_channel(g, x, w, None, Steps.of(call.layer, len(x.shape) - 2))


def separable_operation(g: Emitter, call: Call) -> Tensor:
    x, first, second = call.input(), _weight(call, 1, "depthwise_kernel"), _weight(call, 2, "pointwise_kernel")
    return pointwise(g, by_channel(g, x, first, None, Steps.of(call.layer, len(x.shape) - 2)), second, None)


def transposed_operation(g: Emitter, call: Call) -> Tensor:
    x, w = call.input(), _weight(call, 1, "kernel")
    return transposition(g, x, w, None, Steps.of(call.layer, len(x.shape) - 2), tuple(call.shape[1:-1]))


IMPORTERS: dict[str, Importer] = {
    **{f"Conv{rank}D": any_order(conv) for rank in (1, 2, 3)},
    **{f"Conv{rank}DTranspose": any_order(transposed) for rank in (1, 2, 3)},
    **{f"DepthwiseConv{rank}D": any_order(depthwise) for rank in (1, 2)},
    **{f"SeparableConv{rank}D": any_order(separable) for rank in (1, 2)},
    "ops.Conv": any_order(conv_operation),
    "ops.ConvTranspose": any_order(transposed_operation),
    "ops.DepthwiseConv": any_order(depthwise_operation),
    "ops.SeparableConv": any_order(separable_operation),
}
