"""Whole ONNX nets, and what read_onnx takes and refuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRT
from onnx import helper
from onnx_tools import Array, by_onnxruntime, compare, floats, model, run

import twinfer
from twinfer import convert, convert_file
from twinfer.command_line.main import main
from twinfer.converter.onnx import read_onnx
from twinfer.converter.passes.functions_of_one import functions_of_one
from twinfer.runtime.errors import InvalidArgumentError, ModelError, UnsupportedOperatorError
from twinfer.runtime.write.tflite import write


def cnn(rng: np.random.Generator) -> onnx.ModelProto:
    """Convolution with batch normalisation, a residual block with a depthwise convolution, pooling, a classifier."""
    x = {"x": floats(rng, 1, 3, 16, 16)}
    constants = {
        "w": floats(rng, 8, 3, 3, 3), "dw": floats(rng, 8, 1, 3, 3), "pw": floats(rng, 8, 8, 1, 1),
        "pb": floats(rng, 8), "s": floats(rng, 8), "b": floats(rng, 8), "m": floats(rng, 8),
        "v": np.abs(floats(rng, 8)) + 0.1, "fw": floats(rng, 10, 128), "fb": floats(rng, 10),
        "lo": np.array(0, np.float32), "hi": np.array(6, np.float32),
        "minus": np.array([-1]), "zero": np.array(0), "axes": np.array([0]),
    }  # fmt: skip
    n = helper.make_node
    nodes = [
        n("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        n("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
        n("Clip", ["n", "lo", "hi"], ["r"]),
        n("Conv", ["r", "dw"], ["d"], auto_pad="SAME_UPPER", group=8),
        n("Relu", ["d"], ["dr"]),
        n("Conv", ["dr", "pw", "pb"], ["p"]),
        n("Add", ["p", "r"], ["a"]),
        n("MaxPool", ["a"], ["q"], kernel_shape=[2, 2], strides=[2, 2]),
        n("Shape", ["q"], ["shape"]),  # as exporters write view(x.size(0), -1)
        n("Gather", ["shape", "zero"], ["batch"]),
        n("Unsqueeze", ["batch", "axes"], ["rows"]),
        n("Concat", ["rows", "minus"], ["new"], axis=0),
        n("Reshape", ["q", "new"], ["f"]),
        n("Gemm", ["f", "fw", "fb"], ["g"], transB=1),
        n("Softmax", ["g"], ["y"]),
    ]
    return model(nodes, x, constants, ["y"])


def test_cnn() -> None:
    rng = np.random.default_rng(1)
    proto = cnn(rng)
    feeds = {"x": floats(rng, 1, 3, 16, 16)}
    graph = read_onnx(proto)
    compare(run(graph, feeds), by_onnxruntime(proto, feeds))
    assert [t.name for t in (*graph.inputs, *graph.outputs)] == ["x", "y"]
    assert not {node.op for node in graph.nodes} & {"SHAPE", "GATHER"}  # shapes are known


def test_open_dimensions() -> None:
    """An open batch is 1; other dimensions must be said, and what is suggested works."""
    nodes = [helper.make_node("Add", ["x", "c"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    proto = model(nodes, {"x": np.zeros((1, 3), np.float32)}, {"c": np.zeros((1, 32), np.float32)}, ["y"])
    dims = proto.graph.input[0].type.tensor_type.shape.dim
    dims[0].dim_param, dims[1].dim_param = "N", "length"
    with pytest.raises(InvalidArgumentError, match=r"input 'x' \[1, length\] is open"):
        read_onnx(proto)
    proto.graph.node[0].op_type, proto.graph.initializer[0].dims[:] = "MatMul", [32, 1]
    with pytest.raises(InvalidArgumentError, match=r"--shape x=1,32$"):
        twinfer.convert(proto)
    dims[1].dim_value = 32
    assert read_onnx(proto).outputs[0].shape == (1, 1)
    assert read_onnx(proto, shapes={"x": (5, 32)}).outputs[0].shape == (5, 1)
    for shapes, message in (
        ({"z": (1, 3)}, "no input 'z'"),
        ({"x": (1, 4)}, "cannot have"),
        ({"x": (0, 32)}, "cannot"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            read_onnx(proto, shapes=shapes)


@pytest.mark.parametrize("batch", ["N", "?", -1, 0, None])
def test_a_batch_is_opened_again(batch: Any) -> None:
    """Whatever the model calls it, for a resize in LiteRT too; inputs that share its name share its extent."""
    nodes = [helper.make_node("Reshape", ["x", "s"], ["r"]), helper.make_node("MatMul", ["r", "w"], ["y"])]
    constants = {"s": np.array([-1, 6]), "w": np.ones((6, 2), np.float32)}
    proto = model(nodes, {"x": np.zeros((1, 2, 3), np.float32)}, constants, ["y"])
    dim = proto.graph.input[0].type.tensor_type.shape.dim[0]
    dim.Clear()
    if batch is not None:
        setattr(dim, "dim_param" if isinstance(batch, str) else "dim_value", batch)
    content = write(twinfer.convert(proto))
    x = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    for kind in (twinfer.Interpreter, LiteRT):
        interpreter = kind(model_content=content)
        interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], x.shape)
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
        interpreter.invoke()
        got = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        np.testing.assert_array_equal(got, x.reshape(4, 6).sum(1, keepdims=True).repeat(2, 1))


def test_all_that_is_unsupported_is_told_at_once() -> None:
    n = helper.make_node
    nodes = [
        n("RandomNormalLike", ["x"], ["a"], name="first"),
        n("NonZero", ["a"], ["i"], name="second"),
        n("RandomNormalLike", ["x"], ["b"], name="third"),
        n("RandomUniformLike", ["b"], ["c"], name="fourth"),
        n("Dropout", ["a", "", "training"], ["f"], name="sixth"),
        n("Unique", ["x"], ["d", "e"], name="fifth"),
    ]
    proto = model(nodes, {"x": np.zeros((1, 2, 5), np.float32)}, {"training": np.array(True)}, ["c", "d", "e"])
    with pytest.raises(UnsupportedOperatorError) as caught:
        read_onnx(proto)
    text = str(caught.value)
    parts = (
        "6 nodes",
        "RandomNormalLike (2x)",
        "random values",
        "first, third",
        "NonZero (1x)",
        "RandomUniformLike (1x)",
        "that runs the model; node fifth",
        "sixth",
    )
    assert [part for part in parts if part not in text] == []


def test_masks_hide_by_infinity() -> None:
    """A causal mask, as PyTorch adds it to scores; NaN among it is refused."""
    nodes = [helper.make_node("Add", ["x", "mask"], ["s"]), helper.make_node("Softmax", ["s"], ["y"])]
    feeds = {"x": floats(np.random.default_rng(8), 2, 4, 4)}
    mask = np.triu(np.full((4, 4), -np.inf, np.float32), 1)
    proto = model(nodes, feeds, {"mask": mask}, ["y"])
    compare(run(read_onnx(proto), feeds), by_onnxruntime(proto, feeds))
    for wrong, count in ((np.nan, 7), (np.inf, 7), (1e-3, 6)):  # a table that is no mask may not be infinite
        mask[0, 0] = wrong
        with pytest.raises(ModelError, match=rf"'mask'.* has {count} values that are NaN or infinite"):
            read_onnx(model(nodes, feeds, {"mask": mask}, ["y"]))


def test_opsets() -> None:
    proto = model([helper.make_node("Relu", ["x"], ["y"])], {"x": np.zeros(3, np.float32)}, {}, ["y"])

    def refusal(opset: int) -> str:
        proto.opset_import[0].version = opset
        try:
            read_onnx(proto)
        except ModelError as error:
            return str(error)
        return ""

    first, last = map(int, re.findall(r"the model has opset 99; opsets (\d+) to (\d+) are read", refusal(99))[0])
    assert not any(map(refusal, range(first, last + 1)))
    assert all(f"has opset {n};" in refusal(n) for n in (first - 1, last + 1))


def test_damaged(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"no model")
    for source in (b"no model", tmp_path / "net.onnx"):
        with pytest.raises(ModelError, match="not an ONNX"):
            read_onnx(source)
    with pytest.raises(InvalidArgumentError, match="no such file"):
        read_onnx(tmp_path / "none.onnx")
    x = {"x": np.zeros((2, 3), np.float32)}
    for node, message in (
        (helper.make_node("Relu", ["z"], ["y"]), "reads 'z'"),
        (helper.make_node("Add", ["x"], ["y"]), "damaged"),
        (helper.make_node("Reshape", ["x", "s"], ["y"]), "cannot be reshaped"),
        (helper.make_node("Concat", ["x"], ["y"], axis=5), "axis 5"),
        (helper.make_node("Unsqueeze", ["x", "t"], ["y"]), "name one axis twice"),
    ):
        with pytest.raises(ModelError, match=message):
            read_onnx(unchecked(node, x, {"s": np.array([4, 2]), "t": np.array([1, -3])}))


def test_weights_in_a_file_of_their_own(tmp_path: Path) -> None:
    whole = cnn(np.random.default_rng(5))
    expected = write(read_onnx(whole))
    onnx.save(whole, tmp_path / "net.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert write(read_onnx(tmp_path / "net.onnx")) == expected
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(ModelError, match=r"net\.onnx.*weights"):
        read_onnx(tmp_path / "net.onnx")


def unchecked(node: onnx.NodeProto, inputs: Mapping[str, Array], constants: Mapping[str, Array]) -> onnx.ModelProto:
    """A model that may contradict itself."""
    proto = model([], inputs, constants, [])
    proto.graph.node.append(node)
    proto.graph.output.append(onnx.ValueInfoProto(name="y"))
    return proto


def test_a_file_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if its weights are in a file beside it, which convert must not overwrite."""
    onnx.save(
        cnn(np.random.default_rng(1)),
        tmp_path / "net.onnx",
        save_as_external_data=True,
        location="weights.tflite",
        size_threshold=64,
    )
    parsed, load = list[int](), onnx.load_model_from_string
    monkeypatch.setattr(onnx, "load_model_from_string", lambda content: parsed.append(len(content)) or load(content))
    assert main(["convert", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "out.tflite")]) == 0
    convert_file(tmp_path / "net.onnx", tmp_path / "out.tflite")
    assert len(parsed) == 2
    with pytest.raises(InvalidArgumentError, match="is read"):
        convert_file(tmp_path / "net.onnx", tmp_path / "weights.tflite")


IMAGE, ROW, ints = (1, 4, 6, 6), (2, 6), np.array
#: Operator, shape of x, further inputs (shapes are those of floats), attributes, and what is said.
WRONG: list[tuple[str, tuple[int, ...], list[Any], dict[str, Any], str]] = [
    ("Conv", IMAGE, [(2, 3, 3, 3)], {}, "1 groups do not fit input"),
    ("Conv", IMAGE, [(2, 4, 3, 3)], {"strides": [1]}, "kernel, strides and dilations must have 2 numbers"),
    ("Conv", IMAGE, [(2, 4, 3, 3)], {"pads": [1, 1, -1, 1]}, "must be 4 numbers from zero up"),
    ("Conv", IMAGE, [(2, 4, 3, 3)], {"auto_pad": "SAME"}, "auto_pad 'SAME' does not exist"),
    ("Conv", IMAGE, [(2, 4, 7, 1)], {}, "does not fit into the padded image"),
    ("ConvTranspose", (1, 3, 6, 6), [(3, 2, 3, 3)], {"group": 2}, "and 2 groups"),
    ("ArgMax", (6, 0), [], {"axis": 1}, "the place of an extreme of nothing"),
    ("Squeeze", IMAGE, [ints([1])], {}, "are not all 1"),
    ("Reshape", ROW, [ints([5, -1])], {}, "cannot be reshaped"),
    ("Split", ROW, [ints([7, -1])], {"axis": 1}, "cannot be split"),
    ("Pad", ROW, [ints([1, 1])], {}, "2 pads for 2 axes"),
    ("DepthToSpace", (1, 6, 2, 2), [], {"blocksize": 2}, "6 channels do not divide by 2x2"),
    ("GroupNormalization", IMAGE, [(4,), (4,)], {"num_groups": 3}, "4 channels do not divide by 3 groups"),
    ("Resize", ROW, [None, None, ints([0, 6])], {}, "dimension 0 of .* becomes 0"),
    ("Resize", ROW, [None, np.float32([1, 2, 3])], {}, "it needs 2 scales or sizes"),
    ("Resize", ROW, [], {}, "it needs 2 scales or sizes"),
    ("RNN", (3, 1, 2), [(1, 4, 2), (1, 4, 4)], {"direction": "both", "hidden_size": 4}, "direction 'both' does not"),
    ("Einsum", ROW, [], {"equation": "ij->ijj"}, "a letter twice in the result"),
    ("MatMul", ROW, [np.float32(2)], {}, "'c0' .*is a scalar and cannot be multiplied as a matrix"),
    ("MatMul", (), [(6,)], {}, "'x' .*is a scalar and cannot be multiplied as a matrix"),
    ("MatMul", ROW, [(5, 2)], {}, "'x' .* and .*'c0' .* cannot be multiplied"),
    ("GlobalAveragePool", (4, 3), [], {}, "spatial dimensions"),
    (
        "RNN",
        (3, 1, 2),
        [(1, 4, 2), (1, 4, 4)],
        {"activations": ["Gelu"], "hidden_size": 4},
        "activations gelu; there are",
    ),
    ("BatchNormalization", IMAGE, [(4,)] * 4, {"training_mode": 1}, "training mode"),
    ("QuantizeLinear", ROW, [np.float32(np.inf), np.int8(0)], {}, "it must be finite and above zero"),
]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: f"{case[0]}: {case[4]}")
def test_what_does_not_fit_is_refused(case: tuple[str, tuple[int, ...], list[Any], dict[str, Any], str]) -> None:
    op, shape, more, attributes, message = case
    rng, names = np.random.default_rng(2), [("" if value is None else f"c{i}") for i, value in enumerate(more)]
    constants = {
        name: floats(rng, *value) if isinstance(value, tuple) else np.asarray(value)
        for name, value in zip(names, more, strict=True) if name
    }  # fmt: skip
    proto = unchecked(helper.make_node(op, ["x", *names], ["y"], **attributes), {"x": floats(rng, *shape)}, constants)
    proto.opset_import[0].version = 21
    with pytest.raises((ModelError, UnsupportedOperatorError), match=message) as caught:
        read_onnx(proto)
    assert op in str(caught.value)


def test_an_output_that_nothing_writes() -> None:
    proto = model([helper.make_node("Neg", ["x"], ["y"])], {"x": np.ones((1, 4), np.float32)}, {}, ["y"])
    proto.graph.output[0].name = "z"
    with pytest.raises(ModelError, match=r"'?z\b"):
        read_onnx(proto)


def test_what_is_not_gelu() -> None:
    others: list[Callable[[Spelled, str], str]] = [
        lambda f, e: f("Mul", "x", f("Add", e, 2.0)),
        lambda f, e: f("Add", e, 1.0),
        lambda f, e: f("Mul", "x", f("Sub", 1.0, e)),
        lambda f, e: f("Mul", f("Mul", "x", "x"), f("Add", e, 1.0)),
        lambda f, e: f("Mul", "z", f("Add", e, 1.0)),
        lambda f, e: f("Mul", "x", f("Add", f("Erf", f("Mul", "x", -0.5)), 1.0)),
        lambda f, e: f("Add", f("Mul", "x", 0.5), f("Mul", f("Mul", "x", f("Mul", e, f("Erf", "x"))), 0.5)),
        lambda f, e: f("Mul", "x", f("Add", f("Add", e, f("Erf", "x")), 2.0)),
        lambda f, e: f("Mul", "x", f("Add", f("Erf", f("Mul", "x", f("Add", e, 1.0))), 1.0)),
    ]
    x = {name: 2 * floats(np.random.default_rng(3), 4, 50) for name in ("x", "z")}
    for other in others:
        f = Spelled()
        y = other(f, f("Erf", f("Mul", "x", 0.7)))
        proto = model(f.nodes, x, f.constants, [y])
        compare(run(functions_of_one(read_onnx(proto)), x), by_onnxruntime(proto, x), 1e-6)


class Spelled:
    """Nodes of a formula over x, whose numbers become constants."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def __call__(self, op: str, *operands: str | float) -> str:
        for k in (v for v in operands if not isinstance(v, str)):
            self.constants[str(k)] = np.array(k, np.float32)
        self.nodes.append(helper.make_node(op, [str(v) for v in operands], [f"v{len(self.nodes)}"]))
        return f"v{len(self.nodes) - 1}"


@pytest.mark.parametrize("inner", [0.70710678, 0.3, 2.0])
@pytest.mark.parametrize("divided", [False, True])
def test_gelu_by_erf_in_any_spelling(inner: float, divided: bool) -> None:
    """Of x or of a multiple of it, times any number; each spelling is one GELU, with products of numbers around it."""
    spellings: list[Callable[[Spelled, str], str]] = [
        lambda f, e: f("Mul", f("Mul", "x", f("Add", e, 1.0)), 0.5),
        lambda f, e: f("Mul", f("Mul", 0.5, "x"), f("Add", 1.0, e)),
        lambda f, e: f("Div", f("Mul", f("Add", e, 1.0), "x"), 2.0),
        lambda f, e: f("Mul", "x", f("Mul", f("Add", 1.0, e), 0.7)),
        lambda f, e: f("Mul", f("Add", f("Div", e, 2.0), 0.5), "x"),
        lambda f, e: f("Add", f("Mul", "x", 0.5), f("Mul", f("Mul", "x", e), 0.5)),
        lambda f, e: f("Add", f("Mul", f("Mul", "x", 3.0), e), f("Mul", "x", 3.0)),
    ]
    x = {"x": floats(np.random.default_rng(1), 4, 30) * 2}
    for spelling in spellings:
        f = Spelled()
        y = spelling(f, f("Erf", f("Div", "x", 1 / inner) if divided else f("Mul", inner, "x")))
        proto = model(f.nodes, x, f.constants, [y])
        graph = functions_of_one(read_onnx(proto))
        assert [node.op for node in graph.nodes if node.op != "MUL"] == ["GELU"]
        compare(run(graph, x), by_onnxruntime(proto, x), 1e-5)


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize(("spelled", "imported"), [("ai.onnx", ""), ("", "ai.onnx"), ("ai.onnx", "ai.onnx")])
def test_two_names_of_the_domain_of_onnx(spelled: str, imported: str, opset: int) -> None:
    """Softmax without an axis means other things before and after opset 13."""
    feeds = {"x": floats(np.random.default_rng(3), 2, 3, 4)}
    proto = model([helper.make_node("Softmax", ["x"], ["y"])], feeds, {}, ["y"], opset)
    want = by_onnxruntime(proto, feeds)
    proto.graph.node[0].domain = spelled
    proto.opset_import[0].domain = imported
    compare(run(read_onnx(proto), feeds), want)


def test_only_what_is_at_fault_is_named() -> None:
    """Behind a value that is lost, operators that ONNX defines by others are no fault of their own."""
    n = helper.make_node
    nodes = [
        n("NonZero", ["x"], ["lost"]),
        n("Cast", ["lost"], ["c"], to=1),
        n("DynamicQuantizeLinear", ["c"], ["y", "s", "z"]),
    ]
    x = {"x": np.zeros((2, 3), np.float32)}
    with pytest.raises(UnsupportedOperatorError) as raised:
        read_onnx(model(nodes, x, {}, ["y"]))
    assert {op for op, _ in raised.value.by_reason} == {"NonZero"}


def test_every_tensor_has_a_name_of_its_own() -> None:
    """Other quantisers refuse a file in which two tensors are called alike."""
    graph = convert(cnn(np.random.default_rng(3)))
    names = [tensor.name for tensor in graph.tensors]
    assert sum(tensor.data is not None for tensor in graph.tensors) > 5
    assert len(set(names)) == len(names)
