"""Small float models of ONNX operators, as exporters write them, that ONNX Runtime's tools are tried on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from twinfer.runtime.graph import Array


def floats(value: Any) -> Array:
    return np.array(value, np.float32)


def ints(value: Any) -> Array:
    return np.array(value, np.int64)


class Net:
    """A model that grows by calls: ``net("Relu", x)`` adds a node and gives the name of its result. Arrays become
    initializers."""

    def __init__(self, opset: int, **inputs: Array) -> None:
        self.opset = opset
        self.inputs, self.random = inputs, np.random.default_rng(len(inputs) + 3)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}

    def __call__(self, op: str, *given: str | Array, outputs: int = 1, **attributes: Any) -> Any:
        names = [name if isinstance(name, str) else self.keep(name) for name in given]
        made = [f"{op.lower()}_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, names, made, name=f"n{len(self.nodes)}", **attributes))
        return made[0] if outputs == 1 else made

    def keep(self, value: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def weights(self, *shape: int) -> Array:
        fan = np.prod(shape[1:]) if len(shape) > 1 else 8
        return floats(self.random.standard_normal(shape) / np.sqrt(fan))

    def linear(self, x: str, depth: int, out: int) -> str:
        """As PyTorch exports a layer over more than two dimensions."""
        return str(self("Add", self("MatMul", x, self.weights(depth, out)), self.weights(out)))

    def conv(self, x: str, out: int, inner: int, k: int, **attributes: Any) -> str:
        attributes = {"kernel_shape": [k, k], "pads": [k // 2] * 4, **attributes}
        return str(self("Conv", x, self.weights(out, inner, k, k), self.weights(out), **attributes))

    def mean(self, x: str, *axes: int, keepdims: int = 1) -> str:
        if self.opset < 18:
            return str(self("ReduceMean", x, axes=axes, keepdims=keepdims))
        return str(self("ReduceMean", x, ints(axes), keepdims=keepdims))

    def normalised(self, x: str, width: int) -> str:
        """Layer normalisation spelled out, as exporters of opsets before 17 do."""
        away = self("Sub", x, self.mean(x, -1))
        variance = self.mean(self("Pow", away, floats(2)), -1)
        y = self("Div", away, self("Sqrt", self("Add", variance, floats(1e-5))))
        return str(self("Add", self("Mul", y, 1 + self.weights(width)), self.weights(width)))

    def model(self, *outputs: str) -> onnx.ModelProto:
        def value(name: str, array: Array) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

        graph = helper.make_graph(
            self.nodes, "net", [value(k, v) for k, v in self.inputs.items()],
            [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs],
            [onnx.numpy_helper.from_array(v, k) for k, v in self.constants.items()],
        )  # fmt: skip
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        return onnx.shape_inference.infer_shapes(made)


def _image(*shape: int) -> Array:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def mlp(opset: int) -> onnx.ModelProto:
    n = Net(opset, x=_image(2, 32))
    x = n("Relu", n("Gemm", "x", n.weights(24, 32), n.weights(24), transB=1))
    x = n("Tanh", n("Gemm", x, n.weights(24, 16), n.weights(16)))
    return n.model(n("Softmax", n.linear(x, 16, 6), axis=-1))


def cnn(opset: int) -> onnx.ModelProto:
    n = Net(opset, x=_image(1, 3, 12, 10))
    x = n("MaxPool", n("Relu", n.conv("x", 8, 3, 3)), kernel_shape=[2, 2], strides=[2, 2])
    x = n("Relu", n.conv(x, 16, 8, 3, strides=[2, 2]))
    x = n("Flatten", n("GlobalAveragePool", x))
    return n.model(n("Gemm", x, n.weights(5, 16), n.weights(5), transB=1))


def depthwise(opset: int) -> onnx.ModelProto:
    n = Net(opset, x=_image(1, 8, 9, 9))
    low, high = floats(0), floats(6)
    first = n("Clip", n.conv("x", 16, 8, 1), low, high)
    x = n("HardSwish", n.conv(first, 16, 1, 3, group=16))
    x = n("Add", n.conv(x, 8, 16, 1), "x")
    return n.model(n("Clip", n.conv(x, 8, 1, 3, group=8, strides=[2, 2]), low, high))


def pool(opset: int) -> onnx.ModelProto:
    n = Net(opset, x=_image(1, 4, 12, 12))
    x = n("LeakyRelu", n.conv("x", 8, 4, 3), alpha=0.1)
    a = n("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    b = n("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    y = n("Mul", n("Sigmoid", a), b)
    return n.model(n.mean(y, 2, 3, keepdims=0))


def conv_bn(opset: int) -> onnx.ModelProto:
    n = Net(opset, x=_image(1, 4, 10, 10))
    x = "x"
    for inner, out in ((4, 8), (8, 6)):
        x = n.conv(x, out, inner, 3)
        x = n("BatchNormalization", x, 1 + n.weights(out), n.weights(out), n.weights(out), 1 + n.weights(out) ** 2)
        x = n("Relu", x)
    x = n("ConvTranspose", x, n.weights(6, 4, 2, 2), n.weights(4), kernel_shape=[2, 2], strides=[2, 2])
    return n.model(n("InstanceNormalization", x, 1 + n.weights(4), n.weights(4)))


def resize(opset: int) -> onnx.ModelProto:
    n = Net(opset, x=_image(1, 4, 6, 6))
    x, scales = n("Relu", n.conv("x", 8, 4, 3)), floats([1, 1, 2, 2])
    a = n("Resize", x, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    b = n("Resize", x, "", scales, mode="linear", coordinate_transformation_mode="half_pixel")
    return n.model(n.conv(n("Concat", a, b, axis=1), 4, 16, 3))


def split(opset: int) -> onnx.ModelProto:
    n = Net(opset, x=_image(1, 12, 8, 6))
    a, b, c = n("Split", "x", ints([4, 4, 4]), axis=1, outputs=3)
    a = n("Pad", n.conv(a, 4, 4, 1), ints([0, 0, 1, 1, 0, 0, 1, 1]))
    b = n("Pad", n("Transpose", n.conv(b, 4, 4, 3), perm=[0, 1, 2, 3]), ints([0, 0, 1, 1, 0, 0, 1, 1]), mode="edge")
    c = n("Slice", c, ints([1]), ints([8]), ints([2]))
    c = n("Tile", c, ints([2, 1, 1, 1]))
    joint = n("Concat", a, b, axis=1)
    y = n("Where", n("Greater", joint, floats(0)), joint, n("Neg", joint))
    return n.model(n("Unsqueeze", y, ints([1])), n("Squeeze", n.mean(c, 1), ints([1])))


def _recurrent(opset: int, op: str, gates: int, states: int) -> onnx.ModelProto:
    n = Net(opset, x=_image(7, 1, 10))
    w, r, b = n.weights(1, gates * 12, 10) * 3, n.weights(1, gates * 12, 12) * 3, n.weights(1, gates * 24)
    y = n(op, "x", w, r, b, hidden_size=12, outputs=states)[0]
    x = n("Gather", n("Squeeze", y, ints([1])), ints(-1), axis=0)
    return n.model(n("Gemm", x, n.weights(4, 12), n.weights(4), transB=1))


def lstm(opset: int) -> onnx.ModelProto:
    return _recurrent(opset, "LSTM", 4, 3)


def gru(opset: int) -> onnx.ModelProto:
    return _recurrent(opset, "GRU", 3, 2)


def embedding(opset: int) -> onnx.ModelProto:
    n = Net(opset, ids=np.random.default_rng(2).integers(0, 40, (2, 9)))
    x = n("Gather", n.weights(40, 32) * 4, "ids")
    x = n("Relu", n.linear(x, 32, 24))
    return n.model(n.linear(n.mean(x, 1, keepdims=0), 24, 3))


def batched(opset: int) -> onnx.ModelProto:
    n = Net(opset, a=_image(2, 3, 5, 8), b=_image(2, 3, 6, 8)[:, :, ::-1].copy())
    scores = n("MatMul", "a", n("Transpose", "b", perm=[0, 1, 3, 2]))
    y = n("Softmax", n("Mul", scores, floats(0.35)), axis=-1)
    y = n("MatMul", y, "b")
    return n.model(n("MatMul", n("MatMul", y, n.weights(8, 4)), n.weights(2, 3, 4, 5)))


def _attended(n: Net, x: str, mask: str | Array, heads: int, length: int, width: int) -> str:
    """As a BERT of Hugging Face is exported."""
    size = width // heads
    parts = []
    for part in "qkv":
        y = n("Reshape", n.linear(x, width, width), ints([0, 0, heads, size]))
        parts.append(n("Transpose", y, perm=[0, 2, 3, 1] if part == "k" else [0, 2, 1, 3]))
    scores = n("Div", n("MatMul", parts[0], parts[1]), floats(size**0.5))
    y = n("MatMul", n("Softmax", n("Add", scores, mask), axis=-1), parts[2])
    return n.linear(n("Reshape", n("Transpose", y, perm=[0, 2, 1, 3]), ints([0, 0, width])), width, width)


def bert(opset: int) -> onnx.ModelProto:
    random = np.random.default_rng(4)
    mask = ints([[1] * 6 + [0, 0], [1] * 8])
    n = Net(opset, ids=random.integers(0, 30, (2, 8)), segments=random.integers(0, 2, (2, 8)), mask=mask)
    words = n("Add", n("Gather", n.weights(30, 32) * 5, "ids"), n("Gather", n.weights(2, 32) * 5, "segments"))
    x = n.normalised(n("Add", words, n.weights(1, 8, 32) * 5), 32)
    off = n("Unsqueeze", n("Unsqueeze", "mask", ints([1])), ints([2]))
    off = n("Mul", n("Sub", floats(1), n("Cast", off, to=1)), floats(-10000))
    x = n.normalised(n("Add", _attended(n, x, off, 4, 8, 32), x), 32)
    y = n.linear(x, 32, 64)
    y = n("Mul", n("Mul", y, n("Add", n("Erf", n("Div", y, floats(2**0.5))), floats(1))), floats(0.5))
    x = n.normalised(n("Add", n.linear(y, 64, 32), x), 32)
    return n.model(x, n("Tanh", n.linear(n("Gather", x, ints(0), axis=1), 32, 32)))


def decoder(opset: int) -> onnx.ModelProto:
    """Root mean squares for means, a causal mask, and GELU by tanh."""
    n = Net(opset, x=_image(1, 6, 32))

    def normalised(x: str) -> str:
        mean = n.mean(n("Pow", x, floats(2)), -1)
        factor = n("Div", floats(1), n("Sqrt", n("Add", mean, floats(1e-6))))
        return str(n("Mul", 1 + n.weights(32), n("Mul", x, factor)))

    causal = np.triu(np.full((1, 1, 6, 6), -10000, np.float32), 1)
    x = n("Add", "x", _attended(n, normalised("x"), causal, 2, 6, 32))
    y = n.linear(normalised(x), 32, 48)
    cube = n("Mul", n("Pow", y, floats(3)), floats(0.044715))
    inner = n("Tanh", n("Mul", n("Add", y, cube), floats((2 / np.pi) ** 0.5)))
    y = n("Mul", n("Mul", y, floats(0.5)), n("Add", inner, floats(1)))
    return n.model(normalised(n("Add", n.linear(y, 48, 32), x)))


def layer_norm(opset: int) -> onnx.ModelProto:
    """A mixer of opset 17's LayerNormalization, gates by Sigmoid, and a convolution over time."""
    n = Net(opset, x=_image(2, 10, 16))
    x = n("LayerNormalization", "x", 1 + n.weights(16), n.weights(16))
    y = n("Transpose", x, perm=[0, 2, 1])
    y = n("Conv", y, n.weights(16, 1, 3), n.weights(16), group=16, kernel_shape=[3], pads=[1, 1])
    y = n.linear(n("Transpose", y, perm=[0, 2, 1]), 16, 32)
    y = n.linear(n("Mul", y, n("Sigmoid", y)), 32, 16)
    return n.model(n("LayerNormalization", n("Add", y, "x"), 1 + n.weights(16), n.weights(16)))


NETS: Mapping[str, Callable[[int], onnx.ModelProto]] = {
    each.__name__: each
    for each in (mlp, cnn, depthwise, pool, conv_bn, resize, split, lstm, gru, embedding, batched, bert, decoder,
                 layer_norm)
}  # fmt: skip

#: Nets with attention, and its heads.
HEADS = {"bert": 4, "decoder": 2}
