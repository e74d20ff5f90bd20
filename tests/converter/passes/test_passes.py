"""Every pass: text before and after, and results, integers bit by bit, floats within rounding."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import passes_arithmetic
import passes_clips
import passes_layers
import passes_moves
import pytest
from passes_tools import CASES, CONV, assert_same, order

from twinfer.converter import passes
from twinfer.converter.build import Builder
from twinfer.converter.passes import PASSES, PIPELINE, TO_QUANTIZE, run
from twinfer.converter.passes._rewrite import Change, View, rewrite
from twinfer.converter.passes.dead_code import dead_code
from twinfer.converter.passes.merge_relus import merge_relus
from twinfer.converter.passes.nhwc_io import nhwc_io
from twinfer.converter.text import text
from twinfer.runtime.check import check
from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.read.tflite import read
from twinfer.runtime.write.tflite import write

#: The modules that fill CASES.
FILLED_BY = (passes_arithmetic, passes_clips, passes_layers, passes_moves)


def graph_of(name: str) -> Graph:
    builder = Builder(name)
    return builder.graph(CASES[name][1](builder), signature="serving_default")


@pytest.mark.parametrize("name", CASES)
def test_text(name: str) -> None:
    step, _, before, after = CASES[name]
    graph = graph_of(name)
    assert text(graph) == before
    assert text(step(graph)) == after
    assert text(step(step(graph))) == after


@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str) -> None:
    """The pass alone and the whole pipeline keep the results."""
    graph = graph_of(name)
    for changed in (CASES[name][0](graph), run(graph)):
        check(changed)
        assert_same(graph, changed)
        assert changed.outputs == graph.outputs
        assert changed.signatures == graph.signatures


def test_scales_of_blocks_stay_with_their_tensor() -> None:
    """A tensor that is quantised by blocks refers to another one, which no node reads, and the file needs both."""
    b = Builder("blocks")
    x = b.input("x", "FLOAT32", (1, 4))
    scales = b.constant(np.array([1.0, 2.0], np.float16), name="scales")
    weights = b.constant(np.array([[1, -2, 3, 4], [-5, 6, 7, -8]], np.int8), type="INT4", name="w")
    details = {"scales": scales, "zero_points": None, "block_size": 4, "block_shape": ()}
    weights = b.add(replace(weights, name="b", extra={"details": ("BlockwiseQuantization", details)}))
    flat = b.op("RELU", [b.op("RELU", [x])])
    graph = b.graph([b.op("FULLY_CONNECTED", [flat, weights, None], shape=(1, 2))])
    changed = run(graph)
    assert len(changed.nodes) < len(graph.nodes)
    (kept,) = [t for t in read(write(changed)).tensors if t.name == "b"]
    assert kept.extra["details"][1]["scales"].name == "scales"


def test_run_tells_what_each_pass_did() -> None:
    graph, seen = graph_of("joins_clips"), dict[str, str]()
    result = run(graph, (merge_relus, dead_code), after=lambda name, g: seen.__setitem__(name, text(g)))
    assert list(seen) == ["merge_relus", "dead_code"]
    assert seen["dead_code"] == text(result)


def test_run_checks_behind_every_pass() -> None:
    """A pass that loses an operator is found out."""
    graph = graph_of("joins_clips")
    with pytest.raises(ModelError, match="before any operator has written it"):
        run(graph, (lambda g: Graph(g.name, g.tensors, g.nodes[1:], g.inputs, g.outputs),))


def test_names() -> None:
    assert {step for step, *_ in CASES.values()} == {*PASSES.values()} - {nhwc_io}
    assert all(any(hasattr(module, name) for module in FILLED_BY) for name in CASES)
    assert set(PIPELINE) < set(PASSES.values())
    assert all(name == step.__name__ and step.__doc__ for name, step in PASSES.items())


def test_the_pipeline_in_its_order() -> None:
    """The places of all files give the order."""
    first = ["constant_folding", "common_subexpressions", "identities", "dilations", "reshapes", "merge_relus"]
    first += ["fuse_activations"]
    then = ["transposes", "reshapes", "elementwise_constants", "merge_relus", "fuse_padding", "batch_norm"]
    last = ["fuse_activations", "identities", "common_subexpressions", "dead_code"]
    assert [step.__name__ for step in PIPELINE] == [*first, *then, *last]
    assert [step.__name__ for step in TO_QUANTIZE] == ["float_weights", "multiplications", *first, *then, *last]
    assert PASSES.keys() - {step.__name__ for step in TO_QUANTIZE} == {"equalize", "horizontal_merge", "nhwc_io"}


def test_a_pass_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in the folder is in the pipeline at its places."""
    (tmp_path / "renamed.py").write_text(PASS, "utf-8")
    monkeypatch.setattr(passes, "__path__", [*passes.__path__, str(tmp_path)])
    monkeypatch.setattr(passes, "renamed", None, raising=False)
    steps = passes.pipeline_of(passes)
    sys.modules.pop("twinfer.converter.passes.renamed")
    names = [step.__name__ for step in steps]
    assert names.count("renamed") == 2
    assert names[names.index("identities") - 1] == names[names.index("transposes") - 1] == "renamed"
    assert run(graph_of("joins_clips"), steps).name == "anew anew"


@pytest.mark.parametrize("keep", [False, True])
def test_reductions_behind_a_transpose_count_axes_from_both_ends(keep: bool) -> None:
    for turn in itertools.permutations(range(3)):
        for axes in ([0], [2], [0, 1], [0, 2], [1, 2]):
            made = []
            for less in (0, 3):
                b = Builder("mean")
                y = b.op("TRANSPOSE", [b.input("x", "FLOAT32", (2, 3, 4)), order(*turn)])
                graph = b.graph([b.op("MEAN", [y, order(*(a - less for a in axes))], keep_dims=keep)])
                made.append(run(graph))
                assert_same(graph, made[-1])
            assert [n.op for n in made[0].nodes] == [n.op for n in made[1].nodes]


def moved(b: Builder, op: str, x: Tensor, axis: int) -> list[Tensor]:
    """An operator along an axis; what it says of axes is negative if the axis is."""
    size, rank = x.shape[axis], len(x.shape)
    rows = np.zeros((rank, 2), np.int32)
    ones, ends = np.ones(rank, np.int32), np.array(x.shape, np.int32)
    match op:
        case "SPLIT_V" | "SPLIT":
            sizes = [size // 2] * 2 if op == "SPLIT" else [1, size - 1]
            shapes = [tuple(n if d == axis % rank else e for d, e in enumerate(x.shape)) for n in sizes]
            given = [order(axis), x] if op == "SPLIT" else [x, order(*sizes), np.array(axis, np.int32)]
            return b.node(op, given, [Tensor(f"{op}_{i}", x.type, s) for i, s in enumerate(shapes)], {"num_splits": 2})
        case "PAD" | "MIRROR_PAD":
            rows[axis] = 1, 2
            return [b.op(op, [x, rows], **({"mode": "REFLECT"} if op == "MIRROR_PAD" else {}))]
        case "SLICE" | "STRIDED_SLICE":
            rows[axis, 0], ends[axis] = 1, size - (op == "SLICE")
            masks = {f"{name}_mask": 0 for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
            return [
                b.op(
                    op,
                    [x, rows[:, 0], ends, *([ones] if masks and op == "STRIDED_SLICE" else [])],
                    **(masks if op == "STRIDED_SLICE" else {}),
                )
            ]
        case "TILE":
            ones[axis] = 2
            return [b.op(op, [x, ones])]
        case "GATHER":
            return [b.op(op, [x, order(1, 0, 1)], axis=axis, batch_dims=0)]
        case "CONCATENATION":
            return [b.op(op, [x, x], axis=axis)]
    return [b.op(op, [x, order(axis)], keep_dims=True)]


@pytest.mark.parametrize(
    "op",
    [
        *("SPLIT", "SPLIT_V", "PAD", "MIRROR_PAD", "SLICE", "STRIDED_SLICE", "TILE", "GATHER", "CONCATENATION"),
        *("MEAN", "SUM", "REDUCE_MAX"),
    ],
)
def test_a_transpose_goes_through_an_operator_along_any_axis(op: str) -> None:
    """Its axis is renumbered, counted from either end: no transpose is left between it and the one that undoes it."""
    for turn, axis in itertools.product(((0, 3, 1, 2), (1, 3, 0, 2), (0, 2, 3, 1)), range(-4, 4)):
        if axis < 0 and op in ("PAD", "MIRROR_PAD", "SLICE", "STRIDED_SLICE", "TILE"):
            continue
        b = Builder(op)
        turned = b.op("TRANSPOSE", [b.input("x", "FLOAT32", (4, 6, 8, 10)), order(*turn)])
        parts = moved(b, op, turned, axis)
        graph = b.graph([b.op("TRANSPOSE", [part, np.argsort(turn).astype(np.int32)]) for part in parts])
        after = run(graph)
        assert_same(graph, after, [1])
        assert [node.op for node in after.nodes] == [op]


def test_a_clip_goes_behind_all_that_only_moves() -> None:
    """The range of values before a move holds behind it, unless the move adds zeros."""
    moves = {
        "GATHER": [np.array([2, 0], np.int32)],
        "TILE": [np.array([1, 1, 1, 3], np.int32)],
        "DEPTH_TO_SPACE": [],
        "PAD": [order(*[0, 0] * 3, 0, 1).reshape(4, 2)],
    }
    kept = {}
    for op, constants in moves.items():
        b = Builder(op)
        y = b.op("EXP", [b.input("x", "FLOAT32", (1, 3, 3, 4))])
        y = b.op(
            op,
            [b.op("ADD", [y, np.array(1, np.float32)], fused_activation_function="RELU6"), *constants],
            **MORE.get(op, {}),
        )
        kept[op] = [n.op for n in merge_relus(b.graph([b.op("RELU", [y])])).nodes]
    assert kept == {op: ["EXP", "ADD", op, *(["RELU"] if op == "PAD" else [])] for op in moves}


MORE = {"GATHER": {"axis": 3}, "DEPTH_TO_SPACE": {"block_size": 2}}


def test_an_integer_operator_that_does_nothing_goes_whatever_it_is() -> None:
    b = Builder("nothing")
    x = b.op("QUANTIZE", [b.input("x", "FLOAT32", (1, 4))], type="INT8", scale=0.5, zero=-128)
    graph = b.graph([b.op("LEAKY_RELU", [b.op("LEAKY_RELU", [b.op("ABS", [x])], alpha=0.5)], alpha=1.0)])
    assert [n.op for n in run(graph).nodes] == ["QUANTIZE"]


PASS = """
from dataclasses import replace

PLACES = (25, 65)


def renamed(graph):
    return replace(graph, name="anew anew" if graph.name == "anew" else "anew")
"""


def test_rewrite_goes_on_until_nothing_changes() -> None:
    """Nodes without a reader go; tensors that the outside knows stay."""
    b = Builder("chain")
    x = b.input("x", "FLOAT32", (2,))
    y = b.op("NEG", [b.op("ABS", [x])])
    graph = b.graph([b.op("EXP", [y]), b.op("SIN", [y])])

    def skip(view: View, node: Node) -> Change | None:
        before = view.producer(node.input(0))
        return None if before is None else Change((node,), (Node(node.op, before.inputs, node.outputs),))

    assert text(rewrite(graph, skip)) == (
        "input x FLOAT32[2]\nexp_3 FLOAT32[2] = EXP(x)\nsin_4 FLOAT32[2] = SIN(x)\noutput exp_3\noutput sin_4\n"
    )


def test_state_is_left_alone() -> None:
    """Reading a variable before and after a write gives different values."""
    b = Builder("state")
    x, state = b.input("x", "INT8", (1, 4), 0.5), b.variable("state", "INT8", (1, 4), 0.5)
    old = b.op("RESHAPE", [state, order(1, 4)], new_shape=(1, 4))
    b.node("RELU", [x], [state])
    new = b.op("RESHAPE", [state, order(1, 4)], new_shape=(1, 4))
    graph = b.graph([b.op("ADD", [old, new])])
    assert text(run(graph)) == text(graph)
    assert_same(graph, run(graph, tuple(PASSES.values())))


def test_open_shapes_stay_open() -> None:
    """SHAPE of an open dimension is not a constant, and a reshape by it leaves the shape open."""
    b = Builder("open")
    x = b.add(Tensor("x", "FLOAT32", (1, 4), shape_signature=(-1, 4)))
    b.inputs.append(x)
    shape = b.op("SHAPE", [x], type="INT32", shape=(2,), out_type="INT32")
    graph = b.graph([b.op("RESHAPE", [b.op("NEG", [x]), shape], shape=(1, 4))])
    assert text(run(graph)) == text(graph)


def test_interface_in_nhwc() -> None:
    b = Builder("image")
    x = b.input("x", "FLOAT32", (1, 2, 4, 3))
    y = b.op("MAX_POOL_2D", [b.op("TRANSPOSE", [x, order(0, 2, 3, 1)])], filter_height=2, filter_width=2, **CONV)
    graph = b.graph([b.op("TRANSPOSE", [y, order(0, 3, 1, 2)])], signature="serving_default")
    changed = nhwc_io(graph)
    check(changed)
    assert [(n.op, n.output.shape) for n in changed.nodes] == [("MAX_POOL_2D", (1, 4, 3, 2))]
    assert [t.name for t in (*changed.inputs, *changed.outputs)] == [t.name for t in (*graph.inputs, *graph.outputs)]
    assert (*changed.signatures[0].inputs.values(), *changed.signatures[0].outputs.values()) == (
        *changed.inputs,
        *changed.outputs,
    )
