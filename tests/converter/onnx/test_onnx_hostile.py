"""ONNX models that are damaged, ask for too much, or look strange and are right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_tools import by_onnxruntime, compare, floats, model, run

import twinfer
from twinfer.command_line.main import main
from twinfer.converter.emit import emitter
from twinfer.converter.onnx import read_onnx
from twinfer.runtime.errors import InvalidArgumentError, ModelError, UnsupportedOperatorError

Node = onnx.NodeProto
FLOAT = np.zeros((1, 4), np.float32)
IMAGE = np.ones((1, 1, 5, 5), np.float32)


def value(name: str, shape: Sequence[int | str | None] | None, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def plain(nodes: Sequence[Node], shape: Sequence[Any] | None, constants: dict[str, np.ndarray]) -> onnx.ModelProto:
    """A model from ``x`` to ``y``; its shapes may be impossible for arrays."""
    stored = [onnx.numpy_helper.from_array(v, k) for k, v in constants.items()]
    graph = helper.make_graph(nodes, "net", [value("x", shape)], [value("y", None)], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


# -- control flow ------------------------------------------------------------------------------------------------------


def branch(name: str, *nodes: Node, constants: Sequence[TensorProto] = ()) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, [], [value(nodes[-1].output[0], [1, 4])], constants)


def choice(condition: str, then: onnx.GraphProto, otherwise: onnx.GraphProto, out: str = "y") -> Node:
    return helper.make_node("If", [condition], [out], then_branch=then, else_branch=otherwise)


@pytest.mark.parametrize("taken", [True, False])
def test_the_branch_of_a_constant_condition(taken: bool) -> None:
    """Branches inside branches read names around them, have constants of their own, and may reuse names of others."""
    two = onnx.numpy_helper.from_array(np.full((1, 4), 2, np.float32), "k")
    three = onnx.numpy_helper.from_array(np.full((1, 4), 3, np.float32), "k")
    add = branch("add", helper.make_node("Add", ["v", "k"], ["s"]), constants=[two])
    sub = branch("sub", helper.make_node("Sub", ["v", "k"], ["s"]), constants=[three])
    outer = branch("outer", helper.make_node("Neg", ["x"], ["v"]), choice("c", add, sub, "w"))
    other = branch("other", helper.make_node("Identity", ["x"], ["w"]))
    nodes = [
        helper.make_node("Not", ["c"], ["d"]),
        choice("always", outer, other, "first"),
        choice("d", branch("a", helper.make_node("Exp", ["first"], ["s"])), other, "second"),
        helper.make_node("Mul", ["first", "second"], ["y"]),
    ]
    feeds = {"x": floats(np.random.default_rng(1), 1, 4)}
    proto = model(nodes, feeds, {"c": np.array(taken), "always": np.array(True)}, ["y"])
    graph = read_onnx(proto)
    assert "IF" not in {node.op for node in graph.nodes}
    compare(run(graph, feeds), by_onnxruntime(proto, feeds))


# -- shapes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [[-1, 3, -1, 1], ["n", 3, None, 1], [0, -1], ["n"]])
def test_a_suggested_shape_is_taken(shape: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(plain([helper.make_node("Relu", ["x"], ["y"])], shape, {}), tmp_path / "m.onnx")
    command = ["convert", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.tflite")]
    assert main(command) == 2
    (suggested,) = re.findall(r"--shape (\S+)", capsys.readouterr().err)
    assert main([*command, "--shape", suggested]) == 0
    assert f"x={','.join(map(str, twinfer.read_file(tmp_path / 'm.tflite').inputs[0].shape))}" == suggested


# -- constants ---------------------------------------------------------------------------------------------------------


def test_a_constant_index_far_out_of_range() -> None:
    """ONNX's reference implementation would walk there step by step, for days."""
    node = helper.make_node("GatherElements", ["k", "i"], ["y"], axis=1)
    with pytest.raises(ModelError, match=r"GatherElements 'y': index 1125899906842624 is out of range for 4"):
        read_onnx(model([node], {"x": FLOAT}, {"k": FLOAT, "i": np.array([[1 << 50]])}, ["y"]))
    for beyond in (4, -5):
        with pytest.raises(ModelError, match=f"index {beyond} is out of range for 4"):
            read_onnx(model([node], {"x": FLOAT}, {"k": FLOAT, "i": np.array([[beyond]])}, ["y"]))
    twice = helper.make_node("GatherElements", ["k", "i"], ["y"], axis=1)
    graph = read_onnx(model([twice], {"x": FLOAT}, {"k": FLOAT + 3, "i": np.array([[-1, 0]])}, ["y"]))
    compare(run(graph, {"x": FLOAT}), [np.full((1, 2), 3, np.float32)])


LONG = np.ones((50_000, 1), np.float32)

#: Constants of gigabytes from a few bytes: operator, inputs, attributes.
HUGE: dict[str, tuple[list[np.ndarray], dict[str, Any]]] = {
    "ConstantOfShape": ([np.array([34_000, 34_000])], {}),
    "Expand": ([np.ones((1, 1), np.float32), np.array([1 << 16, 1 << 16])], {}),
    "Tile": ([np.ones((4, 4), np.float32), np.array([1 << 13, 1 << 13])], {}),
    "Range": ([np.array(0), np.array(1 << 30), np.array(1)], {}),
    "Pad": ([np.ones((2, 4), np.float32), np.array([1 << 29, 1 << 29]), np.array([]), np.array([1])], {}),
    "GatherND": ([np.ones((1, 1 << 14), np.float32), np.zeros((1 << 14, 1), np.int64)], {}),
    "ConvTranspose": ([IMAGE, np.ones((1, 1, 1, 1), np.float32)], {"strides": [10_000, 10_000]}),
    "OneHot": ([np.array([1, 2]), np.array([1 << 30]), np.array([0, 1], np.float32)], {}),
    "Resize": ([IMAGE, np.array([], np.float32), np.array([1, 1, 1e4, 1e4], np.float32)], {}),
    "Add": ([LONG, LONG.T], {}),
    "Gemm": ([LONG.T, LONG], {"transA": 1, "transB": 1}),
    "ConvTranspose, many channels": (
        [np.ones((1, 1, 200, 200), np.float32), np.ones((1, 50_000, 1, 1), np.float32)],
        {},
    ),
    "MatMul": ([LONG, LONG.T], {}),
    "Gather": ([LONG.T, np.zeros(50_000, np.int64)], {}),
    "HannWindow": ([np.array(1 << 30)], {}),
}


@pytest.mark.parametrize("case", HUGE)
def test_huge_constants_are_refused_before_they_are_made(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    op = case.split(",")[0]

    def evaluated(*_: Any, **__: Any) -> None:
        raise AssertionError(f"{op} was computed")

    inputs, attributes = HUGE[case]
    names = [f"i{k}" if value.size else "" for k, value in enumerate(inputs)]
    node = helper.make_node(op, names, ["c"], name="large", **attributes)
    nodes = [node, helper.make_node("Cast", ["c"], ["d"], to=1), helper.make_node("ReduceSum", ["d"], ["s"])]
    nodes.append(helper.make_node("Mul", ["x", "s"], ["y"]))
    proto = plain(nodes, [1, 4], {f"i{k}": v for k, v in enumerate(inputs)})
    monkeypatch.setattr("twinfer.converter.onnx.fold.ReferenceEvaluator", evaluated)
    with pytest.raises(UnsupportedOperatorError, match=rf"{op} \(1x\): .*MB are left for const.*smaller.*node large"):
        read_onnx(proto)


@pytest.mark.parametrize(("kind", "size"), [(None, 4), (np.int8, 1), (np.float64, 8)])
def test_constants_count_by_their_own_type(kind: Any, size: int) -> None:
    """Not by the type of their shape input. 10^9 elements are more than the budget."""
    value = {} if kind is None else {"value": onnx.numpy_helper.from_array(np.zeros(1, kind))}
    nodes = [helper.make_node("ConstantOfShape", ["s"], ["c"], **value), helper.make_node("Cast", ["c"], ["d"], to=1)]
    nodes += [helper.make_node("ReduceSum", ["d"], ["r"]), helper.make_node("Mul", ["x", "r"], ["y"])]
    with pytest.raises(UnsupportedOperatorError, match=rf"takes {size},000 MB more than its inputs"):
        read_onnx(plain(nodes, [1, 4], {"s": np.array([10**9])}))


def test_constants_share_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fits, all together do not. Operators that only move elements cost nothing, a small result gives nothing."""
    monkeypatch.setattr(emitter, "MOST", 100_000)
    weights = np.ones((400, 400), np.float32)
    nodes = [helper.make_node("Transpose", ["w"], ["t0"]), helper.make_node("Gather", ["w", "i"], ["row"])]
    nodes += [helper.make_node("Transpose", [f"t{i}"], [f"t{i + 1}"]) for i in range(4)]
    nodes += [helper.make_node("ConstantOfShape", ["s"], [f"c{i}"], name=f"n{i}") for i in range(3)]
    last = helper.make_node("MatMul", ["x", "t4"], ["y"])
    constants = {"w": weights, "i": np.array([0])}
    assert read_onnx(plain([*nodes, last], [1, 400], {**constants, "s": np.array([9])})).outputs[0].shape == (1, 400)
    with pytest.raises(UnsupportedOperatorError, match=r"1 nodes .*\n.*ConstantOfShape \(1x\): .*node n2$"):
        read_onnx(plain([*nodes, last], [1, 400], {**constants, "s": np.array([10_000])}))


# -- functions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("calls", [{"F": "F"}, {"F": "G", "G": "F"}])
def test_functions_that_call_themselves(calls: dict[str, str]) -> None:
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    functions = [
        helper.make_function("own", name, ["a"], ["b"], [helper.make_node(to, ["a"], ["b"], domain="own")], opsets)
        for name, to in calls.items()
    ]
    proto = plain([helper.make_node("F", ["x"], ["y"], domain="own")], [1, 4], {})
    proto.opset_import.append(opsets[1])
    proto.functions.extend(functions)
    with pytest.raises(ModelError, match=r"functions cannot be inlined: .*own::F"):
        read_onnx(proto)


@pytest.mark.parametrize(("depth", "taken"), [(3, True), (40, False)])
def test_functions_that_call_the_next_twice(depth: int, taken: bool) -> None:
    """As PyTorch writes modules; forty of them would be 2^40 nodes."""
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    bodies = [[helper.make_node(f"F{i + 1}", [a], [b], domain="own") for a, b in ("ab", "bc")] for i in range(depth)]
    bodies.append([helper.make_node("Neg", ["a"], ["c"])])
    functions = [helper.make_function("own", f"F{i}", ["a"], ["c"], body, opsets) for i, body in enumerate(bodies)]
    proto = plain([helper.make_node("F0", ["x"], ["y"], domain="own")], [1, 4], {})
    proto.opset_import.append(opsets[1])
    proto.functions.extend(functions)
    if taken:
        assert [node.op for node in read_onnx(proto).nodes] == ["NEG"] * 2**depth
        return
    with pytest.raises(ModelError, match=f"functions cannot be inlined: {2**depth:,} nodes; the limit is 1,000,000"):
        read_onnx(proto)


@pytest.mark.parametrize("shape", [1, (1.5, 4), "14", (1 << 31, 4), (0, 4), (1, 5), (1, 4, 1)])
def test_shapes_that_are_none(shape: Any) -> None:
    proto = plain([helper.make_node("Relu", ["x"], ["y"])], ["n", 4], {})
    with pytest.raises(InvalidArgumentError, match=r"cannot have the shape .* the model says \[\?, 4\]|whole numbers"):
        read_onnx(proto, shapes={"x": shape})
    assert read_onnx(proto, shapes={"x": [2, np.int64(4)]}).inputs[0].shape == (2, 4)
