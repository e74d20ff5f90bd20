"""Cases of all operators with one thing changed: the node is refused in words, or kernels give what numpy gives."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from cases import cases_of, fed, graph_of, interpreted, numpy_outputs, values_of
from changes import changes, one_of_types, other_options, other_zeros, smaller, with_tensor
from needs import deep_but

from twinfer.runtime.errors import ModelError, TwinferError, UnsupportedOperatorError
from twinfer.runtime.graph import Node, Quant, Tensor
from twinfer.runtime.op import Case, tensor
from twinfer.runtime.registry import operators
from twinfer.runtime.shapes import infer_node
from twinfer.runtime.target import GENERIC


def with_shapes(node: Node) -> Node | None:
    """The node with its outputs' shapes inferred; None if it is refused."""
    try:
        shapes = infer_node(node)
    except TwinferError:
        return None
    return replace(
        node, outputs=tuple(replace(y, shape=tuple(shape)) for y, shape in zip(node.outputs, shapes, strict=True))
    )


#: Operators whose reference in numpy does not know of sequences of no step, or pads nothing.
NEVER_EMPTY = (
    *("BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN", "LSTM", "MIRROR_PAD", "RNN"),
    *("UNIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN"),
)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("every", deep_but([5, 1], 5))
@pytest.mark.parametrize("op", operators())
def test_refused_or_right(op: str, every: int) -> None:
    """Of every combination of types one case with all changes, and of all cases some with two."""
    rng = np.random.default_rng(1)
    small = smaller(cases_of(op).values(), 2_000)
    of_types = one_of_types(small)
    once = [(case, near) for case in of_types for near in changes(case, rng)]
    rng.shuffle(once)
    options = [(case, replace(case, node=node)) for case in of_types for node in other_options(case.node)]
    zeros = [(case, replace(case, node=node)) for case in smaller(small, 400) for node in other_zeros(case.node)]
    twice = []
    for case in (small[i] for i in rng.integers(len(small), size=15)):
        first = [*changes(case, rng)]
        near = first[rng.integers(len(first))] if first else case
        if second := [*changes(near, rng)]:
            twice.append((case, second[rng.integers(len(second))]))
    assert all(refused_or_right(case, case) for case in of_types)
    for case, near in [*options[:150], *zeros[:: 1 + len(zeros) // 60], *once[:90], *twice][::every]:
        refused_or_right(case, near)


def refused_or_right(case: Case, near: Case) -> bool:
    """Whether the changed case runs; then it gives what numpy gives."""
    if (node := with_shapes(near.node)) is None:
        return False
    if node.op in NEVER_EMPTY and any(0 in t.shape for t in node.inputs if t is not None):
        return False
    near = replace(near, node=node)
    graph = graph_of(near.node)
    values = values_of(near, graph)
    try:
        results = interpreted(graph, values, GENERIC, 0)
    except TwinferError:
        return False
    for got, want in zip(results, numpy_outputs(near, graph, values), strict=True):
        if got.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=max(case.tolerance, 1e-5), err_msg=str(near.node))
        else:
            np.testing.assert_array_equal(got, want, err_msg=str(near.node))
    return True


def scaled(node: Node, t: Tensor, times: float) -> Node | None:
    """The node with another scale of a tensor; None if it is refused."""
    assert t.quant is not None
    other = replace(t, quant=Quant(t.quant.scale * np.float32(times), t.quant.zero_point, t.quant.axis))
    return with_shapes(with_tensor(node, t, other))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("op", operators())
def test_scales_up_to_those_that_are_refused(op: str) -> None:
    """The largest and the smallest scale that a tensor may have, with values at the ends of their types."""
    rng = np.random.default_rng(2)
    for case in one_of_types(smaller(cases_of(op).values(), 500)):
        values = tuple(
            v if t.quant is None else rng.choice([*ends(v.dtype), *ends(v.dtype), 0, 1], v.shape).astype(v.dtype)
            for t, v in zip(fed(case.node), values_of(case, graph_of(case.node)), strict=True)
        )
        for t in {t: None for t in (*case.node.inputs, *case.node.outputs) if t is not None and t.quant is not None}:
            for base in (2.0, 0.5):
                # powers of two, at which products begin to leave their types
                first = 2.0 ** np.floor(np.log2(float(t.quant.scale[0]))) / float(t.quant.scale[0])
                most = bisect_left(range(28), True, key=lambda k: scaled(case.node, t, first * base**k) is None) - 1
                if 0 <= most < 27 and (near := scaled(case.node, t, first * base**most)) is not None:
                    refused_or_right(case, replace(case, node=near, inputs=values))


def ends(dtype: np.dtype[np.generic]) -> tuple[int, int]:
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


#: Operators that refuse numbers outside as LiteRT does if they are known; else they leave them out or bring them in.
OUTSIDE = {"EMBEDDING_LOOKUP", "GATHER", "GATHER_ND", "REVERSE_SEQUENCE", "SCATTER_ND", "SLICE", "STRIDED_SLICE"}
OUTSIDE |= {f"UNSORTED_SEGMENT_{how}" for how in ("SUM", "PROD", "MAX", "MIN")}


@pytest.mark.parametrize("op", operators())
def test_numbers_that_are_known_when_planning(op: str) -> None:
    """Indices, sizes and starts that a case is fed, as constants: the same outputs."""
    for case in cases_of(op).values():
        graph, node = graph_of(case.node), case.node
        values = values_of(case, graph)
        fed = {
            t: v for t, v in zip(graph.inputs, values, strict=True) if t.type in ("INT32", "INT64") and t.quant is None
        }
        if not fed:
            continue
        known = replace(node, inputs=tuple(replace(t, data=fed[t]) if t in fed else t for t in node.inputs))
        rest = [v for t, v in zip(graph.inputs, values, strict=True) if t not in fed]
        want = interpreted(graph, values, GENERIC, 0)
        try:
            got = interpreted(graph_of(known), rest, GENERIC, 0)
        except ModelError:
            assert op in OUTSIDE
            continue
        assert [g.tobytes() for g in got] == [w.tobytes() for w in want], str(known)


#: Operators that go by the stored values alone, as TFLM's and LiteRT's kernels do; those whose output has its own
#: scale; decoders, whose output the next operator reads; and those whose cases saturate or take one step only.
STORED = {
    *("ARG_MAX", "ARG_MIN", "BROADCAST_TO", "CUSTOM:CIRCULAR_BUFFER", "DEPTH_TO_SPACE", "EXPAND_DIMS", "GATHER"),
    *("MAXIMUM", "MINIMUM", "MIRROR_PAD", "NEG", "PAD", "PADV2", "RESHAPE", "RESIZE_BILINEAR", "SIGN", "SLICE"),
    *("RESIZE_NEAREST_NEIGHBOR", "SPACE_TO_DEPTH", "SPLIT", "SPLIT_V", "SQUEEZE", "STRIDED_SLICE", "TILE", "TRANSPOSE"),
    *("UNPACK", "ZEROS_LIKE", "L2_NORMALIZATION", "LOG_SOFTMAX", "SOFTMAX", "CUSTOM:TFLM_DECODE"),
    *("ADD_N", "LSTM", "RNN", "TANH"),
}


@pytest.mark.parametrize("op", sorted({*operators()} - STORED))
def test_quantisation_counts(op: str) -> None:
    """Another scale or zero point of a tensor, or of its first channel, is refused or changes what comes out."""
    same: dict[tuple[int, bool], bool] = {}
    quantised = [case for name, case in cases_of(op).items() if "uint8" not in name and case.node.output.size > 3]
    for case in [case for case in quantised if any(t and t.type == "INT8" for t in case.node.inputs)][::7][:6]:
        node = case.node
        graph, tensors = graph_of(node), [*node.inputs, *node.outputs]
        values = values_of(case, graph)
        want = [y.tobytes() for y in interpreted(graph, values, GENERIC, 0)]
        for (i, t), zero in product(enumerate(tensors), (False, True)):
            if t is None or t.type != "INT8" or t.quant is None or t.variable:
                continue
            scale, zeros = t.quant.scale.copy(), t.quant.zero_point.copy()
            if zero:
                zeros[0] += -32 if zeros[0] > 90 else 32
            else:
                scale[0] *= 1.5
            other = replace(t, quant=Quant(scale, zeros, t.quant.axis))
            inputs, outputs = ([other if each is t else each for each in side] for side in (node.inputs, node.outputs))
            try:
                near = graph_of(replace(node, inputs=tuple(inputs), outputs=tuple(outputs)))
                got = [y.tobytes() for y in interpreted(near, values, GENERIC, 0)]
            except TwinferError:
                got = []
            same[i, zero] = same.get((i, zero), True) and got == want
    assert not any(same.values()), same


@pytest.mark.parametrize("op", ["SLICE", "STRIDED_SLICE", "DYNAMIC_UPDATE_SLICE"])
@pytest.mark.parametrize("rank", range(1, 7))
def test_boxes_that_move_along_every_axis(op: str, rank: int) -> None:
    """Up to five axes; the sixth is refused."""
    x, at = tensor((3,) * rank, "INT32", name="x"), tensor((rank,), "INT32", name="at")
    ones = tensor((rank,), "INT32", data=np.ones(rank), name="ones")
    values = [np.arange(3**rank, dtype=np.int32).reshape(x.shape), np.arange(rank, dtype=np.int32) % 3]
    box = tuple(slice(i, i + 1) for i in values[1].tolist())
    if op == "DYNAMIC_UPDATE_SLICE":
        node = Node(op, (x, tensor((1,) * rank, "INT32", name="new"), at), (replace(x, name="y"),))
        values, want = [values[0], np.full((1,) * rank, -9, np.int32), values[1]], values[0].copy()
        want[box] = -9
    elif op == "SLICE":
        node, want = Node(op, (x, at, ones), (tensor((1,) * rank, "INT32", name="y"),)), values[0][box]
    else:
        masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask"), 0)
        options = {**masks, "shrink_axis_mask": 2**rank - 1, "offset": False}
        node = Node(op, (x, at, replace(at, name="end"), ones), (tensor((), "INT32", name="y"),), options)
        values, want = [*values, values[1] + 1], values[0][box].reshape(())
    if rank > 5:
        with pytest.raises(UnsupportedOperatorError, match="5 are the limit"):
            interpreted(graph_of(node), values, GENERIC, 0)
    else:
        np.testing.assert_array_equal(interpreted(graph_of(node), values, GENERIC, 0)[0], want)


COMPARED = {"EQUAL": np.equal, "NOT_EQUAL": np.not_equal, "LESS": np.less, "LESS_EQUAL": np.less_equal,
            "GREATER": np.greater, "GREATER_EQUAL": np.greater_equal}  # fmt: skip


@pytest.mark.parametrize("type", ["INT8", "INT16"])
@pytest.mark.parametrize("op", COMPARED)
def test_comparisons_are_those_of_real_numbers(op: str, type: str) -> None:
    """At all scales that are taken, up to the largest: of numbers that are further apart than the steps they take."""
    rng, taken = np.random.default_rng(3), 0
    dtype = np.dtype(type.lower())
    values = [rng.choice([*ends(dtype), *ends(dtype), *range(-9, 9)], 400).astype(dtype) for _ in "ab"]
    for power in range(-8, 22):
        for less in (0, 3):
            scales = 2.0**power, 2.0 ** (power - less)
            zeros = (0, 0) if type == "INT16" else [int(z) for z in rng.choice([-128, 0, 127], 2)]
            a, b = (tensor((400,), type, s, z, name=x) for s, z, x in zip(scales, zeros, "ab", strict=True))
            node = Node(op, (a, b), (tensor((400,), "BOOL", name="y"),))
            if with_shapes(node) is None:
                continue
            (got,) = interpreted(graph_of(node), values, GENERIC, 0)
            real = [(v.astype(np.float64) - z) * s for v, s, z in zip(values, scales, zeros, strict=True)]
            sure = (np.abs(real[0] - real[1]) > 1 / 64 + max(scales) / 512) | (real[0] == real[1])
            np.testing.assert_array_equal(got[sure], COMPARED[op](*real)[sure], err_msg=str(node))
            taken += 1
    assert taken > 20
