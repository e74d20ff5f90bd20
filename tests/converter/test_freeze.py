"""Inputs that become constants: values, shapes that depend on them, and what does not fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from flows import Sub

import twinfer
from twinfer.command_line.main import main
from twinfer.converter.build import Builder
from twinfer.converter.passes._rewrite import swap_tensors
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph, Signature
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.tflite import read, read_file
from twinfer.runtime.run.session import Session
from twinfer.runtime.write.tflite import write


def largest() -> Graph:
    """The k largest of 8 values, and where they are; k is an input."""
    main = Sub("main")
    x, k = main.input((8,)), main.input((), "INT32")
    y = main.tensor((1,), shape_signature=(-1,)), main.tensor((1,), "INT32", shape_signature=(-1,))
    main.run("TOPK_V2", [x, k], y)
    return main.graph(y, signatures=(Signature("serve", {"x": x, "k": k}, {"values": y[0]}),))


def run(graph: Graph, *values: Any) -> list[Any]:
    session = Session(make_plan(graph))
    for tensor, value in zip(session.plan.graph.inputs, values, strict=True):
        session.view(tensor)[...] = value
    session.run()
    return [session.view(tensor).copy() for tensor in session.plan.graph.outputs]


@pytest.mark.parametrize("k", [1, np.int64(3), [5], np.array(8, np.int32)])
def test_a_shape_follows_from_the_value(k: Any) -> None:
    graph = twinfer.convert(largest(), constants={"main_1": k})
    values, places = run(graph, [3, 1, 4, 1, 5, 9, 2, 6])
    count = int(np.reshape(k, ()))
    np.testing.assert_array_equal(values, [9, 6, 5, 4, 3, 2, 1, 1][:count])
    np.testing.assert_array_equal(places, [5, 7, 4, 2, 0, 6, 1, 3][:count])
    assert list(graph.signatures[0].inputs) == ["x"]
    assert [t.shape for t in graph.signatures[0].outputs.values()] == [(count,)]


def test_names_of_the_signature() -> None:
    graph = twinfer.convert(largest(), constants={"k": 2})
    assert list(graph.signatures[0].inputs) == ["x"]
    assert run(graph, [3, 1, 4, 1, 5, 9, 2, 6])[0].tolist() == [9, 6]
    sub = Sub("main")
    x = sub.input((1, 2), shape_signature=(-1, -1))
    y = sub.add(x, x)
    vague = sub.graph([y], signatures=(Signature("main", {"signal": x}, {"y": y}),))
    assert [t.shape for t in twinfer.convert(vague, shapes={"signal": (3, 4)}).outputs] == [(3, 4)]


def test_own_names_go_first() -> None:
    """A signature may call each input by the other's name: constants and shapes are those of the tensors' own names."""
    sub = Sub("main")
    x, y = (sub.input((1, 2), shape_signature=(-1, -1)) for _ in range(2))
    z = sub.op("CONCATENATION", [x, y], shape=(1, 4), axis=1, fused_activation_function="NONE")
    crossed = Signature("main", {"main_1": x, "main_0": y, "other": y}, {"z": z})
    graph = sub.graph([z], signatures=(crossed,))
    fixed = twinfer.convert(graph, constants={"main_0": [[5, 6]]}, shapes={"main_1": (1, 3)})
    assert [(t.name, t.shape) for t in fixed.inputs] == [("main_1", (1, 3))]
    assert run(fixed, [[1, 2, 3]])[0].tolist() == [[5, 6, 1, 2, 3]]
    assert list(fixed.signatures[0].inputs) == ["main_0", "other"]
    both = twinfer.convert(graph, shapes={"main_0": (3, 1), "main_1": (3, 2)})
    assert [t.shape for t in (*both.inputs, *both.outputs)] == [(3, 1), (3, 2), (3, 3)]


def test_from_the_command_line(tmp_path: Path) -> None:
    path, out = tmp_path / "k.tflite", tmp_path / "k3.tflite"
    largest().save(path)
    assert main(["convert", str(path), "-o", str(out), "--constant", "main_1=3"]) == 0
    np.save(tmp_path / "k.npy", np.int32(2))
    assert [t.shape for t in make_plan(read_file(out)).graph.outputs] == [(3,), (3,)]
    assert main(["convert", str(path), "-o", str(out), "--constant", f"main_1={tmp_path / 'k.npy'}"]) == 0
    assert [t.shape for t in make_plan(read_file(out)).graph.outputs] == [(2,), (2,)]


@pytest.mark.parametrize("text", ["k", "=3", "main_1=", "main_1=three", "main_1=1,,2"])
def test_no_constant(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.tflite"
    largest().save(path)
    assert main(["convert", str(path), "-o", str(tmp_path / "o.tflite"), "--constant", text]) == 2
    assert "NAME=3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"n": 3}, r"'n': no input is called so; the inputs are: 'main_0', 'main_1'"),
        ({"k": 3, "main_1": 2}, "has one already, by its other name"),
        ({"main_1": 2.5}, r"cannot hold \[2\.5\]"),
        ({"main_1": 1 << 40}, "cannot hold"),
        ({"main_1": [1, 2]}, "has 1 elements, its constant 2"),
        ({"main_0": np.zeros((2, 3))}, "has 8 elements, its constant 6"),
        ({"main_0": "eight"}, "cannot become a constant"),
    ],
)
def test_what_does_not_fit(constants: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        twinfer.convert(largest(), constants=constants)


def test_inputs_that_cannot_become_constants() -> None:
    """One that an operator writes, and two of one name."""
    sub = Sub("main")
    x, y, z = (sub.input((2,)) for _ in range(3))
    sub.run("ADD", [x, y], [y], fused_activation_function="NONE")
    with pytest.raises(InvalidArgumentError, match="an operator writes this input"):
        twinfer.convert(sub.graph([y]), constants={"main_1": [1, 2]})
    sub = Sub("main")
    x, y, z = (sub.input((2,)) for _ in range(3))
    same = replace(y, name=x.name)
    sub.inputs[1] = sub.tensors[1] = same
    graph = sub.graph([sub.add(sub.add(x, same), z)])
    with pytest.raises(InvalidArgumentError, match="'main_0': several inputs are called so"):
        twinfer.convert(graph, constants={"main_0": [1, 2]})
    assert len(twinfer.convert(graph, constants={"main_2": [1, 2]}).inputs) == 2


def onnx_model() -> Any:
    """x [2, 6] in a shape that an input says, negative where another input is true."""
    make, types = onnx.helper.make_tensor_value_info, onnx.TensorProto
    branches = {}
    for op in ("Neg", "Abs"):
        node = onnx.helper.make_node(op, ["r"], [op])
        branches[op] = onnx.helper.make_graph([node], op, [], [make(op, types.FLOAT, None)])
    nodes = [
        onnx.helper.make_node("Reshape", ["x", "s"], ["r"]),
        onnx.helper.make_node("If", ["c"], ["y"], then_branch=branches["Neg"], else_branch=branches["Abs"]),
    ]
    inputs = [make("x", types.FLOAT, [2, 6]), make("s", types.INT64, ["n"]), make("c", types.BOOL, [])]
    graph = onnx.helper.make_graph(nodes, "g", inputs, [make("y", types.FLOAT, None)])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def test_of_an_onnx_model() -> None:
    """Constants are there before the model is read: a shape and a branch follow from them."""
    graph = twinfer.convert(onnx_model(), constants={"s": [3, 4], "c": True})
    assert [(t.name, t.shape) for t in graph.inputs] == [("x", (2, 6))]
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    np.testing.assert_array_equal(run(graph, x)[0], -x.reshape(3, 4))


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"n": 3}, r"'n': no input is called so; the inputs are: 'x', 's', 'c'"),
        ({"s": [[3, 4]]}, r"'s' \[-1\] cannot be a constant \[1, 2\]"),
        ({"s": [2.5, 4]}, r"cannot hold \[2\.5"),
        ({"s": [12], "x": [1, 2]}, "has 12 elements, its constant 2"),
    ],
)
def test_what_does_not_fit_an_onnx_model(constants: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        twinfer.convert(onnx_model(), constants=constants)


@pytest.mark.parametrize(("batch", "rows"), [(1, 1), (-1, -1)])
def test_slices_are_opened_where_the_files_batch_is_open(batch: int, rows: int) -> None:
    b = Builder("net")
    x = b.input("x", "FLOAT32", (1, 4))
    graph = b.graph([b.op("SLICE", [x, np.array([0, 0], np.int32), np.array([1, 2], np.int32)])])
    graph = swap_tensors(graph, {x: replace(x, shape_signature=(batch, 4) if batch < 0 else ())})
    sizes = twinfer.convert(read(write(graph), "net")).nodes[0].input(2).data
    assert sizes is not None
    assert sizes.tolist() == [rows, 2]
