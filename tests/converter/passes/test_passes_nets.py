"""Whole nets through all passes: the operators that are left, and the same results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_tools import Array, by_onnxruntime, compare, model, run

from twinfer.converter import passes
from twinfer.converter.onnx import read_onnx
from twinfer.converter.passes.nhwc_io import nhwc_io
from twinfer.runtime.check import check
from twinfer.runtime.graph import Graph


@dataclass
class Net:
    """An ONNX model while it is written, as PyTorch exports it: NCHW, BatchNormalization in inference form."""

    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)

    def op(self, kind: str, *inputs: str | Array, **attributes: object) -> str:
        names = [self.constant(i) if isinstance(i, np.ndarray) else i for i in inputs]
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, names, [name], **attributes))
        return name

    def constant(self, value: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def normal(self, *shape: int) -> Array:
        return (self.rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]) or 1)).astype(np.float32)

    def conv(self, x: str, w: Array, **attributes: object) -> str:
        """Conv without bias, and BatchNormalization."""
        pad = w.shape[2] // 2
        y = self.op("Conv", x, w, pads=[pad] * 4, kernel_shape=list(w.shape[2:]), **attributes)
        return self.batch_norm(y, len(w))

    def batch_norm(self, x: str, channels: int) -> str:
        scale, bias, mean = (self.normal(channels) for _ in range(3))
        return self.op("BatchNormalization", x, scale + 1, bias, mean, np.abs(self.normal(channels)) + 1)

    def model(self, inputs: Mapping[str, Array], *outputs: str) -> onnx.ModelProto:
        return model(self.nodes, inputs, self.constants, outputs)


def resnet() -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Stem with maximum, residual block, depthwise separable block, squeeze and excite, hard swish, head."""
    net, x = Net(), np.random.default_rng(3).standard_normal((1, 3, 17, 15)).astype(np.float32)
    y = net.op("Relu", net.conv("x", net.normal(8, 3, 3, 3), strides=[2, 2]))
    y = net.op("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    z = net.op("Relu", net.conv(y, net.normal(8, 8, 3, 3)))
    z = net.conv(z, net.normal(8, 8, 3, 3))
    y = net.op("Relu", net.op("Add", z, y))
    y = net.op(
        "Clip", net.conv(y, net.normal(8, 1, 3, 3), group=8), np.float32([0])[0:1].reshape(()), np.array(6, "f4")
    )
    y = net.conv(y, net.normal(16, 8, 1, 1))
    s = net.op("GlobalAveragePool", y)
    s = net.op("Relu", net.op("Conv", s, net.normal(4, 16, 1, 1), net.normal(4)))
    s = net.op("Sigmoid", net.op("Conv", s, net.normal(16, 4, 1, 1), net.normal(16)))
    y = net.op("Mul", y, s)
    y = net.op("HardSwish", y)
    y = net.op("Concat", y, net.conv(y, net.normal(4, 16, 1, 1)), axis=1)
    y = net.op("GlobalAveragePool", y)
    y = net.op("Flatten", y, axis=1)
    y = net.op("Gemm", y, net.normal(5, 20), net.normal(5), transB=1)
    return net.model({"x": x}, net.op("Softmax", y, axis=1)), {"x": x}


def flattened() -> tuple[onnx.ModelProto, dict[str, Array]]:
    """LeNet: an image in NCHW is flattened, which the dense layer must absorb."""
    net, x = Net(), np.random.default_rng(3).standard_normal((2, 1, 12, 10)).astype(np.float32)
    y = net.op("Relu", net.conv("x", net.normal(6, 1, 3, 3)))
    y = net.op("AveragePool", y, kernel_shape=[2, 2], strides=[2, 2])
    y = net.op("Relu", net.conv(y, net.normal(7, 6, 3, 3)))
    y = net.op("Relu", net.op("Flatten", net.op("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]), axis=1))
    y = net.op("Relu", net.op("Gemm", y, net.normal(9, 42), net.normal(9), transB=1))
    return net.model({"x": x}, net.op("Gemm", y, net.normal(4, 9), net.normal(4), transB=1)), {"x": x}


def decoder() -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A dense layer gives an image and transposed convolutions enlarge it; the output is an image."""
    net, x = Net(), np.random.default_rng(3).standard_normal((1, 6)).astype(np.float32)
    y = net.op("Gemm", "x", net.normal(5 * 12, 6), net.normal(60), transB=1)
    y = net.op("Relu", net.op("Reshape", y, np.array([1, 5, 4, 3])))
    y = net.op("ConvTranspose", y, net.normal(5, 4, 2, 2), strides=[2, 2])
    y = net.op("Relu", net.batch_norm(y, 4))
    return net.model({"x": x}, net.op("Tanh", net.op("Conv", y, net.normal(3, 4, 1, 1)))), {"x": x}


def temporal() -> tuple[onnx.ModelProto, dict[str, Array]]:
    """1-D convolutions, as for keywords and motion."""
    net, x = Net(), np.random.default_rng(3).standard_normal((1, 6, 20)).astype(np.float32)
    y = net.op("Conv", "x", net.normal(8, 6, 3), pads=[1, 1], kernel_shape=[3])
    y = net.op("Relu", net.batch_norm(y, 8))
    y = net.op("Conv", y, net.normal(8, 8, 3), pads=[2, 2], dilations=[2], kernel_shape=[3])
    y = net.op("Relu", net.batch_norm(y, 8))
    y = net.op("ReduceMean", y, axes=[2], keepdims=0)
    return net.model({"x": x}, net.op("Gemm", y, net.normal(3, 8), net.normal(3), transB=1)), {"x": x}


def branches() -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Two outputs in NCHW, one of them from the middle, and a residual over the input itself."""
    net, x = Net(), np.random.default_rng(3).standard_normal((1, 4, 6, 5)).astype(np.float32)
    y = net.op("Add", net.conv("x", net.normal(4, 4, 3, 3)), "x")
    z = net.op("Split", net.op("Relu", net.conv(y, net.normal(4, 4, 3, 3))), np.array([1, 3]), axis=1)
    net.nodes[-1].output.append("rest")
    w = net.op("Mul", "rest", net.op("Pad", z, np.array([0, 1, 0, 0, 0, 1, 0, 0])))
    return net.model({"x": x}, y, w), {"x": x}


NETS = {f.__name__: f for f in (resnet, flattened, decoder, temporal, branches)}

#: Transposes that stay: at inputs and outputs that are images of more than one channel.
LEFT = {"resnet": 1, "flattened": 0, "decoder": 1, "temporal": 1, "branches": 3}


def optimised(name: str) -> tuple[Graph, Graph, dict[str, Array], list[Array]]:
    proto, feeds = NETS[name]()
    graph = read_onnx(proto)
    return graph, passes.run(graph), feeds, by_onnxruntime(proto, feeds)


def counts(graph: Graph) -> Counter[str]:
    return Counter(node.op for node in graph.nodes)


@pytest.mark.parametrize("name", NETS)
def test_nothing_is_left_of_nchw(name: str) -> None:
    graph, small, feeds, want = optimised(name)
    compare(run(small, feeds), want)
    compare(run(graph, feeds), want)
    left = counts(small)
    assert left["TRANSPOSE"] == LEFT[name]
    ends = {*small.inputs, *small.outputs, *(n.output for n in small.nodes if n.inputs[0] in small.inputs)}
    assert all({n.input(0), n.output} & ends for n in small.nodes if n.op == "TRANSPOSE")
    assert [t.name for t in (*small.inputs, *small.outputs)] == [t.name for t in (*graph.inputs, *graph.outputs)]
    assert not {"RELU", "RELU6", "SUB", "DIV", "SQUEEZE"} & set(left)
    assert not any(t and t.data is not None for n in small.nodes if n.op in ("ADD", "MUL") for t in n.inputs)


@pytest.mark.parametrize("name", NETS)
def test_interface_in_nhwc(name: str) -> None:
    """Without transposes at inputs and outputs, values go in and out as NHWC, under the same names."""
    proto, feeds = NETS[name]()
    graph = nhwc_io(passes.run(read_onnx(proto)))
    check(graph)
    assert counts(graph)["TRANSPOSE"] == (1 if name == "temporal" else 0)
    fed = {t.name: feeds[t.name] if feeds[t.name].shape == t.shape else nhwc(feeds[t.name]) for t in graph.inputs}
    want = by_onnxruntime(proto, feeds)
    compare(run(graph, fed), [w if w.shape == t.shape else nhwc(w) for w, t in zip(want, graph.outputs, strict=True)])
    assert [t.name for s in graph.signatures for t in s.inputs.values()] == [t.name for t in graph.inputs]


def nhwc(value: Array) -> Array:
    return np.ascontiguousarray(value.transpose(0, 2, 3, 1))
