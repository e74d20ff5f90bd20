"""Small networks of uint8, as converters of 2017 to 2019 wrote them."""

from __future__ import annotations

from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Graph, Node, Tensor
from twinfer.runtime.op import Shape, tensor

WINDOW = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}


class Net:
    """A graph of uint8 that grows node by node; every tensor gets a scale and a zero point of its own."""

    def __init__(self, seed: int, shape: Shape) -> None:
        self.rng = np.random.default_rng(seed)
        self.tensors: list[Tensor] = []
        self.nodes: list[Node] = []
        self.input = self.value(shape, 1 / 128, 128)

    def keep(self, new: Tensor) -> Tensor:
        self.tensors.append(new)
        return new

    def value(self, shape: Shape, scale: float, zero: int) -> Tensor:
        return self.keep(tensor(shape, "UINT8", scale, zero, name=f"t{len(self.tensors)}"))

    def constant(self, values: Array, type: str, *quant: Any) -> Tensor:
        return self.keep(tensor(values.shape, type, *quant, data=values, name=f"c{len(self.tensors)}"))

    def add(self, op: str, inputs: tuple[Tensor, ...], y: Tensor, **options: Any) -> Tensor:
        self.nodes.append(Node(op, inputs, (y,), options, index=len(self.nodes)))
        return y

    def conv(self, x: Tensor, w_shape: Shape, zero: int, act: str, stride: int = 1) -> Tensor:
        """A CONV_2D, or with weights [1, k, k, c] over c channels a DEPTHWISE_CONV_2D."""
        depthwise = w_shape[0] == 1 and w_shape[3] == x.shape[3] > 1
        out, scale = w_shape[3] if depthwise else w_shape[0], 0.008
        steps = self.rng.normal(zero, 40, w_shape).clip(0, 255).round()
        w = self.constant(steps, "UINT8", scale, zero)
        b = self.constant(self.rng.integers(-4000, 4000, out), "INT32", float(np.float32(x.scale) * np.float32(scale)))
        shape = (x.shape[0], -(-x.shape[1] // stride), -(-x.shape[2] // stride), out)
        quant = (6 / 255, 0) if act == "RELU6" else (0.03, int(self.rng.integers(90, 170)))
        y = self.value(shape, *quant)
        more = {"depth_multiplier": 1} if depthwise else {}
        options = {**WINDOW, "stride_h": stride, "stride_w": stride, "fused_activation_function": act, **more}
        return self.add("DEPTHWISE_CONV_2D" if depthwise else "CONV_2D", (x, w, b), y, **options)

    def graph(self, *outputs: Tensor) -> Graph:
        return Graph("uint8", tuple(self.tensors), tuple(self.nodes), (self.input,), outputs)


def mobilenet() -> Graph:
    """MobileNet v1 and v2 in small: asymmetric weights, residuals, average pooling, a classifier, softmax."""
    net = Net(1, (1, 24, 20, 3))
    x = net.conv(net.input, (8, 3, 3, 3), 151, "RELU6", 2)
    for channels, stride, zero in ((16, 1, 117), (16, 2, 128), (32, 1, 97)):
        x = net.conv(x, (1, 3, 3, x.shape[3]), zero + 9, "RELU6", stride)
        x = net.conv(x, (channels, 1, 1, x.shape[3]), zero, "RELU6")
    wide = net.conv(x, (1, 3, 3, 32), 160, "RELU6")
    narrow = net.conv(wide, (32, 1, 1, 32), 128, "NONE")
    x = net.add("ADD", (x, narrow), net.value(x.shape, 0.05, 77), fused_activation_function="NONE")
    pooled = net.value((1, 1, 1, 32), 0.05, 77)
    size = {"filter_height": x.shape[1], "filter_width": x.shape[2], "stride_h": 2, "stride_w": 2, "padding": "VALID"}
    x = net.add("AVERAGE_POOL_2D", (x,), pooled, **size, fused_activation_function="NONE")
    x = net.conv(x, (11, 1, 1, 32), 74, "NONE")
    flat = net.value((1, 11), x.scale, x.zero)
    x = net.add("RESHAPE", (x, net.constant(np.array([1, 11]), "INT32")), flat, new_shape=[1, 11])
    return net.graph(net.add("SOFTMAX", (x,), net.value((1, 11), 1 / 256, 0), beta=1.0))


def detector() -> Graph:
    """The heads of an SSD: boxes and classes of two maps joined with rescaling, the classes through LOGISTIC; beside
    them a map that is resized, and a classifier over it."""
    net = Net(2, (1, 16, 16, 3))
    first = net.conv(net.input, (12, 3, 3, 3), 131, "RELU6", 2)
    second = net.conv(first, (16, 3, 3, 12), 110, "RELU6", 2)
    boxes, classes = [], []
    for x in (first, second):
        for heads, width, zero in ((boxes, 4, 141), (classes, 3, 120)):
            y = net.conv(x, (2 * width, 1, 1, x.shape[3]), zero, "NONE")
            shape = (1, y.size // width, width)
            flat = net.value(shape, y.scale, y.zero)
            heads.append(net.add("RESHAPE", (y, net.constant(np.array(shape), "INT32")), flat, new_shape=list(shape)))
    rows = sum(t.shape[1] for t in boxes)
    join = {"axis": 1, "fused_activation_function": "NONE"}
    box = net.add("CONCATENATION", tuple(boxes), net.value((1, rows, 4), 0.041, 130), **join)
    score = net.add("CONCATENATION", tuple(classes), net.value((1, rows, 3), classes[0].scale, classes[0].zero), **join)
    score = net.add("LOGISTIC", (score,), net.value((1, rows, 3), 1 / 256, 0))
    size = {"align_corners": False, "half_pixel_centers": False}
    large = net.value((1, 7, 9, 16), second.scale, second.zero)
    grown = net.add("RESIZE_BILINEAR", (second, net.constant(np.array([7, 9]), "INT32")), large, **size)
    values = net.rng.normal(90, 60, (5, grown.size)).clip(0, 255).round()
    w = net.constant(values, "UINT8", 0.004, 90)
    b = net.constant(net.rng.integers(-900, 900, 5), "INT32", float(np.float32(grown.scale) * np.float32(0.004)))
    dense = {"fused_activation_function": "NONE", "weights_format": "DEFAULT", "keep_num_dims": False}
    word = net.add("FULLY_CONNECTED", (grown, w, b), net.value((1, 5), 0.3, 111), **dense)
    return net.graph(box, score, word)


def limits() -> Graph:
    """Weights of all values about zero points by which they just fit int8, or just do not; and a value joined with
    constants, of which one has the scale of the whole and the other has not."""
    net = Net(3, (1, 4, 16, 8))
    x, join = net.input, {"axis": 3, "fused_activation_function": "NONE"}
    outputs = []
    for scale in (x.scale, 0.02):  # before any other reads the value as int8
        other = net.constant(net.rng.integers(0, 256, x.shape), "UINT8", 0.02, 100)
        y = net.value((1, 4, 16, 16), scale, x.zero if scale == x.scale else 100)
        outputs.append(net.add("CONCATENATION", (x, other), y, **join))
    for zero in (127, 128, 129):
        w = net.constant(np.arange(256).reshape(32, 1, 1, 8), "UINT8", 0.004, zero)
        b = net.constant(np.zeros(32), "INT32", float(np.float32(x.scale) * np.float32(0.004)))
        y = net.value((1, 4, 16, 32), 0.03, 120)
        outputs.append(net.add("CONV_2D", (x, w, b), y, **WINDOW, fused_activation_function="NONE"))
    return net.graph(*outputs)


#: Nets that take any number of images.
NETS = {"mobilenet": mobilenet, "detector": detector}
