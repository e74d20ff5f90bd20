"""Types that TFLite's operators do not compute in, opsets, and operators that ONNX defines by others."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx_tools import by_litert, by_onnxruntime, by_ours, compare, run
from onnx_tools import model as net

import twinfer
from twinfer.converter.onnx import read_onnx
from twinfer.runtime.errors import ModelError, ModelWarning, UnsupportedOperatorError

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def ends(kind: str) -> np.ndarray:
    limits = np.iinfo(kind)
    return np.array([limits.min, limits.max, 3, limits.max // 2, 100, limits.max - 1], kind)


def by_numpy(proto: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    with np.errstate(all="ignore"):
        return list(ReferenceEvaluator(proto).run(None, feeds))


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Max", "Min", "Less", "Equal"])
@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_wrap(op: str, kind: str) -> None:
    feeds = {"x": ends(kind), "z": ends(kind)[::-1].copy()}
    proto = net([helper.make_node(op, ["x", "z"], ["y"])], feeds, {}, ["y"])
    expected = by_numpy(proto, feeds)[0]
    graph = twinfer.convert(proto)
    for got in (by_ours(graph, feeds)[0], by_litert(graph, feeds)[0]):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("to", [*INTEGERS, "bool", "float32"])
@pytest.mark.parametrize("kind", INTEGERS)
def test_casts(kind: str, to: str) -> None:
    x = np.array([0, 1, np.iinfo(kind).max // 2, 100], kind)
    code = helper.np_dtype_to_tensor_dtype(np.dtype(to))
    graph = twinfer.convert(net([helper.make_node("Cast", ["x"], ["y"], to=code)], {"x": x}, {}, ["y"]))
    for got in (by_ours(graph, {"x": x})[0], by_litert(graph, {"x": x})[0]):
        assert got.dtype == to
        np.testing.assert_array_equal(got, x.astype(to))


def test_moved_unsigned_integers() -> None:
    x = np.array([[1 << 31, 2], [3, 4]], np.uint32)
    nodes = [helper.make_node("Transpose", ["x"], ["t"]), helper.make_node("Gather", ["t", "i"], ["y"], axis=1)]
    graph = twinfer.convert(net(nodes, {"x": x}, {"i": np.array([1, 0])}, ["y"]))
    for got in (by_ours(graph, {"x": x})[0], by_litert(graph, {"x": x})[0]):
        np.testing.assert_array_equal(got, x.T[:, ::-1])


@pytest.mark.parametrize("kind", ["FLOAT16", "BFLOAT16", "DOUBLE"])
def test_other_floats_become_float32(kind: str) -> None:
    """With a warning. Constants keep their type until an operator reads them: 1e300 hides what it is added to."""
    code = getattr(onnx.TensorProto, kind)
    weights = helper.make_tensor("w", code, [2], [0.5, -1e300 if kind == "DOUBLE" else -3])
    ends = [helper.make_tensor_value_info(name, code, [2]) for name in "xy"]
    nodes = [helper.make_node("Add", ["x", "w"], ["s"]), helper.make_node("Softmax", ["s"], ["y"])]
    graph = helper.make_graph(nodes, "halves", ends[:1], ends[1:], [weights])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.warns(ModelWarning, match=f"{kind.lower()} there becomes float32; so do inputs and outputs: x, y"):
        converted = twinfer.convert(proto)
    got = by_ours(converted, {"x": np.array([1, 4], np.float32)})[0]
    np.testing.assert_allclose(got, [1, 0] if kind == "DOUBLE" else [0.62246, 0.37754], atol=1e-5)


def test_strings_are_refused_in_words() -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=onnx.TensorProto.STRING)
    with pytest.raises(UnsupportedOperatorError, match="strings, which TFLite does not compute with"):
        twinfer.convert(net([node], {"x": np.ones(2, np.float32)}, {}, ["y"]))


# -- opsets ------------------------------------------------------------------------------------------------------------

IMAGE = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)


@pytest.mark.parametrize("opset", [7, 8, 9, 10, 26, 27, 28])
def test_opsets_before_and_behind(opset: int) -> None:
    """Attributes that later became inputs, and operators of new opsets in which nothing was added."""
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Softmax", ["r"], ["y"])]
    if opset < 10:
        nodes[:1] = [
            helper.make_node("Slice", ["x"], ["s"], starts=[1], ends=[3], axes=[2]),
            helper.make_node("Upsample", ["s"], ["u"], mode="nearest", scales=[1.0, 1.0, 2.0, 2.0])
            if opset == 7
            else helper.make_node("Relu", ["s"], ["u"]),
            helper.make_node("Clip", ["u"], ["r"], min=2.0, max=7.0),
        ]
    proto = net(nodes, {"x": IMAGE}, {}, ["y"], opset)
    reference = by_onnxruntime if opset < 26 else by_numpy
    np.testing.assert_allclose(
        by_ours(twinfer.convert(proto), {"x": IMAGE})[0], reference(proto, {"x": IMAGE})[0], atol=1e-6
    )


def test_what_a_new_opset_adds_is_refused_by_name() -> None:
    """Unless ONNX defines it by other operators, as the CRD order of SpaceToDepth."""
    node = helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=2, mode="CRD")
    proto = net([node], {"x": IMAGE}, {}, ["y"], 28)
    np.testing.assert_array_equal(by_ours(twinfer.convert(proto), {"x": IMAGE})[0], by_numpy(proto, {"x": IMAGE})[0])


@pytest.mark.parametrize(("opset", "hint"), [(0, "opsets 1 to 28"), (40, "update twinfer and onnx")])
def test_opsets_that_are_not_read(opset: int, hint: str) -> None:
    proto = net([helper.make_node("Relu", ["x"], ["y"])], {"x": IMAGE}, {}, ["y"])
    proto.opset_import[0].version = opset
    with pytest.raises(ModelError, match=hint):
        twinfer.convert(proto)


def test_scan_over_batches_is_refused() -> None:
    """ONNX's converter would leave it as it is, with another meaning."""
    text = """<ir_version: 4, opset_import: ["" : 8]>
    g (float[1, 2] h, float[1, 3, 2] x) => (float[1, 2] y, float[1, 3, 2] z) {
      y, z = Scan <num_scan_inputs = 1, body = b (float[2] s, float[2] r) => (float[2] t, float[2] u) {
        t = Add (s, r) u = Identity (t)
      }> ("", h, x)
    }"""
    with pytest.raises(ModelError, match="Scan of opset 8 runs over batches"):
        twinfer.convert(onnx.parser.parse_model(text.replace('"", h', ", h")))


# -- functions ---------------------------------------------------------------------------------------------------------


def test_attention_by_its_body() -> None:
    """A row that the mask hides whole is zero."""
    rng = np.random.default_rng(3)
    feeds: dict[str, Any] = {name: rng.normal(size=(1, 2, 3, 4)).astype(np.float32) for name in "qkv"}
    feeds["m"] = np.array([[True, False, True], [False, False, False], [True, True, True]])
    proto = net([helper.make_node("Attention", ["q", "k", "v", "m"], ["y"])], feeds, {}, ["y"], 23)
    got = by_ours(twinfer.convert(proto), feeds)[0]
    assert (got[:, :, 1] == 0).all()
    np.testing.assert_allclose(got, by_numpy(proto, feeds)[0], atol=1e-5)


@pytest.mark.parametrize(
    ("op", "opset", "shapes", "attributes"),
    [
        ("RMSNormalization", 23, [(2, 5), (5,)], {"epsilon": 1e-3}),
        ("RotaryEmbedding", 23, [(1, 2, 3, 4), (1, 3, 2), (1, 3, 2)], {}),
        ("MeanVarianceNormalization", 13, [(1, 2, 3, 3)], {"axes": [2, 3]}),
        ("SwiGLU", 28, [(2, 6), (2, 6)], {}),
    ],
)
def test_other_bodies(op: str, opset: int, shapes: list[tuple[int, ...]], attributes: dict[str, Any]) -> None:
    rng = np.random.default_rng(4)
    feeds = {f"x{i}": rng.normal(size=shape).astype(np.float32) for i, shape in enumerate(shapes)}
    proto = net([helper.make_node(op, list(feeds), ["y"], **attributes)], feeds, {}, ["y"], opset)
    np.testing.assert_allclose(by_ours(twinfer.convert(proto), feeds)[0], by_numpy(proto, feeds)[0], atol=1e-5)


def test_what_a_body_lacks_is_told() -> None:
    node = helper.make_node("Bernoulli", ["x"], ["y"])
    with pytest.raises(UnsupportedOperatorError, match="ONNX defines it by operators, of which Random"):
        twinfer.convert(net([node], {"x": IMAGE}, {}, ["y"]))


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        ("s = Shape (x) e = GatherElements (s, i) y = Reshape (x, e)", {"i": np.array([2, 0, 1])}),
        ("s = Shape (x) g = Less (s, i) z = NonZero (g) j = Squeeze (z) y = Gather (x, j)", {"i": np.array([4])}),
        (
            "s = Shape (x) q = Equal (s, i) w = Where (q, m, s) y = Reshape (x, w)",
            {"i": np.array(3), "m": np.array(-1)},
        ),
        (
            "s = Size (x) r = Range (z, s, z1) f = CastLike (r, x) y = ReduceMax (f)",
            {"z": np.array(0), "z1": np.array(1)},
        ),
    ],
)
def test_arithmetic_on_shapes_is_done_ahead(nodes: str, constants: dict[str, Any]) -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    parsed = onnx.parser.parse_graph(f"g (float[2, 3, 4] x) => (y) {{ {nodes} }}")
    proto = net(list(parsed.node), {"x": x}, constants, ["y"])
    np.testing.assert_array_equal(by_ours(twinfer.convert(proto), {"x": x})[0], by_onnxruntime(proto, {"x": x})[0])


@pytest.mark.parametrize("kind", ["INT4", "UINT4", "INT2", "UINT2"])
def test_narrow_inputs_and_outputs_become_int8(kind: str) -> None:
    code = getattr(onnx.TensorProto, kind)
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s"], ["f"]),
        helper.make_node("Cast", ["x"], ["y"], to=code),
        helper.make_node("QuantizeLinear", ["x", "s"], ["z"], output_dtype=code),
    ]
    values = [("q", code), ("x", onnx.TensorProto.FLOAT)]
    graph = helper.make_graph(
        nodes,
        "narrow",
        [helper.make_tensor_value_info(name, each, [4]) for name, each in values],
        [helper.make_tensor_value_info(name, each, [4]) for name, each in (("f", 1), ("y", code), ("z", code))],
        [onnx.numpy_helper.from_array(np.float32(0.5), "s")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    with pytest.warns(ModelWarning, match=rf"become int8: q \({kind.lower()}\), y .*, z "):
        read = read_onnx(proto)
    feeds = {"q": np.int8([0, 1, 1, 0]), "x": np.float32([-9.5, -1, 0.4, 1])}
    bits, signed = int(kind[-1]), kind[0] == "I"
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    wrapped = (np.int32([-9, -1, 0, 1]) - low) % (1 << bits) + low
    scaled = np.rint(feeds["x"] / np.float32(0.5)).clip(low, high)
    compare(run(read, feeds), [feeds["q"] * np.float32(0.5), wrapped.astype(np.int8), scaled.astype(np.int8)])
