"""Quantised ONNX models: scales kept, integers inside, results equal to ONNX Runtime's but for rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_tools import Array, by_onnxruntime, floats, model, run
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from twinfer.converter.onnx import read_onnx
from twinfer.runtime.graph import Graph

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def net(rng: np.random.Generator) -> tuple[onnx.ModelProto, tuple[int, ...]]:
    """A net of common operators; the classifier has 4 inputs per channel."""
    shape = (1, 3, 12, 12)
    constants = {
        "w": floats(rng, 8, 3, 3, 3), "b": floats(rng, 8), "dw": floats(rng, 8, 1, 3, 3), "db": floats(rng, 8),
        "pw": floats(rng, 8, 8, 1, 1), "fw": floats(rng, 5, 24), "fb": floats(rng, 5),
    }  # fmt: skip
    n = helper.make_node
    nodes = [
        n("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        n("Relu", ["c"], ["r"]),
        n("Conv", ["r", "dw", "db"], ["d"], pads=[1, 1, 1, 1], group=8),
        n("Relu", ["d"], ["e"]),
        n("Conv", ["e", "pw"], ["p"]),
        n("Add", ["p", "r"], ["a"]),
        n("MaxPool", ["a"], ["m"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        n("GlobalAveragePool", ["m"], ["g"]),
        n("Concat", ["g", "g", "g"], ["k"], axis=1),
        n("Flatten", ["k"], ["f"]),
        n("Gemm", ["f", "fw", "fb"], ["y"], transB=1),
    ]
    return model(nodes, {"x": np.zeros(shape, np.float32)}, constants, ["y"]), shape


class Data(CalibrationDataReader):
    def __init__(self, samples: list[Array]) -> None:
        self.rest = iter(samples)

    def get_next(self) -> Any:
        sample = next(self.rest, None)
        return None if sample is None else {"x": sample}


def quantised(folder: Path, rng: np.random.Generator, **options: Any) -> tuple[onnx.ModelProto, list[Array]]:
    proto, shape = net(rng)
    samples = [floats(rng, *shape) for _ in range(8)]
    onnx.save(proto, folder / "float.onnx")
    quantize_static(folder / "float.onnx", folder / "int8.onnx", Data(samples), **options)
    return onnx.load(folder / "int8.onnx"), samples


def integer_share(graph: Graph) -> list[str]:
    """Operators that compute in floats, without QUANTIZE and DEQUANTIZE."""
    nodes = [n for n in graph.nodes if n.op not in ("QUANTIZE", "DEQUANTIZE")]
    return [str(n) for n in nodes if "FLOAT32" in {t.type for t in (*n.inputs, *n.outputs) if t is not None}]


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator])
@pytest.mark.parametrize("activations", [QuantType.QInt8, QuantType.QUInt8])
def test_as_onnxruntime(form: Any, activations: Any, per_channel: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    options = {"quant_format": form, "activation_type": activations, "weight_type": QuantType.QInt8}
    extra = {"ActivationSymmetric": False, "WeightSymmetric": True}
    proto, samples = quantised(tmp_path, rng, per_channel=per_channel, extra_options=extra, **options)
    graph = read_onnx(proto)
    assert integer_share(graph) == []
    wanted = {n.output.quant.scale[0] for n in graph.nodes if n.output.quant is not None}
    known = {float(v) for t in proto.graph.initializer for v in onnx.numpy_helper.to_array(t).reshape(-1)[:1]}
    assert {float(scale) for scale in wanted} <= known
    step = graph.nodes[-1].input(0).scale
    for sample in samples:
        (got,), (want,) = run(graph, {"x": sample}), by_onnxruntime(proto, {"x": sample})
        assert np.abs(got - want).max() <= 2.01 * step


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("activations", [QuantType.QInt16, QuantType.QUInt16])
def test_activations_of_16_bits_become_int16x8(activations: Any, symmetric: bool, tmp_path: Path) -> None:
    """Those with a zero point, too, in steps that are up to twice as large around 0."""
    options = {"quant_format": QuantFormat.QDQ, "activation_type": activations, "weight_type": QuantType.QInt8}
    extra = {"ActivationSymmetric": symmetric, "WeightSymmetric": True, "UseQDQContribOps": True}
    proto, samples = quantised(tmp_path, np.random.default_rng(7), per_channel=True, extra_options=extra, **options)
    graph = read_onnx(proto)
    assert integer_share(graph) == []
    assert {t.quant.zero_point.any() for t in graph.tensors if t.type == "INT16" and t.quant is not None} == {False}
    got, want = (
        np.array([by(what, {"x": x})[0] for x in samples]) for by, what in ((run, graph), (by_onnxruntime, proto))
    )
    assert np.abs(got.clip(want.min(), want.max()) - want).max() <= 5 * graph.nodes[-1].input(0).scale  # it saturates


def scaled(name: str, scale: float, zero: int, dtype: Any) -> dict[str, Array]:
    return {f"{name}s": np.array(scale, np.float32), f"{name}z": np.array(zero, dtype)}


def columns(rng: np.random.Generator, many: bool) -> dict[str, Array]:
    count = 4 if many else 1
    return {"ws": rng.uniform(0.001, 0.01, count).astype(np.float32), "wz": np.zeros(count, np.int8)}


def operands(rng: np.random.Generator, op: str, kind: Any, many: bool) -> tuple[list[str], dict[str, Array]]:
    """Inputs of an operator on integers, the quantised input called q, and constants among them."""
    x, y = ["q", "xs", "xz"], ["ys", "yz"]
    if op == "QLinearConv":
        weights = {"w": rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8), "wz": np.zeros(4, np.int8)}
        rest = {"ws": rng.uniform(0.001, 0.01, 4).astype(np.float32), "b": rng.integers(-999, 999, 4, np.int32)}
        return [*x, "w", "ws", "wz", *y, "b"], weights | rest
    if op == "QLinearMatMul":
        return [*x, "w", "ws", "wz", *y], {"w": rng.integers(-127, 128, (6, 4), np.int8), **columns(rng, many)}
    if op == "QGemm":
        rest = {"w": rng.integers(-127, 128, (4, 6), np.int8), "b": rng.integers(-999, 999, 4, np.int32)}
        return [*x, "w", "ws", "wz", "b", *y], rest | columns(rng, many)
    if op in ("QLinearAdd", "QLinearMul"):
        info = np.iinfo(kind)
        other = {"o": rng.integers(info.min, info.max, (3, 1, 1)).astype(kind)}
        return [*x, "o", "os", "oz", *y], other | scaled("o", 0.03, int(rng.integers(info.min, info.max)), kind)
    return ([*y, *x, *x] if op == "QLinearConcat" else [*x, *y]), {}


def qlinear(rng: np.random.Generator, op: str, kind: Any, many: bool) -> tuple[onnx.ModelProto, Array]:
    """One operator on uint8 or int8, which come from floats and go back to floats."""
    zeros = [int(z) for z in rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, 2)]
    inputs, constants = operands(rng, op, kind, many)
    constants |= scaled("x", 0.02, zeros[0], kind) | scaled("y", 0.05, zeros[1], kind)
    turned = int(rng.integers(2))
    if op == "QGemm" and not turned:
        constants["w"] = constants["w"].T.copy()
    attributes: dict[str, Any] = {
        "QLinearConcat": lambda: {"axis": 1},
        "QGemm": lambda: {"transB": turned},
        "QLinearSoftmax": lambda: {"axis": int(rng.integers(-1, 2)), "opset": int(rng.choice([12, 13]))},
        "QLinearAveragePool": lambda: {"kernel_shape": [2, 3], "pads": [0, 1, 1, 1], "count_include_pad": turned},
    }.get(op, dict)()
    n, domain = helper.make_node, "" if op in ("QLinearConv", "QLinearMatMul") else "com.microsoft"
    nodes = [
        n("QuantizeLinear", ["f", "xs", "xz"], ["q"]),
        n(op, inputs, ["r"], domain=domain, **attributes),
        n("DequantizeLinear", ["r", "ys", "yz"], ["y"]),
    ]
    if op == "QGemm" and rng.integers(2):  # without a scale of the result it gives floats
        nodes[1] = n(op, inputs[:-2], ["s"], domain=domain, **attributes)
        nodes.insert(2, n("QuantizeLinear", ["s", "ys", "yz"], ["r"]))
    f = floats(rng, 5, 6) if op == "QGemm" else floats(rng, 1, 3, 5, 6)
    return model(nodes, {"f": f}, constants, ["y"]), f


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize(
    "op",
    ["QLinearConv", "QLinearMatMul", "QLinearAdd", "QLinearMul", "QLinearConcat", "QLinearGlobalAveragePool",
     "QLinearLeakyRelu", "QLinearSigmoid", "QGemm", "QLinearSoftmax", "QLinearAveragePool"],
)  # fmt: skip
def test_single_operators_are_one_step_off_at_most(op: str, kind: Any) -> None:
    for seed in range(5):
        proto, f = qlinear(np.random.default_rng(seed), op, kind, seed % 2 > 0)
        graph = read_onnx(proto)
        assert integer_share(graph) == []
        (got,), (want,) = run(graph, {"f": f}), by_onnxruntime(proto, {"f": f})
        steps = np.rint((got - want) / 0.05)
        assert np.abs(steps).max() <= 1
        assert (steps != 0).mean() < (
            0.3 if op in ("QLinearConcat", "QLinearAveragePool") else 0.1
        )  # TFLite requantises with two roundings


class Net:
    """Nodes and constants of a random model; ``weights`` and ``quantised`` add what exporters add around operators."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}
        self.kind: Any = self.pick(np.int8, np.uint8)

    def pick(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def add(self, op: str, inputs: list[str], count: int = 1, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name, *(f"{name}_{i}" for i in range(1, count))], **attributes))
        return name

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def weights(self, shape: tuple[int, ...], scales: Array | None = None, kind: Any = None) -> str:
        """A constant of integers with one scale, or one for each element of any axis; zero points are left out, zero or
        others."""
        kind = kind or self.pick(np.int8, np.uint8)
        axis = self.pick(*range(len(shape)))
        some = {"axis": self.pick(axis, axis - len(shape))} if axis != 1 or self.pick(0, 1) else {}
        own = () if self.pick(0, 1) else (shape[axis],)
        scale = self.rng.uniform(0.004, 0.012, own).astype(np.float32) if scales is None else scales
        low = 128 if kind == np.uint8 else 0
        zero = self.pick(None, *[np.full(scale.shape, low)] * 3, self.rng.integers(low, low + 9, scale.shape))
        stored = self.rng.integers(-100, 100, shape) + low
        inputs = [self.constant(stored.astype(kind)), self.constant(scale)]
        inputs += [self.constant(zero.astype(kind))] if zero is not None else []
        return self.add("DequantizeLinear", inputs, **(some if scale.ndim else {}))

    def quantised(self, x: str, scale: float, zero: int | None = None) -> tuple[str, str]:
        zero = int(self.rng.integers(-40, 40)) + (128 if self.kind == np.uint8 else 0) if zero is None else zero
        by = [self.constant(np.float32(scale)), self.constant(np.array(zero, self.kind))]
        q = self.add("QuantizeLinear", [x, *by])
        return q, self.add("DequantizeLinear", [q, *by])

    def layer(self, x: str) -> str:
        op = self.pick(
            "Conv", "Conv", "Depthwise", "ConvTranspose", "MatMul", "Gemm", "Transposed", "Add", "Mul", "Max"
        )
        bias = self.pick(
            [], ["b"], [self.constant(floats(self.rng, 4))], [self.weights((4,), np.float32(0.0015), np.int32)]
        )
        if op in ("Conv", "Depthwise"):
            groups = 4 if op == "Depthwise" else 1
            some = {"pads": self.pick([1, 1, 1, 1], [0, 0, 0, 0]), "group": groups}
            return self.add("Conv", [x, self.weights((4, 4 // groups, 3, 3)), *bias], **some)
        if op == "ConvTranspose":
            return self.add(op, [x, self.weights((4, 4, 2, 2)), *bias], strides=[2, 2])
        if op == "Gemm":
            x, turned = self.add("Reshape", [x, self.constant(np.array([6, 24]))]), self.pick(0, 1)
            return self.add(op, [x, self.weights((4, 24) if turned else (24, 4)), *bias], transB=turned)
        if op == "Transposed":  # weights that a node moves first
            w = self.add("Transpose", [self.weights((3, 6, 2))], perm=[1, 0, 2])
            return self.add("MatMul", [x, self.add("Reshape", [w, self.constant(np.array([6, 6]))])])
        if op == "MatMul":
            return self.add(op, [x, self.weights((6, 4))])
        return self.add(op, self.pick([x, o := self.weights(self.pick((4, 1, 1), (1, 4, 6, 6), (6,)))], [o, x]))

    def move(self, x: str, other: str) -> str:
        op = self.pick(
            "Concat",
            "Concat",
            "Concat",
            "Pad",
            "MaxPool",
            "Clip",
            "Relu",
            "Transpose",
            "Slice",
            "Resize",
            "Split",
            "Gather",
        )
        if op == "Concat":
            beside = self.pick(other, other, self.weights((1, 4, 6, 6)), self.constant(floats(self.rng, 1, 4, 6, 6)), x)
            return self.add(op, [x, beside], axis=self.pick(1, -1))
        if op == "Pad":
            value = self.pick(0.0, 0.013, -1e30, -np.inf, float(self.scale))
            last = (
                self.pick("MaxPool", "MaxPool", "Relu", "AveragePool")
                if value > -np.inf
                else self.pick("MaxPool", "Relu")
            )
            padded = self.add(
                op, [x, self.constant(np.array([0, 0, 1, 1, 0, 0, 0, 1])), self.constant(np.float32(value))]
            )
            if value < -9 and self.pick(0, 1):
                return self.add(last, [padded], **({"kernel_shape": [2, 2]} if "Pool" in last else {}))
            return padded
        if op == "MaxPool":
            return self.add(op, [x], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 2])
        if op == "Clip":
            return self.add(op, [x, self.constant(np.float32(-0.5)), self.constant(np.float32(1.1))])
        if op == "Slice":
            at = [self.constant(np.array([v])) for v in (5, -7, 2, -2)]
            return self.add(op, [x, *at])
        if op == "Resize":
            s = self.constant(np.float32([1, 1, 2, 2]))
            return self.add(op, [x, "", s], mode="nearest", coordinate_transformation_mode="asymmetric")
        if op == "Split":
            return self.add(op, [x], 2, axis=1)
        if op == "Gather":
            return self.add(op, [x, self.constant(np.array([3, 0, -1]))], axis=1)
        return self.add(op, [x], **({"perm": [0, 2, 3, 1]} if op == "Transpose" else {}))

    scale = np.float32(0.03)


def random_net(net: Net, part: str) -> tuple[onnx.ModelProto, dict[str, Array], tuple[float, float]]:
    """One layer or move, or a layer behind a move that keeps the shape; its results may be outputs or read twice."""
    _, first = net.quantised("f", float(net.scale))
    zero = int(net.constants["c1"])
    _, other = net.quantised("f", float(net.scale), net.pick(None, zero))
    r = net.layer(first) if part == "layer" else net.move(first, other)
    if part == "both":
        _, r = net.quantised(r, 0.03, zero)
        zeros = {"f": np.zeros((1, 4, 6, 6), np.float32), "b": np.zeros(4, np.float32)}
        (shaped,) = by_onnxruntime(model(net.nodes, zeros, net.constants, [r]), zeros)
        r = net.layer(r) if shaped.shape == (1, 4, 6, 6) else net.add("Relu", [r])
    steps = (net.pick(0.05, float(net.scale)), 0.035)
    q, y = net.quantised(r, steps[0], net.pick(None, zero))
    more = net.pick([], [], [r], [q], [q], [net.quantised(r, steps[1])[1]])
    feeds = {"f": floats(net.rng, 1, 4, 6, 6) + np.float32(1e-4), "b": floats(net.rng, 4)}
    return model(net.nodes, feeds, net.constants, [y, *more]), feeds, steps


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_integers_that_only_move_keep_their_scale(kind: Any) -> None:
    """From an input to where they are dequantised, and from where they are quantised to an output. A border of zeros is
    no border of zero points."""
    constants = {**scaled("x", 0.03, 5, kind), **scaled("y", 0.05, 100, kind)}
    constants |= {"p": np.array([0, 0, 1, 0, 2, 0]), "v": np.array(0, kind), "s": np.array([-1, 2])}
    n = helper.make_node
    nodes = [n("Transpose", ["q"], ["a"], perm=[0, 2, 1]), n("Pad", ["a", "p", "v"], ["b"]),
             n("Reshape", ["b", "s"], ["c"]), n("DequantizeLinear", ["c", "xs", "xz"], ["d"]),
             n("QuantizeLinear", ["d", "ys", "yz"], ["e"]),
             n("Reshape", ["e", "s"], ["g"]), n("Transpose", ["g"], ["h"]),
             n("Transpose", ["c"], ["k"]), n("Flatten", ["k"], ["l"])]  # fmt: skip
    q = np.random.default_rng(4).integers(np.iinfo(kind).min, np.iinfo(kind).max, (2, 4, 3)).astype(kind)
    proto = model(nodes, {"q": q}, constants, ["d", "h", "l"])
    graph = read_onnx(proto)
    known = [(t.type, t.scale, t.zero) for t in (*graph.inputs, *graph.outputs[1:])]
    name = np.dtype(kind).name.upper()
    assert known == [(name, np.float32(s), z) for s, z in ((0.03, 5), (0.05, 100), (0.03, 5))]
    (real, integers, moved), (want, steps, same) = run(graph, {"q": q}), by_onnxruntime(proto, {"q": q})
    np.testing.assert_allclose(real, want, atol=1e-6)
    assert np.abs(integers.astype(int) - steps).max() <= 1
    assert np.array_equal(moved, same)


@pytest.mark.filterwarnings("ignore:.*no integer kernels for weights with a zero point")
@pytest.mark.parametrize(("part", "whole"), [("layer", 53), ("move", 114), ("both", 68)])
def test_random_nets_of_integers_are_a_step_off_at_most(part: str, whole: int) -> None:
    """Weights with scales and zero points along any axis. So many of them compute in integers alone."""
    integers = 0
    for seed in range(150):
        proto, feeds, steps = random_net(Net(seed), part)
        graph = read_onnx(proto)
        integers += not integer_share(graph)
        assert [t.name for t in graph.outputs] == [value.name for value in proto.graph.output]
        for got, want, step in zip(run(graph, feeds), by_onnxruntime(proto, feeds), steps, strict=False):
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            off = np.abs(got.astype(np.float64) - want) / (1 if want.dtype.kind != "f" else step)
            assert off.max() <= 1.01, seed
            assert (off > 0.5).mean() < 0.2, seed
    assert integers >= whole
