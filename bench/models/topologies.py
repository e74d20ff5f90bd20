"""The networks of the built-in models: the four topologies of MLPerf Tiny, one over time, one for digits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from twinfer.converter.build import Builder
from twinfer.runtime.graph import Array, Tensor
from twinfer.runtime.op import Shape

#: Filter shape and the axis of its output channels -> weights and bias, float32.
Weights = Callable[[Shape, int], tuple[Array, Array]]
Range = tuple[float, float]


class Net:
    """A float32 model put together layer by layer; ``weights`` supplies the parameters in the order of the layers."""

    def __init__(self, name: str, shape: Shape, weights: Weights) -> None:
        self.builder = Builder(name)
        self.x = self.builder.input("input", "FLOAT32", shape)
        self._weights = weights

    def conv(self, x: Tensor, channels: int, size: Shape, stride: int = 1, activation: str = "RELU") -> Tensor:
        weights, bias = self._weights((channels, *size, x.shape[-1]), 0)
        return self._window("CONV_2D", x, weights, bias, stride, activation)

    def dilated(self, x: Tensor, channels: int, taps: int, dilation: int) -> Tensor:
        """A convolution over time, the first of two spatial dimensions; no padding."""
        weights, bias = self._weights((channels, taps, 1, x.shape[-1]), 0)
        return self._window("CONV_2D", x, weights, bias, 1, "RELU", padding="VALID", dilation_h_factor=dilation)

    def depthwise(self, x: Tensor, size: Shape, stride: int = 1, activation: str = "RELU") -> Tensor:
        weights, bias = self._weights((1, *size, x.shape[-1]), 3)
        return self._window("DEPTHWISE_CONV_2D", x, weights, bias, stride, activation, depth_multiplier=1)

    def _window(
        self, op: str, x: Tensor, weights: Array, bias: Array, stride: int, activation: str, **more: Any
    ) -> Tensor:
        more.setdefault("padding", "SAME")
        more |= {"stride_h": stride, "stride_w": stride}
        return self.builder.op(op, [x, weights, bias], fused_activation_function=activation, **more)

    def dense(self, x: Tensor, units: int, activation: str = "RELU") -> Tensor:
        weights, bias = self._weights((units, x.shape[-1]), 0)
        return self.builder.op("FULLY_CONNECTED", [x, weights, bias], fused_activation_function=activation)

    def add(self, a: Tensor, b: Tensor, activation: str = "RELU") -> Tensor:
        return self.builder.op("ADD", [a, b], fused_activation_function=activation)

    def classify(self, x: Tensor, classes: int) -> Tensor:
        """Average over all positions, then one dense layer and softmax."""
        _, height, width, channels = x.shape
        window: dict[str, Any] = {"filter_height": height, "filter_width": width, "stride_h": height, "stride_w": width}
        x = self.builder.op("AVERAGE_POOL_2D", [x], padding="VALID", **window)
        x = self.builder.op("RESHAPE", [x, np.array([1, channels], np.int32)], new_shape=(1, channels))
        return self.builder.op("SOFTMAX", [self.dense(x, classes, "NONE")], beta=1.0)


def kws(net: Net) -> Tensor:
    """DS-CNN: keywords from 49 frames of 10 MFCC features."""
    x = net.conv(net.x, 64, (10, 4), 2)
    for _ in range(4):
        x = net.conv(net.depthwise(x, (3, 3)), 64, (1, 1))
    return net.classify(x, 12)


def vww(net: Net) -> Tensor:
    """MobileNetV1 with a quarter of the channels: is a person in the 96x96 picture?"""
    x = net.conv(net.x, 8, (3, 3), 2)
    for channels, stride in zip(
        (16, 32, 32, 64, 64, *[128] * 6, 256, 256), (1, 2, 1, 2, 1, 2, *[1] * 5, 2, 1), strict=True
    ):
        x = net.conv(net.depthwise(x, (3, 3), stride), channels, (1, 1))
    return net.classify(x, 2)


def ic(net: Net) -> Tensor:
    """ResNet8: 32x32 pictures of ten kinds."""
    x = net.conv(net.x, 16, (3, 3))
    for channels, stride in ((16, 1), (32, 2), (64, 2)):
        y = net.conv(net.conv(x, channels, (3, 3), stride), channels, (3, 3), activation="NONE")
        x = net.add(x if stride == 1 else net.conv(x, channels, (1, 1), stride, "NONE"), y)
    return net.classify(x, 10)


def ad01(net: Net) -> Tensor:
    """Fully connected autoencoder over five frames of a machine's spectrum."""
    x = net.x
    for units in (128, 128, 128, 128, 8, 128, 128, 128, 128):
        x = net.dense(x, units)
    return net.dense(x, 640, "NONE")


def tcn(net: Net) -> Tensor:
    """Temporal convolutional network: commands from 64 frames of 40 bands, by convolutions of growing dilation."""
    x = net.x
    for dilation in (1, 2, 4, 8):
        x = net.dilated(x, 48, 3, dilation)
    return net.classify(x, 8)


def digits(net: Net) -> Tensor:
    """Handwritten digits, 8x8."""
    x = net.conv(net.x, 16, (3, 3))
    x = net.conv(net.depthwise(x, (3, 3), 2), 32, (1, 1))
    return net.classify(net.conv(x, 32, (3, 3)), 10)


def mobilenet_v2(net: Net) -> Tensor:
    """MobileNetV2: 224x224 pictures of a thousand kinds."""
    x = net.conv(net.x, 32, (3, 3), 2, "RELU6")
    blocks = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for growth, channels, count, stride in blocks:
        for i in range(count):
            x = _inverted(net, x, growth, channels, stride if i == 0 else 1)
    return net.classify(net.conv(x, 1280, (1, 1), 1, "RELU6"), 1000)


def _inverted(net: Net, x: Tensor, growth: int, channels: int, stride: int) -> Tensor:
    """A block of MobileNetV2: wider, over space, narrower; added to its input where that has the same shape."""
    wide = x if growth == 1 else net.conv(x, growth * x.shape[-1], (1, 1), 1, "RELU6")
    y = net.conv(net.depthwise(wide, (3, 3), stride, "RELU6"), channels, (1, 1), 1, "NONE")
    return net.add(x, y, "NONE") if x.shape == y.shape else y


#: Name -> layers, input shape, range of the input's values.
NETS: Mapping[str, tuple[Callable[[Net], Tensor], Shape, Range]] = {
    "kws": (kws, (1, 49, 10, 1), (-1, 1)),
    "vww": (vww, (1, 96, 96, 3), (0, 1)),
    "ic": (ic, (1, 32, 32, 3), (0, 1)),
    "ad01": (ad01, (1, 640), (-1, 1)),
    "tcn": (tcn, (1, 64, 1, 40), (-1, 1)),
    "digits": (digits, (1, 8, 8, 1), (0, 1)),
}

#: The same of networks that take seconds to make: no list of models has them, only who names one gets it.
LARGE: Mapping[str, tuple[Callable[[Net], Tensor], Shape, Range]] = {
    "mobilenet_v2": (mobilenet_v2, (1, 224, 224, 3), (0, 1))
}
