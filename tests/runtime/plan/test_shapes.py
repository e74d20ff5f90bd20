"""Shapes inferred anew: against LiteRT's resize_tensor_input, and the rules of the pass."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flows import Sub
from needs import SHARED

from twinfer.runtime.check import check
from twinfer.runtime.errors import InvalidArgumentError, ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import DTYPES, Graph, Node, Signature, Tensor
from twinfer.runtime.op import Shape, tensor
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.tflite import read_file
from twinfer.runtime.registry import missing
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.shapes import infer_shapes
from twinfer.runtime.write.tflite import write

CORPUS = SHARED / "corpus"


def index(*values: int) -> Tensor:
    return tensor((len(values),), "INT32", data=np.array(values), name=f"index {values}")


def graph_of(inputs: tuple[Tensor, ...], nodes: tuple[Node, ...], *outputs: Tensor) -> Graph:
    used = dict.fromkeys(t for node in nodes for t in (*node.inputs, *node.outputs) if t is not None)
    return Graph("test", tuple(dict.fromkeys((*inputs, *used))), nodes, inputs, outputs)


def flatten(batch: int = 1, more_outputs: bool = False) -> Graph:
    """x [batch, 4, 6] -> y [batch, 24], as converters write it: SHAPE, STRIDED_SLICE, PACK, RESHAPE."""
    x = replace(tensor((batch, 4, 6), name="x"), shape_signature=(-1, 4, 6))
    shape = tensor((3,), "INT32", name="shape")
    first = replace(tensor((), "INT32", name="first"), extra={"has_rank": True})
    wanted, y = tensor((2,), "INT32", name="wanted"), tensor((batch, 24), name="y")
    rest = tensor((), "INT32", data=np.array(24), name="rest")
    cut = {"shrink_axis_mask": 1}
    nodes = (
        Node("SHAPE", (x,), (shape,), {"out_type": "INT32"}),
        Node("STRIDED_SLICE", (shape, index(0), index(1), index(1)), (first,), cut),
        Node("PACK", (first, rest), (wanted,), {"axis": 0, "values_count": 2}),
        Node("RESHAPE", (x, wanted), (y,), {"new_shape": ()}),
    )
    graph = graph_of((x,), nodes, y, *((shape, wanted) if more_outputs else ()))
    return replace(graph, signatures=(Signature("serve", {"x": x}, {"y": y}),))


def run(graph: Graph, values: list[Any]) -> list[Any]:
    session = Session(make_plan(graph))
    for t, value in zip(graph.inputs, values, strict=True):
        session.view(t)[...] = value
    session.run()
    return [np.array(session.view(t)) for t in graph.outputs]


def run_litert(graph: Graph, values: list[Any]) -> list[Any]:
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    kinds = litert.OpResolverType
    summed = any(n.op == "SUM" for n in graph.nodes)  # the reference kernel's int8 is wrong
    kind = kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES if summed else kinds.BUILTIN_REF
    peer = litert.Interpreter(model_content=write(graph), experimental_op_resolver_type=kind)
    indices = [d["index"] for d in peer.get_input_details()]
    for at, value in zip(indices, values, strict=True):
        peer.resize_tensor_input(at, value.shape)
    peer.allocate_tensors()
    for at, value in zip(indices, values, strict=True):
        peer.set_tensor(at, value)
    peer.invoke()
    return [peer.get_tensor(d["index"]) for d in peer.get_output_details()]


def same_as_litert(graph: Graph, shapes: Mapping[Tensor, Shape]) -> None:
    resized = infer_shapes(graph, shapes)
    check(resized)
    values = random_inputs(resized, 7)
    for got, want in zip(run(resized, values), run_litert(graph, values), strict=True):
        assert got.shape == want.shape
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("more_outputs", [False, True])
def test_shape_arithmetic_is_folded(batch: int, more_outputs: bool) -> None:
    graph = flatten(more_outputs=more_outputs)
    resized = infer_shapes(graph, {graph.inputs[0]: (batch, 4, 6)})
    assert resized.outputs[0].shape == (batch, 24)
    assert [node.op for node in resized.nodes] == (["SHAPE", "PACK", "RESHAPE"] if more_outputs else ["RESHAPE"])
    assert [t.name for t in resized.tensors[: len(graph.tensors)]] == [t.name for t in graph.tensors]
    assert resized.signatures[0].outputs["y"] is resized.outputs[0]
    same_as_litert(graph, {graph.inputs[0]: (batch, 4, 6)})


def test_what_only_shapes_and_constants_decide_is_folded() -> None:
    """RANK, BROADCAST_ARGS, RANGE, FILL, WHERE and ZEROS_LIKE leave no operator behind."""
    number = lambda value: tensor((), "INT32", data=np.array(value), name=f"number {value}")  # noqa: E731
    x, y = tensor((2, 3, 4), name="x"), tensor((2, 3, 4), name="y")
    mask = tensor((3,), "BOOL", data=np.array([True, False, True]), name="mask")
    computed: tuple[tuple[str, tuple[Tensor, ...], Tensor, list[float]], ...] = (
        ("RANK", (x,), tensor((), "INT32", name="rank"), [3]),
        ("BROADCAST_ARGS", (index(3, 1), index(2, 1, 4)), tensor((3,), "INT32", name="args"), [2, 3, 4]),
        ("RANGE", (number(3), number(0), number(-1)), tensor((3,), "INT32", name="range"), [3, 2, 1]),
        ("FILL", (index(2), tensor((), data=np.array(7.5))), tensor((2,), name="filled"), [7.5, 7.5]),
        ("WHERE", (mask,), tensor((2, 1), "INT64", name="places"), [0, 2]),
        ("ZEROS_LIKE", (tensor((2,), "INT32", name="z"),), tensor((2,), "INT32", name="zeros"), [0, 0]),
    )
    nodes = (*(Node(op, inputs, (out,)) for op, inputs, out, _ in computed), Node("ABS", (x,), (y,)))
    folded = infer_shapes(graph_of((x, computed[-1][1][0]), nodes, y))
    assert [node.op for node in folded.nodes] == ["ABS"]
    values = {t.name: t.data for t in folded.tensors if t.data is not None}
    for _, _, out, want in computed:
        assert np.asarray(values[out.name]).ravel().tolist() == want
        assert values[out.name].dtype == out.dtype
    assert [step.node.op for step in make_plan(folded).steps] == ["ABS"]


def test_a_folded_operator_writes_all_its_outputs_if_one_is_the_graphs() -> None:
    """A SPLIT of a shape: one part is an output of the graph, the other one only has a reader."""
    x, shape = tensor((3, 4), name="x"), tensor((2,), "INT32", name="shape")
    rows, cols = (tensor((1,), "INT32", name=name) for name in ("rows", "cols"))
    y = tensor((4,), name="y")
    axis = tensor((), "INT32", data=np.array(0), name="axis")
    nodes = (
        Node("SHAPE", (x,), (shape,), {"out_type": "INT32"}),
        Node("SPLIT", (axis, shape), (rows, cols), {"num_splits": 2}),
        Node("BROADCAST_TO", (tensor((1,), data=np.ones(1), name="one"), cols), (y,)),
    )
    graph = Graph("split", (x, *nodes[2].inputs[:1], axis, shape, rows, cols, y), nodes, (x,), (rows, y))
    check(infer_shapes(graph))
    first, second = run(graph, [np.zeros((3, 4), np.float32)])
    assert first.tolist() == [3]
    assert second.tolist() == [1] * 4


def test_rank_may_change() -> None:
    x, y = tensor((2, 3), name="x"), tensor((1, 2, 3), name="y")
    graph = graph_of((x,), (Node("EXPAND_DIMS", (x, index(0)), (y,)),), y)
    same_as_litert(graph, {x: (2, 3, 4)})


@pytest.mark.parametrize(("shape", "signature"), [((5, 3), (-1, 3)), ((5, 3, 1), ())])
def test_a_signature_stays_while_it_fits(shape: Shape, signature: Shape) -> None:
    x = replace(tensor((2, 3), name="x"), shape_signature=(-1, 3))
    resized = infer_shapes(graph_of((x,), (Node("ABS", (x,), (replace(x, name="y"),)),)), {x: shape})
    assert [t.shape for t in resized.tensors] == [shape, shape]
    assert [t.shape_signature for t in resized.tensors] == [signature, signature]


def test_every_layer_behind_takes_the_new_shape() -> None:
    x, *rest = (tensor((2, 3), name=name) for name in "xyzw")
    nodes = tuple(Node("ABS", (a,), (b,), index=i) for i, (a, b) in enumerate(zip((x, *rest), rest, strict=False)))
    resized = infer_shapes(graph_of((x,), nodes, rest[-1]), {x: (5, 3)})
    assert [t.shape for t in resized.tensors] == [(5, 3)] * 4


def test_an_input_may_become_empty() -> None:
    x = replace(tensor((2, 3), name="x"), shape_signature=(-1, 3))
    y = tensor((2, 3), name="y")
    graph = infer_shapes(graph_of((x,), (Node("ABS", (x,), (y,)),), y), {x: (0, 3)})
    (got,) = run(graph, [np.zeros((0, 3), np.float32)])
    assert got.shape == (0, 3)


def test_what_is_static_stays() -> None:
    x, y = tensor((2, 3), name="x"), tensor((3, 2), name="y")
    graph = graph_of((x,), (Node("TRANSPOSE", (x, index(1, 0)), (y,)),), y)
    assert infer_shapes(graph) is graph


def test_a_static_graph_is_folded_but_not_repaired() -> None:
    graph = flatten()
    still = tuple(replace(t, shape_signature=()) for t in graph.inputs)
    wrong = tensor((7,), name="y")
    nodes = (*(replace(n, inputs=(still[0], *n.inputs[1:])) if n.op == "SHAPE" else n for n in graph.nodes[:3]),)
    last = replace(graph.nodes[3], inputs=(still[0], graph.nodes[3].inputs[1]), outputs=(wrong,))
    folded = infer_shapes(graph_of(still, (*nodes, last), wrong))
    assert [node.op for node in folded.nodes] == ["RESHAPE"]
    assert folded.outputs[0].shape == (7,)
    with pytest.raises(ModelError, match="the model says"):
        make_plan(folded)


def test_open_dimensions_are_inferred_without_being_asked() -> None:
    x = replace(tensor((5, 3), name="x"), shape_signature=(-1, 3))
    y = tensor((1, 1), name="y")
    graph = graph_of((x,), (Node("TRANSPOSE", (x, index(1, 0)), (y,)),), y)
    assert infer_shapes(graph).outputs[0].shape == (3, 5)


def test_an_unknown_rank_is_inferred() -> None:
    x, y = tensor((2, 3), name="x"), tensor((), name="y")
    graph = graph_of((x,), (Node("TRANSPOSE", (x, index(1, 0)), (y,)),), y)
    assert infer_shapes(graph).outputs[0].shape == (3, 2)


def test_subgraphs_that_leave_open_what_their_caller_knows() -> None:
    """Both branches say [1] and mean any number of rows; the caller has five."""
    branches = []
    for op in ("NEG", "ABS"):
        sub = Sub(op)
        x = sub.input((1, 3), shape_signature=(-1, 3))
        branches.append(sub.graph([sub.op(op, [x])]))
    main = Sub("main")
    which, x = main.input((1,), "BOOL"), main.input((5, 3))
    graph = main.graph(main.branch(which, 1, 2, [x], [x]), *branches)
    values = np.arange(15, dtype=np.float32).reshape(5, 3)
    for taken in (True, False):
        (got,) = run(infer_shapes(graph), [np.array([taken]), values])
        np.testing.assert_array_equal(got, -values if taken else values)


def test_shapes_that_do_not_fit() -> None:
    graph = flatten()
    with pytest.raises(ModelError, match="cannot become"):
        infer_shapes(graph, {graph.inputs[0]: (1, 4, 7)})


@pytest.mark.parametrize("shape", [(-1, 4, 6), (1 << 20, 1 << 20)])
def test_shapes_that_no_input_can_have(shape: Shape) -> None:
    graph = flatten()
    with pytest.raises(InvalidArgumentError, match="cannot be resized"):
        infer_shapes(graph, {graph.inputs[0]: shape})


def test_only_inputs_can_be_resized() -> None:
    graph = flatten()
    with pytest.raises(InvalidArgumentError, match="no input"):
        infer_shapes(graph, {graph.outputs[0]: (1, 24)})


def test_an_unknown_operator_over_shapes_is_left_alone() -> None:
    """What it would compute of a shape is not known, and whoever only reads or writes the model needs no kernel."""
    x, shape, y = tensor((2, 3), name="x"), tensor((2,), "INT32", name="shape"), tensor((2,), "INT32", name="y")
    nodes = (Node("SHAPE", (x,), (shape,), {"out_type": "INT32"}), Node("CUSTOM:Mine", (shape,), (y,), index=1))
    new = infer_shapes(graph_of((x,), nodes, y))
    (mine,) = new.nodes
    assert mine.op == "CUSTOM:Mine"
    np.testing.assert_array_equal(mine.input(0).data, [2, 3])


def test_an_input_that_a_node_writes_is_no_constant() -> None:
    """It keeps what was written from run to run, though only a shape decides what that is."""
    x, held, y = (
        tensor(s, t, name=n) for s, t, n in (((2, 3), "FLOAT32", "x"), ((2,), "INT32", "h"), ((2,), "INT32", "y"))
    )
    nodes = (Node("ABS", (held,), (y,)), Node("SHAPE", (x,), (held,), {"out_type": "INT32"}, index=1))
    graph = graph_of((x, held), nodes, y)
    session = Session(make_plan(graph))
    session.feed([np.zeros((2, 3), np.float32), np.array([-7, 5], np.int32)])
    seen = []
    for _ in range(2):
        session.run()
        seen.append(session.outputs()[0].tolist())
    assert seen == [[7, 5], [2, 3]]


def test_the_largest_extent_of_an_input() -> None:
    x, y = (tensor((4,), "INT8", 0.1, name=name) for name in "xy")
    graph = graph_of((x,), (Node("RELU", (x,), (y,)),), y)
    assert infer_shapes(graph, {x: ((1 << 31) - 1,)}).outputs[0].shape == ((1 << 31) - 1,)
    with pytest.raises(InvalidArgumentError, match="2 GiB or more"):
        infer_shapes(graph, {x: (1 << 31,)})


def test_an_unknown_operator_is_left_alone_until_its_input_changes() -> None:
    x, y = replace(tensor((2, 3), name="x"), shape_signature=(-1, 3)), tensor((2, 3), name="y")
    graph = graph_of((x,), (Node("CUSTOM:mine", (x,), (y,)),), y)
    assert infer_shapes(graph).nodes == graph.nodes
    with pytest.raises(UnsupportedOperatorError, match="mine"):
        infer_shapes(graph, {x: (4, 3)})


#: Operators whose integers LiteRT's reference kernels compute in another way than TFLM.
OTHERWISE = ("FULLY_CONNECTED", "MUL", "RSQRT")


def open_models() -> list[Any]:
    rows = json.loads((CORPUS / "index.json").read_text()) if CORPUS.exists() else []
    return [pytest.param(CORPUS / row["file"], id=row["file"]) for row in rows if row.get("dynamic_shapes")]


@pytest.mark.parametrize("path", open_models())
def test_corpus_resized(path: Path) -> None:
    """Results equal LiteRT's. Where LiteRT's integers differ from the reference, they equal those of single samples."""
    graph = read_file(path)
    if missing(graph.nodes) or any(t.type not in DTYPES for t in graph.inputs):
        pytest.skip("an operator or type is missing")
    signatures = {t: t.shape_signature or t.shape for t in graph.inputs}
    shapes = {t: tuple(3 if s < 0 else d for s, d in zip(signatures[t], t.shape, strict=True)) for t in graph.inputs}
    try:
        resized = infer_shapes(graph, shapes)
        make_plan(resized)
    except UnsupportedOperatorError as error:
        pytest.skip(str(error))
    values = random_inputs(resized, 7)
    if any(n.op == "RSQRT" for n in graph.nodes):  # LiteRT refuses numbers that are not positive
        values = [np.clip(v, 1, None) for v in values]
    got = run(resized, values)
    if any(n.op in OTHERWISE for n in graph.nodes) and any(t.type in ("INT8", "INT16") for t in graph.tensors):
        single = [run(graph, [v[i : i + 1] for v in values]) for i in range(3)]
        want = [np.concatenate(parts) for parts in zip(*single, strict=True)]
    else:
        want = run_litert(graph, values)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=0, atol=1e-5 if g.dtype.kind == "f" else 0)
