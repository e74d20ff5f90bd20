"""ONNX models against ONNX Runtime: operator by operator over random shapes and attributes, and whole nets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_tools import Array, by_onnxruntime, compare, floats, model, run

from twinfer.converter.onnx import read_onnx
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError

Rng = np.random.Generator


@dataclass
class Try:
    """One operator with its inputs and attributes."""

    op: str
    inputs: dict[str, Array]
    constants: dict[str, Array] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    order: tuple[str, ...] = ()  # of the inputs; "" is absent
    outputs: tuple[str, ...] = ("y",)
    opset: int = 17
    tolerance: float = 1e-5

    def check(self) -> None:
        names = self.order or (*self.inputs, *self.constants)
        node = helper.make_node(self.op, list(names), list(self.outputs), **self.attributes)
        proto = model([node], self.inputs, self.constants, [name for name in self.outputs if name], self.opset)
        compare(run(read_onnx(proto), self.inputs), by_onnxruntime(proto, self.inputs), self.tolerance)


def pick(rng: Rng, *choices: Any) -> Any:
    return choices[rng.integers(len(choices))]


def window(rng: Rng, rank: int, kernel: list[int], dilated: bool = True) -> dict[str, Any]:
    """Strides, dilations and padding, explicit or by rule (where ONNX Runtime has both together)."""
    attributes: dict[str, Any] = {"strides": [int(s) for s in rng.integers(1, 4, rank)], "kernel_shape": kernel}
    auto = pick(rng, "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
    if auto.startswith("SAME") and any(s > k for s, k in zip(attributes["strides"], kernel, strict=True)):
        auto = "VALID"  # ONNX Runtime would pad by a negative number
    if auto != "NOTSET":
        return {**attributes, "auto_pad": auto}
    if dilated and rng.random() < 0.4:
        attributes["dilations"] = [int(d) for d in rng.integers(1, 3, rank)]
    return {**attributes, "pads": [int(rng.integers(0, k)) for k in kernel * 2]}


def conv(rng: Rng) -> Try:
    rank, groups = int(rng.integers(1, 3)), pick(rng, 1, 1, 2, 4)
    kernel = [int(k) for k in rng.integers(1, 5, rank)]
    per, out = pick(rng, 1, 2), groups * int(rng.integers(1, 4))
    x = floats(rng, int(rng.integers(1, 3)), groups * per, *map(int, rng.integers(9, 13, rank)))
    constants = {"w": floats(rng, out, per, *kernel)} | ({"b": floats(rng, out)} if rng.random() < 0.5 else {})
    return Try("Conv", {"x": x}, constants, {"group": groups, **window(rng, rank, kernel)})


def conv_transpose(rng: Rng) -> Try:
    rank, groups = int(rng.integers(1, 3)), pick(rng, 1, 1, 2)
    kernel = [int(k) for k in rng.integers(1, 5, rank)]
    strides = [int(s) for s in rng.integers(1, 4, rank)]
    x = floats(rng, 2, groups * 2, *map(int, rng.integers(4, 8, rank)))
    attributes: dict[str, Any] = {"group": groups, "strides": strides}
    if rng.random() < 0.3 and all(k >= s for k, s in zip(kernel, strides, strict=True)):
        attributes["auto_pad"] = pick(rng, "SAME_UPPER", "SAME_LOWER")
    else:
        attributes["pads"] = [int(rng.integers(0, k)) for k in kernel * 2]
        attributes["output_padding"] = [int(rng.integers(0, s)) for s in strides]
        attributes["dilations"] = [pick(rng, 1, 1, 2)] * rank
    return Try(
        "ConvTranspose", {"x": x}, {"w": floats(rng, groups * 2, 3, *kernel), "b": floats(rng, 3 * groups)}, attributes
    )


def pool(rng: Rng) -> Try:
    op, rank = pick(rng, "MaxPool", "AveragePool"), int(rng.integers(1, 3))
    kernel = [int(k) for k in rng.integers(1, 4, rank)]
    attributes = window(rng, rank, kernel, dilated=op == "MaxPool")
    if op == "AveragePool":
        attributes["count_include_pad"] = pick(rng, 0, 1)
    if "auto_pad" not in attributes and op == "MaxPool":
        attributes["ceil_mode"] = pick(rng, 0, 1)
    return Try(op, {"x": floats(rng, 2, 3, *map(int, rng.integers(8, 12, rank)))}, {}, attributes)


def global_pool(rng: Rng) -> Try:
    return Try(pick(rng, "GlobalAveragePool", "GlobalMaxPool"), {"x": floats(rng, 2, 3, 4, 5)})


def gemm(rng: Rng) -> Try:
    n, k, m = (int(v) for v in rng.integers(1, 6, 3))
    trans_a, trans_b = int(rng.integers(2)), int(rng.integers(2))
    a, b = floats(rng, *((k, n) if trans_a else (n, k))), floats(rng, *((m, k) if trans_b else (k, m)))
    c = floats(rng, *pick(rng, (m,), (1, m), (n, 1), (1,), (), (n, m)))
    attributes = {"transA": trans_a, "transB": trans_b, "alpha": pick(rng, 1.0, 0.5), "beta": pick(rng, 1.0, 0.25, 0.0)}
    if rng.random() < 0.3:
        return Try("Gemm", {"a": a, "b": b}, {"c": c}, attributes)
    return Try("Gemm", {"a": a}, {"b": b, "c": c}, attributes)


def matmul(rng: Rng) -> Try:
    a, b = pick(
        rng, ((2, 3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (5, 4, 2)), ((3, 4), (4, 2)), ((2, 3, 4), (4,)),
    )  # fmt: skip
    x, y = floats(rng, *a), floats(rng, *b)
    return Try("MatMul", {"x": x}, {"w": y}) if rng.random() < 0.5 else Try("MatMul", {"x": x, "w": y})


def batch_normalization(rng: Rng) -> Try:
    x = floats(rng, 2, 5, *pick(rng, (), (4,), (3, 4)))
    constants = {"s": floats(rng, 5), "b": floats(rng, 5), "m": floats(rng, 5), "v": np.abs(floats(rng, 5)) + 0.1}
    return Try("BatchNormalization", {"x": x}, constants, {"epsilon": pick(rng, 1e-5, 1e-2)})


def activation(rng: Rng) -> Try:
    op, attributes = pick(
        rng, ("Relu", {}), ("LeakyRelu", {"alpha": 0.3}), ("LeakyRelu", {}), ("Sigmoid", {}), ("Tanh", {}),
        ("HardSwish", {}), ("HardSigmoid", {}), ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.4}), ("Elu", {}),
        ("Elu", {"alpha": 0.5}), ("Selu", {}), ("Gelu", {}), ("Gelu", {"approximate": "tanh"}), ("Softsign", {}),
        ("Abs", {}), ("Neg", {}), ("Exp", {}), ("Floor", {}), ("Identity", {}),
    )  # fmt: skip
    return Try(op, {"x": 3 * floats(rng, *pick(rng, (2, 3, 4, 5), (7,), (2, 3)))}, {}, attributes, opset=20)


def clip(rng: Rng) -> Try:
    low, high = pick(rng, (0, 6), (-1, 1), (0, 1), (0, np.inf), (-0.5, 0.7), (-np.inf, 1), (None, 2), (-1, None))
    names = {"low": low, "high": high}
    constants = {k: np.array(v, np.float32) for k, v in names.items() if v is not None}
    return Try(
        "Clip", {"x": 4 * floats(rng, 3, 5)}, constants, order=("x", *(k if k in constants else "" for k in names))
    )


def prelu(rng: Rng) -> Try:
    return Try(
        "PRelu", {"x": floats(rng, 2, 3, 4, 5)}, {"s": floats(rng, *pick(rng, (3, 1, 1), (1,), (1, 3, 1, 1), (5,)))}
    )


def softmax(rng: Rng) -> Try:
    op = pick(rng, "Softmax", "LogSoftmax")
    return Try(op, {"x": floats(rng, 2, 3, 4, 5)}, {}, {"axis": int(rng.integers(-4, 4))}, opset=pick(rng, 11, 13))


def reduction(rng: Rng) -> Try:
    op = pick(rng, "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")
    axes = pick(rng, None, [0], [2, 3], [-1], [1, -2])
    attributes: dict[str, Any] = {"keepdims": pick(rng, 0, 1)}
    opset = pick(rng, 11, 13, 18)
    if axes is None:
        return Try(op, {"x": floats(rng, 2, 3, 4, 5)}, {}, attributes, opset=opset)
    if opset == 18 or (op == "ReduceSum" and opset == 13):
        return Try(op, {"x": floats(rng, 2, 3, 4, 5)}, {"axes": np.array(axes)}, attributes, opset=opset)
    return Try(op, {"x": floats(rng, 2, 3, 4, 5)}, {}, {**attributes, "axes": axes}, opset=opset)


def binary(rng: Rng) -> Try:
    op = pick(rng, "Add", "Sub", "Mul", "Div", "Min", "Max", "Pow")
    x, y = pick(
        rng, ((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((3, 1), (2, 1, 4)), ((2, 3, 4, 5), (3, 1, 1)), ((5,), ())
    )
    a, b = floats(rng, *x), floats(rng, *y)
    a = np.abs(a) + 0.1 if op == "Pow" else a
    return Try(op, {"a": a}, {"b": b}) if rng.random() < 0.5 else Try(op, {"a": a, "b": b})


def power(rng: Rng) -> Try:
    exponent = np.array(pick(rng, 2, 0.5, 3, -1, 1), pick(rng, np.float32, np.float32, np.int64))
    return Try("Pow", {"x": np.abs(floats(rng, 3, 4)) + 0.1}, {"e": exponent})


def variadic(rng: Rng) -> Try:
    op = pick(rng, "Min", "Max", "Sum", "Mean")
    return Try(op, {f"x{i}": floats(rng, 2, 3) for i in range(int(rng.integers(1, 4)))}, {"c": floats(rng, 3)})


def comparison(rng: Rng) -> Try:
    op = pick(rng, "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
    return Try(op, {k: rng.integers(0, 3, (4, 5)).astype(np.float32) for k in "ab"})


def concat(rng: Rng) -> Try:
    axis = int(rng.integers(-3, 3))
    shapes = [[int(rng.integers(1, 4)) if d == axis % 3 else 4 for d in range(3)] for _ in range(3)]
    return Try(
        "Concat", {f"x{i}": floats(rng, *s) for i, s in enumerate(shapes)}, {"c": floats(rng, 4, 4, 4)}, {"axis": axis}
    )


def split(rng: Rng) -> Try:
    x = floats(rng, 3, 7, 4)
    if rng.random() < 0.5:
        return Try("Split", {"x": x}, {"s": np.array([1, 4, 2])}, {"axis": pick(rng, 1, -2)}, outputs=("a", "b", "c"))
    return Try("Split", {"x": x}, {}, {"axis": 1, "num_outputs": 4}, outputs=tuple("abcd"), opset=18)


def slice_(rng: Rng) -> Try:
    starts, ends = rng.integers(-9, 9, 2), rng.integers(-9, 9, 2)
    steps = np.array([pick(rng, 1, 1, 2, -1, -2) for _ in range(2)])
    x = floats(rng, 5, 6, 7)
    for i, axis in enumerate((0, 2)):  # TFLite hardly has empty tensors
        if not len(range(*slice(starts[i], ends[i], steps[i]).indices(x.shape[axis]))):
            starts[i], ends[i], steps[i] = 0, 9, 1
    return Try("Slice", {"x": x}, {"s": starts, "e": ends, "a": np.array([0, pick(rng, 2, -1)]), "t": steps})


def pad(rng: Rng) -> Try:
    mode = pick(rng, "constant", "constant", "reflect", "edge")
    pads = rng.integers(-1, 3, 8) if mode == "constant" else rng.integers(0, 3, 8)
    constants: dict[str, Array] = {"p": pads}
    if mode == "constant" and rng.random() < 0.6:
        constants["v"] = np.array(1.5, np.float32)
    return Try("Pad", {"x": floats(rng, 3, 4, 5, 4)}, constants, {"mode": mode})


def layout(rng: Rng) -> Try:
    x = floats(rng, 2, 1, 3, 4)
    return pick(
        rng,
        Try("Reshape", {"x": x}, {"s": np.array([0, -1, 2])}),
        Try("Flatten", {"x": x}, {}, {"axis": int(rng.integers(-4, 5))}),
        Try("Squeeze", {"x": x}, {"a": np.array([1])}),
        Try("Squeeze", {"x": x}, {}, {"axes": [1]}, opset=11),
        Try("Unsqueeze", {"x": x}, {"a": np.array([0, -1])}),
        Try("Transpose", {"x": x}, {}, {"perm": [int(p) for p in rng.permutation(4)]}),
        Try("Transpose", {"x": x}),
        Try("Expand", {"x": x}, {"s": np.array([5, 2, 1, 3, 1])}),
        Try("Tile", {"x": x}, {"r": np.array([1, 2, 2, 1])}),
        Try("Dropout", {"x": x}),
    )


def resize(rng: Rng) -> Try:
    mode = pick(rng, "nearest", "linear", "cubic")
    attributes = {
        "mode": mode,
        "coordinate_transformation_mode": pick(rng, "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"),
    }
    if mode == "nearest":
        attributes["nearest_mode"] = pick(rng, "floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    x = floats(rng, 1, 2, 4, 6)
    if rng.random() < 0.5:
        sizes = np.array([1, 2, *rng.integers(2, 13, 2)])
        return Try("Resize", {"x": x}, {"s": sizes}, attributes, order=("x", "", "", "s"), tolerance=1e-4)
    scales = np.array([1, 1, pick(rng, 0.5, 2, 1.5), pick(rng, 2, 3, 0.5)], np.float32)
    return Try("Resize", {"x": x}, {"s": scales}, attributes, order=("x", "", "s"), tolerance=1e-4)


def gather(rng: Rng) -> Try:
    axis = int(rng.integers(-3, 3))
    indices = rng.integers(0, 3, pick(rng, (), (2,), (2, 3)))
    x = floats(rng, 3, 4, 5)
    if rng.random() < 0.5:
        return Try("Gather", {"x": x, "i": indices}, {}, {"axis": axis})
    return Try("Gather", {"x": x}, {"i": indices - 3}, {"axis": axis})


def cast(rng: Rng) -> Try:
    source = pick(rng, np.float32, np.int32, np.int64)
    target = getattr(TensorProto, pick(rng, "FLOAT", "INT32", "INT64", "INT8", "BOOL"))
    return Try("Cast", {"x": rng.integers(-9, 9, (3, 4)).astype(source)}, {}, {"to": target})


def depth_to_space(rng: Rng) -> Try:
    if rng.random() < 0.3:
        return Try("SpaceToDepth", {"x": floats(rng, 2, 3, 4, 6)}, {}, {"blocksize": 2})
    return Try("DepthToSpace", {"x": floats(rng, 2, 12, 2, 3)}, {}, {"blocksize": 2, "mode": pick(rng, "DCR", "CRD")})


def arg(rng: Rng) -> Try:
    attributes = {"axis": int(rng.integers(-3, 3)), "keepdims": pick(rng, 0, 1), "select_last_index": pick(rng, 0, 1)}
    return Try(pick(rng, "ArgMax", "ArgMin"), {"x": rng.integers(0, 4, (3, 4, 5)).astype(np.float32)}, {}, attributes)


def recurrent(rng: Rng) -> Try:
    op, gates = pick(rng, ("LSTM", 4), ("GRU", 3), ("RNN", 1))
    t, batch, inputs, hidden = (int(v) for v in rng.integers(1, 5, 4))
    direction = pick(rng, "forward", "reverse", "bidirectional")
    d = 2 if direction == "bidirectional" else 1
    constants = {"w": floats(rng, d, gates * hidden, inputs), "r": floats(rng, d, gates * hidden, hidden)}
    constants["b"] = floats(rng, d, 2 * gates * hidden)
    order, feeds = ["x", "w", "r", "b"], {"x": floats(rng, t, batch, inputs)}
    if rng.random() < 0.5:
        feeds["h"] = floats(rng, d, batch, hidden)
        order += ["", "h"]
        if op == "LSTM":
            constants |= {"c": floats(rng, d, batch, hidden), "p": floats(rng, d, 3 * hidden)}
            order += ["c", "p"]
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if op == "GRU":
        attributes["linear_before_reset"] = pick(rng, 0, 1)
    outputs = ("y", "yh", "yc") if op == "LSTM" else ("y", "yh")
    return Try(op, feeds, constants, attributes, tuple(order), outputs)


def integers(rng: Rng) -> Try:
    x = rng.integers(0, 256, (1, 2, 5, 6)).astype(np.uint8)
    w = rng.integers(-128, 128, (3, 2, 3, 3)).astype(pick(rng, np.int8, np.uint8))
    if rng.random() < 0.5:
        constants = {"w": w, "xz": np.array(7, np.uint8), "wz": np.array(0, w.dtype)}
        return Try("ConvInteger", {"x": x}, constants, {"pads": [1, 0, 1, 2]})
    return Try("MatMulInteger", {"x": x[0, 0]}, {"w": w[:, 0, 0, :].T.copy().repeat(2, 0), "xz": np.array(7, np.uint8)})


TRIES: dict[Callable[[Rng], Try], int] = {
    conv: 24, conv_transpose: 16, pool: 24, global_pool: 2, gemm: 10, matmul: 12, batch_normalization: 4,
    activation: 24, clip: 8, prelu: 4, softmax: 8, reduction: 12, binary: 14, power: 6, variadic: 6, comparison: 5,
    concat: 4, split: 4, slice_: 10, pad: 10, layout: 14, resize: 24, gather: 6, cast: 12, depth_to_space: 6, arg: 6,
    recurrent: 14, integers: 4,
}  # fmt: skip


@pytest.mark.parametrize("make", TRIES, ids=lambda make: make.__name__)
def test_as_onnxruntime(make: Callable[[Rng], Try]) -> None:
    for seed in range(TRIES[make]):
        case = make(np.random.default_rng(seed))
        try:
            case.check()
        except (AssertionError, ModelError, UnsupportedOperatorError) as error:
            raise AssertionError(f"seed {seed}: {case.op} {case.attributes} opset {case.opset}: {error}") from None


@pytest.mark.parametrize("size", [3, 4])
def test_a_window_that_would_begin_behind_the_image_is_left_out(size: int) -> None:
    """ceil_mode: three elements and one of padding in steps of three; the second window would see padding alone."""
    x = floats(np.random.default_rng(0), 1, 1, size)
    window = {"kernel_shape": [2], "strides": [3], "pads": [0, 1], "ceil_mode": 1}
    Try("MaxPool", {"x": x}, {}, window).check()


def test_more_than_a_transposed_convolution_computes_is_refused() -> None:
    x, w = floats(np.random.default_rng(0), 1, 1, 2, 2), np.ones((1, 1, 2, 2), np.float32)
    for extent in (2, 3):
        Try("ConvTranspose", {"x": x}, {"w": w}, {"output_shape": [extent, extent]}).check()
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], output_shape=[5, 5])
    with pytest.raises(UnsupportedOperatorError, match="larger than what is computed"):
        read_onnx(model([node], {"x": x}, {"w": w}, ["y"]))
