"""Sizes, indices and shapes of the runtime at the bounds where they are refused."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny

from twinfer.runtime.check import check
from twinfer.runtime.errors import ModelError, ToolError, UnsupportedOperatorError
from twinfer.runtime.fixed_point import quantize_multipliers
from twinfer.runtime.graph import DTYPES, Graph, Node, Tensor
from twinfer.runtime.op import tensor
from twinfer.runtime.plan.first_values import first_value
from twinfer.runtime.read.flatbuffer import Damage
from twinfer.runtime.read.packed import pack, unpack
from twinfer.runtime.read.tflite_tensor import MAX_BYTES, _shape, pick
from twinfer.runtime.run.buffers import aligned_bytes
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.shapes import MAX_FOLDED, infer_node, infer_shapes
from twinfer.runtime.support import audit
from twinfer.runtime.target import HOST
from twinfer.runtime.tools import find_compiler


@pytest.mark.parametrize(
    ("shape", "type", "large"),
    [
        (((1 << 31) - 1,), "INT8", False),
        ((1 << 31,), "INT8", True),
        ((1 << 29,), "FLOAT32", True),
        ((0, 1 << 40), "INT8", True),
        ((0, 1 << 20), "INT8", False),
    ],
)
def test_two_gibibytes(shape: tuple[int, ...], type: str, large: bool) -> None:
    assert tensor(shape, type).too_large is large


def tiled(times: int) -> Graph:
    """A graph that repeats the shape of x, four numbers, ``times`` in a row."""
    x, shape = tensor((1, 2, 3, 4), name="x"), tensor((4,), "INT32", name="shape")
    count, y = tensor((1,), "INT32", data=np.array([times])), tensor((4 * times,), "INT32", name="y")
    z = tensor((4 * times,), "INT32", name="z")
    nodes = (Node("SHAPE", (x,), (shape,), {"out_type": "INT32"}), Node("TILE", (shape, count), (y,)))
    return Graph("g", (x, shape, count, y, z), (*nodes, Node("ABS", (y,), (z,))), (x,), (z,))


@pytest.mark.parametrize(("times", "left"), [(MAX_FOLDED // 4, ["ABS"]), (MAX_FOLDED // 4 + 1, ["TILE", "ABS"])])
def test_the_largest_shape_that_is_computed_beforehand(times: int, left: list[str]) -> None:
    assert [node.op for node in infer_shapes(tiled(times)).nodes] == left


def test_what_is_read_before_it_is_made() -> None:
    graph = tiny.dense().graph
    check(graph)
    with pytest.raises(ModelError, match="reads"):
        check(replace(graph, nodes=graph.nodes[::-1]))
    x = Tensor("v", "INT8", (3,), None, np.zeros(3, np.int8), variable=True)
    with pytest.raises(ModelError, match="a variable and a constant"):
        check(replace(graph, tensors=(*graph.tensors, x)))


def test_tensors_that_do_not_exist() -> None:
    tensors = tiny.dense().graph.tensors
    assert pick(tensors, [len(tensors) - 1], "f") == (tensors[-1],)
    for index in (-1, len(tensors)):
        with pytest.raises(Damage, match="does not exist"):
            pick(tensors, [index], "f")


def test_shapes_beyond_all_memory() -> None:
    assert _shape((MAX_BYTES // (1 << 20), 1 << 10), "INT8")
    with pytest.raises(Damage):
        _shape((MAX_BYTES, 1 << 20), "FLOAT32")


@pytest.mark.parametrize(("bits", "count"), [(4, 1), (4, 2), (4, 7), (2, 1), (2, 5), (2, 8)])
def test_packed_numbers_fill_whole_bytes(bits: int, count: int) -> None:
    values = (np.arange(count) % (1 << bits) - (1 << (bits - 1))).astype(np.int8)
    packed = pack(values, bits)
    assert packed.size == -(-count * bits // 8)
    assert unpack(packed, bits, (count,)).tolist() == values.tolist()


@pytest.mark.parametrize("zero", [-128, -3, 0, 127])
def test_variables_begin_with_what_stands_for_zero(zero: int) -> None:
    assert first_value(replace(tensor((2,), "INT8", 0.1, zero), variable=True)) == zero % 256


@pytest.mark.parametrize("zero", [-129, 128])
def test_zero_points_outside_of_int8(zero: int) -> None:
    with pytest.raises(ModelError, match="outside its type"):
        first_value(replace(tensor((2,), "INT8", 0.1, zero), variable=True))


@pytest.mark.parametrize("type", [t for t in DTYPES if t not in ("STRING", "RESOURCE")])
def test_random_inputs_reach_both_ends(type: str) -> None:
    """Truth values are both; integers come near both ends of their type; other seeds give other values."""
    t = tensor((40, 40), type, name="x")
    graph = Graph("g", (t,), (), (t,), (t,))
    ((first,), (same,), (other,)) = (random_inputs(graph, seed) for seed in (1, 1, 2))
    assert (first.shape, first.dtype) == (t.shape, t.dtype)
    np.testing.assert_array_equal(first, same)
    assert (first != other).any()
    if type == "BOOL":
        assert 600 < first.sum() < 1000
    elif first.dtype.kind in "iu":
        low, high = np.iinfo(first.dtype).min, np.iinfo(first.dtype).max
        span = high - low
        assert int(first.min()) <= low + span // 50
        assert int(first.max()) >= high - span // 50
    else:
        assert 0.8 < first.real.std() < 1.2


@pytest.mark.parametrize("words", ["gcc", "gcc -O1 -g", "'gcc' -DNAME='a b'"])
def test_a_compiler_may_have_words_behind_it(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_compiler(words) == tuple(shlex.split(words))
    monkeypatch.setenv("CC", words)
    assert find_compiler() == tuple(shlex.split(words))


def test_ziglang_is_taken_where_there_is_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its wheel is a compiler; whoever names another one gets that or an error."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert find_compiler() == (sys.executable, "-m", "ziglang", "cc")
    with pytest.raises(ToolError, match="no C compiler found \\(gcc\\)"):
        find_compiler("gcc")
    monkeypatch.setitem(sys.modules, "ziglang", None)
    with pytest.raises(ToolError, match="twinfer\\[compiler\\]"):
        find_compiler()


@pytest.mark.parametrize("words", ["no-such-cc -O1", "''"])
def test_a_compiler_that_is_not_there(words: str) -> None:
    with pytest.raises(ToolError, match=f"no C compiler found \\({words}\\)"):
        find_compiler(words)


def test_a_node_writes_what_the_graph_lists() -> None:
    graph = tiny.dense().graph
    *_, last = graph.nodes
    other = replace(last, outputs=(replace(last.output, name="other"),))
    with pytest.raises(ModelError, match=rf"{last.op}.*writes .*other.*, which is not in the graph"):
        check(replace(graph, nodes=(*graph.nodes[:-1], other)))


@pytest.mark.parametrize("type", ["FLOAT32", "BOOL", "INT4", "STRING"])
def test_only_integers_of_whole_bytes_have_limits(type: str) -> None:
    with pytest.raises(ModelError, match=f"'t' {type}.*no integers of whole bytes"):
        _ = tensor((2,), type).limits
    for one in ("INT8", "UINT16", "INT64"):
        assert tensor((2,), one).limits == (np.iinfo(one.lower()).min, np.iinfo(one.lower()).max)


def test_memory_that_no_machine_has() -> None:
    with pytest.raises(ModelError, match=f"needs {1 << 60} bytes in one piece"):
        aligned_bytes(1 << 60)


@pytest.mark.parametrize("wrong", [np.inf, -np.inf, np.nan])
def test_multipliers_are_numbers(wrong: float) -> None:
    """Each of them."""
    for values in ([wrong], [1.0, wrong], [wrong, 1.0]):
        with pytest.raises(OverflowError, match="infinite or not a number"):
            quantize_multipliers(np.array(values))


def test_an_unknown_operator_hides_no_other() -> None:
    """Its graph has an open shape, which cannot be known behind it."""
    x = tensor((1, 4), name="x")
    y, z = (replace(tensor((1, 4), name=name), shape_signature=(-1, 4)) for name in "yz")
    graph = Graph("g", (x, y, z), (Node("CUSTOM:Mine", (x,), (y,)), Node("ABS", (y,), (z,))), (x,), (z,))
    told = audit(graph, HOST)
    assert [(use.op, use.count, bool(use.problems)) for use in told.uses] == [
        ("ABS", 1, False),
        ("CUSTOM:Mine", 1, True),
    ]
    with pytest.raises(UnsupportedOperatorError, match=r"stored sparsely.*densely"):
        infer_node(Node("ABS", (replace(tensor((4,), data=np.zeros(4)), extra={"sparsity": {"a": 1}}),), (x,)))
