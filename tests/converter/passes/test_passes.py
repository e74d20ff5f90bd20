"""Every pass: text before and after, and results, integers bit by bit, floats within rounding."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import passes_cases
import pytest
from golden_files import compare
from passes_tools import CASES, assert_same, order

from twinfer.converter.build import Builder
from twinfer.converter.passes import PASSES, PIPELINE, TO_QUANTIZE, run
from twinfer.converter.passes.merge_relus import merge_relus
from twinfer.converter.passes.nhwc_io import nhwc_io
from twinfer.converter.text import text
from twinfer.runtime.check import check
from twinfer.runtime.graph import Graph, Tensor

GOLDEN = Path(__file__).parent / "golden_passes.txt"


def graph_of(name: str) -> Graph:
    builder = Builder(name)
    return builder.graph(CASES[name][1](builder), signature="serving_default")


def told() -> Iterator[str]:
    """Every case before its pass and behind it."""
    for name, (step, build) in CASES.items():
        graph = graph_of(name)
        yield f"== {name}: {step.__name__}" + (f". {build.__doc__}" if build.__doc__ else "")
        yield from text(graph).splitlines()
        yield "-->"
        yield from text(step(graph)).splitlines()


def test_text(request: pytest.FixtureRequest) -> None:
    compare(GOLDEN, told(), request)


@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str) -> None:
    graph = graph_of(name)
    step = CASES[name][0]
    assert text(step(step(graph))) == text(step(graph))
    for changed in (step(graph), run(graph)):
        check(changed)
        assert_same(graph, changed)
        assert changed.outputs == graph.outputs
        assert changed.signatures == graph.signatures


def test_names() -> None:
    assert {step for step, _ in CASES.values()} == {*PASSES.values()} - {nhwc_io}
    assert all(hasattr(passes_cases, name) for name in CASES)
    assert set(PIPELINE) < set(PASSES.values())
    assert all(name == step.__name__ and step.__doc__ for name, step in PASSES.items())


def test_the_pipeline_in_its_order() -> None:
    first = [
        "constant_folding",
        "custom_operators",
        "functions_of_one",
        "moves_of_one",
        "normalisations",
        "common_subexpressions",
        "identities",
        "dilations",
        "reshapes",
    ]
    first += ["merge_relus", "fuse_activations"]
    then = [
        "transposes",
        "reshapes",
        "normalisations",
        "elementwise_constants",
        "merge_relus",
        "fuse_padding",
        "batch_norm",
    ]
    last = ["fuse_activations", "identities", "common_subexpressions", "dead_code"]
    assert [step.__name__ for step in PIPELINE] == [*first, *then, *last]
    before = ["float_weights", "multiplications", "softplus"]
    assert [step.__name__ for step in TO_QUANTIZE] == [*before, *first, *then, *last]
    assert PASSES.keys() - {step.__name__ for step in TO_QUANTIZE} == {"equalize", "horizontal_merge", "nhwc_io"}


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


@pytest.mark.parametrize("axis", [-1, 2])
@pytest.mark.parametrize("op", ["SPLIT", "SPLIT_V", "PAD", "SLICE", "TILE", "GATHER", "CONCATENATION", "MEAN"])
def test_a_transpose_goes_through_an_operator_along_any_axis(op: str, axis: int) -> None:
    """Its axis is renumbered, counted from either end: no transpose is left between it and the one that undoes it."""
    b = Builder(op)
    x = b.op("TRANSPOSE", [b.input("x", "FLOAT32", (4, 6, 8, 10)), order(0, 3, 1, 2)])
    at, size = axis % 4, x.shape[axis]
    begin, ends, around = np.eye(4, dtype=np.int32)[at], order(*x.shape), np.zeros((4, 2), np.int32)
    around[at] = 1, 2
    halves = [Tensor(f"half{i}", x.type, (*x.shape[:at], size // 2, *x.shape[at + 1 :])) for i in range(2)]
    inputs = {
        "SPLIT": [order(axis), x], "SPLIT_V": [x, order(size // 2, size // 2), np.array(axis, np.int32)],
        "PAD": [x, around], "SLICE": [x, begin, ends - begin], "TILE": [x, 1 + begin], "GATHER": [x, order(1, 0, 1)],
        "CONCATENATION": [x, x], "MEAN": [x, order(axis)],
    }[op]  # fmt: skip
    options = {"GATHER": {"axis": axis, "batch_dims": 0}, "CONCATENATION": {"axis": axis}, "MEAN": {"keep_dims": True}}
    split = "SPLIT" in op
    parts = b.node(op, inputs, halves, {"num_splits": 2}) if split else [b.op(op, inputs, **options.get(op, {}))]
    graph = b.graph([b.op("TRANSPOSE", [part, order(0, 2, 3, 1)]) for part in parts])
    after = run(graph)
    assert_same(graph, after)
    assert [node.op for node in after.nodes] == [op]


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
