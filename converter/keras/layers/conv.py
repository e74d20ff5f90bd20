"""Convolutions and pooling with one and two spatial dimensions. Those with one have a height of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.emit.emitter import Emitter, Shape, constant
from twinfer.converter.emit.products import as_image, spread, transpose_conv
from twinfer.converter.keras.call import Call
from twinfer.runtime.graph import Tensor


def both(value: Any, rest: int = 1) -> Shape:
    """(height, width) of two numbers or one; ``rest`` is the height if only the width is given."""
    numbers = tuple(int(v) for v in (value if isinstance(value, list | tuple) else (value,)))
    return numbers if len(numbers) == 2 else (rest, *numbers)


def extents(size: Shape, kernel: Shape, strides: Shape, dilations: Shape, padding: str) -> Shape:
    """Height and width of the result, as TFLite's padding makes them."""
    rows = zip(size, kernel, strides, dilations, strict=True)
    if padding == "SAME":
        return tuple(-(-n // s) for n, _, s, _ in rows)
    return tuple((n - (k - 1) * d - 1) // s + 1 for n, k, s, d in rows)


Floats = NDArray[np.float32]


def _image_weight(w: Floats) -> Floats:
    """[*kernel, a, b] with a height of one if it has none."""
    return w if w.ndim == 4 else w[None]


def _windowed(g: Emitter, call: Call, x: Tensor, w: tuple[Tensor, Floats | None], depthwise: bool = False) -> Tensor:
    """CONV_2D with weights [out, kh, kw, in], or DEPTHWISE_CONV_2D with [1, kh, kw, out], and bias [out]."""
    own, (weights, bias) = call.layer, w
    kernel, out = weights.shape[1:3], weights.shape[3 if depthwise else 0]
    strides, dilations = both(own.strides), both(own.dilation_rate)
    if own.padding == "causal":
        x = g.pad(x, [(0, 0), (0, 0), ((kernel[1] - 1) * dilations[1], 0), (0, 0)])
    padding = "SAME" if own.padding == "same" else "VALID"
    shape = (x.shape[0], *extents(x.shape[1:3], kernel, strides, dilations, padding), out)
    options: dict[str, Any] = {"padding": padding, "stride_h": strides[0], "stride_w": strides[1]}
    options |= {"dilation_h_factor": dilations[0], "dilation_w_factor": dilations[1]}
    if depthwise:
        options["depth_multiplier"] = out // x.shape[3]
    addend = np.zeros(out, np.float32) if bias is None else bias
    return g.emit("DEPTHWISE_CONV_2D" if depthwise else "CONV_2D", [x, weights, addend], shape, **options)


def conv(g: Emitter, call: Call) -> Tensor:
    """A depthwise convolution where every group reads one channel and there are several; else CONV_2D, which knows
    groups."""
    call.channels_last()
    call.need(not getattr(call.layer, "quantization_mode", None), "quantised weights; convert the float model")
    w, bias = _image_weight(call.weight("kernel")), call.optional("bias")
    if call.layer.groups > 1 and w.shape[2] == 1:
        weights, depthwise = constant(w.transpose(2, 0, 1, 3)), True
    else:
        weights, depthwise = constant(w.transpose(3, 0, 1, 2)), False
    y = as_image(g, call.input(), lambda x: _windowed(g, call, x, (weights, bias), depthwise))
    return call.activated(y)


def _depthwise_weights(w: Floats) -> Tensor:
    """[*kernel, in, multiplier] as [1, kh, kw, in * multiplier]."""
    w = _image_weight(w)
    return constant(w.reshape(1, *w.shape[:2], -1))


def depthwise(g: Emitter, call: Call) -> Tensor:
    call.channels_last()
    weights = _depthwise_weights(call.weight("kernel"))
    w = (weights, call.optional("bias"))
    return call.activated(as_image(g, call.input(), lambda x: _windowed(g, call, x, w, True)))


def separable(g: Emitter, call: Call) -> Tensor:
    """A depthwise convolution without bias, and one of 1x1 behind it."""
    call.channels_last()
    first = _depthwise_weights(call.weight("depthwise_kernel"))
    second = constant(_image_weight(call.weight("pointwise_kernel")).transpose(3, 0, 1, 2))
    bias = call.optional("bias")

    def run(x: Tensor) -> Tensor:
        seen = _windowed(g, call, x, (first, None), True)
        addend = np.zeros(second.shape[0], np.float32) if bias is None else bias
        shape = (*seen.shape[:3], second.shape[0])
        return g.emit("CONV_2D", [seen, second, addend], shape, padding="VALID", stride_h=1, stride_w=1)

    return call.activated(as_image(g, call.input(), run))


def transposed(g: Emitter, call: Call) -> Tensor:
    call.channels_last()
    own = call.layer
    w = spread(_image_weight(call.weight("kernel")).transpose(2, 3, 0, 1), both(own.dilation_rate))
    weights = constant(np.ascontiguousarray(w.transpose(0, 2, 3, 1)))
    bias = call.optional("bias")
    addend = np.zeros(weights.shape[0], np.float32) if bias is None else bias

    strides, size, kernel = both(own.strides), both(call.shape[1:-1]), weights.shape[1:3]

    def run(x: Tensor) -> Tensor:
        full = tuple((n - 1) * s + k for n, s, k in zip(x.shape[1:3], strides, kernel, strict=True))
        rows = zip(x.shape[1:3], kernel, strides, size, strict=True)
        begin = tuple(_begin(*row) if own.padding == "same" else 0 for row in rows)
        return transpose_conv(g, x, (weights, addend), (strides, full, begin, size))

    return call.activated(as_image(g, call.input(), run))


def _begin(length: int, kernel: int, stride: int, size: int) -> int:
    """Where "same" padding begins in the full extent. Source: Keras's padding of transposed convolutions for JAX."""
    padding = size - (length - 1) * stride + kernel - 2
    return kernel - 1 - min(-(-padding // 2), kernel - 1)


Importer = Callable[[Emitter, Call], Tensor]


def _pool(op: str) -> Importer:
    def run(g: Emitter, call: Call) -> Tensor:
        call.channels_last()
        kernel, strides = both(call.layer.pool_size), both(call.layer.strides)
        padding = "SAME" if call.layer.padding == "same" else "VALID"
        options: dict[str, Any] = {
            "filter_height": kernel[0],
            "filter_width": kernel[1],
            "stride_h": strides[0],
            "stride_w": strides[1],
        }

        def pooled(x: Tensor) -> Tensor:
            size = extents(x.shape[1:3], kernel, strides, (1, 1), padding)
            return g.emit(op, [x], (x.shape[0], *size, x.shape[3]), padding=padding, **options)

        return as_image(g, call.input(), pooled)

    return run


def _everywhere(op: str) -> Importer:
    def run(g: Emitter, call: Call) -> Tensor:
        if call.argument(1, "mask") is not None:
            return call.follow()[0]
        x, keep = call.input(), bool(call.layer.keepdims)
        first = call.layer.data_format == "channels_first"
        axes = np.arange(2 if first else 1, len(x.shape) - (not first), dtype=np.int32)
        return g.emit(op, [x, axes], call.shape, keep_dims=keep)

    return run


IMPORTERS: dict[str, Callable[[Emitter, Call], Tensor]] = {
    "Conv1D": conv,
    "Conv1DTranspose": transposed,
    "Conv2D": conv,
    "Conv2DTranspose": transposed,
    "DepthwiseConv1D": depthwise,
    "DepthwiseConv2D": depthwise,
    "SeparableConv1D": separable,
    "SeparableConv2D": separable,
}
for _kind, _over, _op in (("Average", "AVERAGE_POOL_2D", "MEAN"), ("Max", "MAX_POOL_2D", "REDUCE_MAX")):
    for _rank in ("1D", "2D"):
        IMPORTERS[f"{_kind}Pooling{_rank}"] = _pool(_over)
    for _rank in ("1D", "2D", "3D"):
        IMPORTERS[f"Global{_kind}Pooling{_rank}"] = _everywhere(_op)
