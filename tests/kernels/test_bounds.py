"""Nodes that operators refuse beside the nearest ones that they take: each bound, and one step over it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cases import graph_of, interpreted

from twinfer.runtime.errors import ModelError, TwinferError, UnsupportedOperatorError
from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.op import along, tensor
from twinfer.runtime.ops.recurrent import svdf as recurrent_svdf
from twinfer.runtime.registry import operators
from twinfer.runtime.shapes import infer_node
from twinfer.runtime.target import GENERIC

#: Name, a node that is taken, one that is refused, its error, and a part of the message.
Refusal = tuple[str, Node, Node, type[TwinferError], str]


def q(*shape: int, type: str = "INT8", scale: float = 0.05, zero: int = 0) -> Tensor:
    return tensor(shape, type, scale, zero)


def constant(values: Any, type: str = "INT32") -> Tensor:
    array = np.asarray(values)
    return tensor(array.shape, type, data=array)


def node(op: str, inputs: tuple[Tensor | None, ...], outputs: tuple[Tensor, ...] | Tensor, **options: Any) -> Node:
    return Node(op, inputs, outputs if isinstance(outputs, tuple) else (outputs,), options)


def layer(
    op: str = "FULLY_CONNECTED",
    scales: int = 1,
    zeros: int = 0,
    bias: int = 3,
    bias_type: str = "INT32",
    x: str = "INT8",
) -> Node:
    """A layer of three output channels: a matrix, or a window of one pixel for each channel."""
    shape = (3, 4) if op == "FULLY_CONNECTED" else (1, 1, 1, 3)
    axis = 0 if op == "FULLY_CONNECTED" else 3
    w = along(tensor(shape, "INT8", [0.1] * scales, [zeros] * scales, data=np.ones(shape)), axis)
    b = tensor((bias,), bias_type, [0.005], data=np.ones(bias))
    if op == "FULLY_CONNECTED":
        return node(op, (q(2, 4, type=x), w, b), q(2, 3, type=x))
    window = {"padding": "VALID", "stride_h": 1, "stride_w": 1, "depth_multiplier": 1}
    return node(op, (q(1, 2, 2, 3, type=x), w, b), q(1, 2, 2, 3, type=x), **window)


def wide_layer(channels: int) -> Node:
    w = tensor((channels, 1), "INT8", 0.1, data=np.ones(channels))
    return node("FULLY_CONNECTED", (q(1, 1), w, None), q(1, channels))


def grouped(outputs: int) -> Node:
    w = tensor((outputs, 1, 1, 2), "INT8", 0.1, data=np.ones(2 * outputs))
    window = {"padding": "VALID", "stride_h": 1, "stride_w": 1}
    return node("CONV_2D", (q(1, 2, 2, 4), w, None), q(1, 2, 2, outputs), **window)


POOL = {"padding": "VALID", "filter_height": 1, "filter_width": 1, "stride_h": 1, "stride_w": 1}


def pooled(h: int, w: int, zero: int = 0) -> Node:
    return node("AVERAGE_POOL_2D", (q(1, h, w, 1),), q(1, h, w, 1, zero=zero), **POOL)


def sliced(begin: int, ellipsis: int = 0, shrink: int = 1, step: int = 1) -> Node:
    x = tensor((4, 5))
    at = (constant([begin, 0]), constant([begin + step, 1]), constant([step, 1]))
    kept = (1, 1) if not shrink else (1,)
    y = tensor((4, 1) if ellipsis == 1 else (4, 5) if ellipsis else kept)
    masks = {"begin_mask": 0, "end_mask": 0, "new_axis_mask": 0}
    return node("STRIDED_SLICE", (x, *at), y, ellipsis_mask=ellipsis, shrink_axis_mask=shrink, **masks)


def svdf(state: int) -> Node:
    memory = Tensor("state", "FLOAT32", (1, state), None, None, variable=True)
    parts = (tensor((1, 3)), tensor((4, 3), data=np.ones(12)), tensor((4, 5), data=np.ones(20)), None, memory)
    return node("SVDF", parts, tensor((1, 2)), rank=2)


def whole_svdf(place: int, zero: int) -> Node:
    """An int8 SVDF whose features (1) or filter over time (2) have a zero point."""
    given = recurrent_svdf._case(np.random.default_rng(1), "INT8", (1, 3), (4, 1, 5), (0.2, 0)).node
    inputs = [*given.inputs]
    t = given.input(place)
    inputs[place] = replace(t, quant=replace(t.quant, zero_point=np.array([zero])))  # type: ignore[type-var]
    return replace(given, inputs=tuple(inputs))


def kept_dimensions(*shape: int) -> Node:
    options = {"keep_num_dims": True, "fused_activation_function": "NONE"}
    w = tensor((3, 4), data=np.ones((3, 4)))
    return node("FULLY_CONNECTED", (tensor(shape), w, None), tensor((*shape[:-1], 3)), **options)


def resized(**options: bool) -> Node:
    return node("RESIZE_BILINEAR", (tensor((1, 2, 2, 1)), constant([4, 4])), tensor((1, 4, 4, 1)), **options)


def split(count: int) -> Node:
    return node("SPLIT", (constant(0), tensor((6,))), (tensor((6 // count,)),) * count, num_splits=count)


def ending(op: str, scale: float, zero: int, depth: int = 4, x_scale: float = 0.1) -> Node:
    """An operator whose output may have only one quantisation."""
    return node(op, (q(2, depth, scale=x_scale),), q(2, depth, scale=scale, zero=zero))


def layers() -> Iterator[Refusal]:
    good, deep = layer(), layer("DEPTHWISE_CONV_2D", bias_type="INT64", x="INT16")
    yield "zero points of weights", layer("DEPTHWISE_CONV_2D"), layer("DEPTHWISE_CONV_2D", zeros=1), ModelError, "zero"
    yield "scales of channels", layer(scales=3), layer(scales=2), ModelError, "2 scales for 3 output channels"
    yield "long bias", good, layer(bias=4), ModelError, "must have 3 elements"
    yield "short bias", good, layer(bias=2), ModelError, "must have 3 elements"
    narrow = layer("DEPTHWISE_CONV_2D", bias_type="INT32", x="INT16")
    yield "16x8 bias", deep, narrow, UnsupportedOperatorError, "INT64"
    yield "channels", wide_layer(1 << 10), wide_layer((1 << 20) + 1), UnsupportedOperatorError, "split it"
    yield "kept dimensions", kept_dimensions(3, 4), kept_dimensions(2, 6), ModelError, "must end in 4"
    yield "groups", grouped(4), grouped(3), ModelError, "do not divide into 2 groups"


def pictures() -> Iterator[Refusal]:
    yield "pooling's zero point", pooled(2, 2), pooled(2, 2, zero=1), UnsupportedOperatorError, "same quantisation"
    large = pooled(1 << 12, (1 << 11) + 1)
    yield "pooling's window", pooled(1 << 12, 1 << 11), large, UnsupportedOperatorError, "may not fit int32"
    both = resized(align_corners=True, half_pixel_centers=True)
    yield "resize", resized(align_corners=True), both, ModelError, "exclude each other"


def moved() -> Iterator[Refusal]:
    pair = (tensor((2, 3)), tensor((2, 4))), (tensor((2, 3)), tensor((3, 3)))
    join = [node("CONCATENATION", xs, tensor((2, 7)), axis=1) for xs in pair]
    yield "concatenation", *join, ModelError, "does not fit"
    picked = [node("GATHER", (tensor((3, 2)), constant([i])), tensor((1, 2)), axis=0) for i in (2, 3)]
    yield "gather", *picked, ModelError, "numbers outside 0..2"
    mirrored = [
        node("MIRROR_PAD", (tensor((3,)), constant([[n, 0]])), tensor((3 + n,)), mode="REFLECT") for n in (2, 3)
    ]
    yield "mirror_pad", *mirrored, ModelError, "to mirror"
    padded = [node("PAD", (tensor((3,)), constant([[n, 2]])), tensor((5 + n,))) for n in (0, -1)]
    yield "pad", *padded, ModelError, "negative padding"
    shaped = [node("RESHAPE", (tensor((2, 3)), constant([n])), tensor((n,))) for n in (6, 5)]
    yield "reshape", *shaped, ModelError, "6 elements"
    cut = [node("SLICE", (tensor((4,)), constant([at]), constant([2])), tensor((2,))) for at in (2, 3)]
    yield "slice", *cut, ModelError, "not inside"
    yield "split", split(3), split(4), ModelError, "4 equal parts"
    yield "strided_slice", sliced(3), sliced(4), ModelError, "outside an axis of extent 4"
    yield "picked backwards", sliced(3), sliced(3, step=-1), ModelError, "cannot pick a single element"
    yield "ellipses", sliced(0, 1, 0), sliced(0, 3, 0), ModelError, "more than one ellipsis"


def sums() -> Iterator[Refusal]:
    """Sums of the value that is farthest from zero: a step over int32 is refused, a third of it is taken."""
    for type, farthest, zero in (("INT8", 255, -128), ("INT16", 32768, 0)):
        most = (2**31 - 1) // farthest
        for axis in (0, 1):
            counts = most // 3, most + 1
            nodes = [
                node("SUM", (q(n, n, type=type, zero=zero), constant([axis])), q(n, type=type), keep_dims=False)
                for n in counts
            ]
            yield f"sum of too many {type} along {axis}", *nodes, UnsupportedOperatorError, "may not fit int32"


def ends() -> Iterator[Refusal]:
    softmax = ending("SOFTMAX", 1 / 256, -128), ending("SOFTMAX", 1 / 256, -127)
    yield "softmax", *softmax, UnsupportedOperatorError, "zero point -128"
    rows = [ending("LOG_SOFTMAX", 16 / 256, 127, depth) for depth in (4095, 4096)]
    yield "log_softmax", *rows, UnsupportedOperatorError, "last dimension"
    most = (2**31 - 1) // 255**2
    squares = [ending("L2_NORMALIZATION", 1 / 128, 0, depth) for depth in (most, most + 1)]
    yield "l2_normalization", *squares, UnsupportedOperatorError, "squares"
    divided = [node("DIV", (q(4), q(4, scale=s)), q(4, scale=s)) for s in (1e-3, 1e-5)]
    yield "div", *divided, UnsupportedOperatorError, "too small"
    for at in (1, 2):
        zeros = whole_svdf(at, 0), whole_svdf(at, 1)
        yield f"zero point of svdf's input {at}", *zeros, UnsupportedOperatorError, "zero points of 0"
    yield "svdf", svdf(20), svdf(21), ModelError, "must have 20 elements"


def ranked(k: int, at: str = "INT32", count: int = 5, signature: tuple[int, ...] = ()) -> Node:
    """The greatest of a row; ``k`` -1: computed at run time."""
    number = tensor((), "INT32", name="k") if k < 0 else constant(k)
    values = Tensor("values", "FLOAT32", (2, max(k, 1)), shape_signature=signature)
    return node("TOPK_V2", (tensor((2, count)), number), (values, tensor((2, max(k, 1)), at)))


def ordered() -> Iterator[Refusal]:
    yield "topk of too few", ranked(5), ranked(6), ModelError, "the 6 greatest of the 5 values"
    yield "topk with numbers of 16 bits", *(ranked(1, "INT16", 2**15 + i) for i in (0, 1)), ModelError, "cannot count"
    open_shape = ranked(-1, signature=(2, -1))
    yield "topk of an open shape", ranked(-1), open_shape, UnsupportedOperatorError, "no fixed shape"


def summed(*scales: float, count: int = 2, y: float = 0.05) -> Node:
    inputs = tuple(q(4, scale=s) for s in scales or (0.05,) * count)
    return node("ADD_N", inputs, q(4, scale=y))


def ranged(start: float, limit: float, delta: float, type: str = "INT32", size: int = 3) -> Node:
    return node("RANGE", tuple(constant(v, type) for v in (start, limit, delta)), tensor((size,), type))


def looked_up(x: Tensor, at: int = 0, y: str = "FLOAT32") -> Node:
    return node("EMBEDDING_LOOKUP", (constant([at]), x), tensor((1, 2), y))


def known() -> Iterator[Refusal]:
    yield "add_n of scales", summed(0.05, 0.05), summed(0.05, 0.06), UnsupportedOperatorError, "quantised alike"
    yield "add_n of one", summed(count=2), summed(count=1), ModelError, "two inputs or more"
    yield "add_n into finer steps", summed(y=1e-6), summed(y=1e-8), UnsupportedOperatorError, "too small"
    longest = (1 << 23) - 1
    sums = [node("CUMSUM", (q(longest + i), constant([0])), q(longest + i)) for i in (0, 1)]
    yield "cumsum of too many", *sums, ModelError, "may not fit int32"
    sums = [node("CUMSUM", (q(longest + i, 1), constant([0])), q(longest + i, 1)) for i in (0, 1)]
    yield "cumsum of too many rows", *sums, ModelError, "may not fit int32"
    sums = [node("CUMSUM", (q(3, 4), constant([i])), q(3, 4)) for i in (-2, 2)]
    yield "cumsum along no axis", *sums, ModelError, "outside rank 2"
    yield "range of no step", ranged(0, 3, 1), ranged(0, 3, 0), ModelError, "do not lead"
    yield "range of nothing by no step", ranged(4, 4, 1, size=0), ranged(4, 4, 0, size=0), ModelError, "do not lead"
    yield "range away", ranged(3, 0, -1), ranged(3, 0, 1), ModelError, "do not lead"
    floats = ranged(0, 3, 1, "FLOAT32"), ranged(0, 3e30, 1e-3, "FLOAT32")
    yield "range without end", *floats, UnsupportedOperatorError, "too many steps"
    yield "range to infinity", floats[0], ranged(0, np.inf, 1, "FLOAT32"), ModelError, "finite"
    filled = [node("FILL", (constant([n]), tensor(())), tensor((2,))) for n in (2, -2)]
    yield "fill", *filled, ModelError, "not a valid shape"
    filled = [node("FILL", (shape, tensor(())), tensor((2,))) for shape in (constant([2]), tensor((1,), "INT32"))]
    yield "fill of run time", *filled, UnsupportedOperatorError, "must be a constant"
    args = [node("BROADCAST_ARGS", (constant([3, n]), constant([4])), tensor((2,), "INT32")) for n in (1, 2)]
    yield "broadcast_args", *args, ModelError, "do not broadcast"
    args = [node("BROADCAST_ARGS", (constant([4]), constant([3, n])), tensor((2,), "INT32")) for n in (1, 2)]
    yield "broadcast_args, the other way", *args, ModelError, "do not broadcast"
    places = [node("WHERE", (c,), tensor((1, 1), "INT64")) for c in (constant([1]), tensor((1,), "INT32"))]
    yield "where of run time", *places, UnsupportedOperatorError, "no fixed size"
    hot = [node("ONE_HOT", (constant([1]), constant(n), tensor(()), tensor(())), tensor((1, 2))) for n in (2, -2)]
    yield "one_hot", *hot, ModelError, "negative"
    flipped = [node("REVERSE_V2", (tensor((2, 3)), constant(axes)), tensor((2, 3))) for axes in ([0, 1], [1, -1])]
    yield "reverse_v2", *flipped, ModelError, "an axis twice"
    segments = [node("SEGMENT_SUM", (tensor((2,)), constant(at)), tensor((1,))) for at in ([0, 0], [0, -1])]
    yield "segment_sum", *segments, ModelError, "must rise from 0 on"
    segments = [node("SEGMENT_SUM", (tensor((2,)), constant(at)), tensor((1,))) for at in ([0, 0], [-1, 0])]
    yield "segment_sum below 0", *segments, ModelError, "must rise from 0 on"
    for why, condition, other in (("differ in shape", (3, 2), (1, 2)), ("does not fit", (2, 3, 2), (3, 2))):
        shapes = ((3, 2), (3, 2)), (condition, other)
        masks = [node("SELECT", (tensor(c, "BOOL"), tensor((3, 2)), tensor(b)), tensor((3, 2))) for c, b in shapes]
        yield f"select that {why}", *masks, ModelError, why
    rows = q(3, 2)
    yield "embedding_lookup", looked_up(rows, 2), looked_up(rows, 3), ModelError, "outside"
    yield "embedding_lookup's zero point", looked_up(rows), looked_up(q(3, 2, zero=1)), ModelError, "zero points of 0"
    scaled = [tensor((3, 2), "INT8", [0.1] * n) for n in (3, 2)]
    yield "embedding_lookup's scales", *map(looked_up, scaled), ModelError, "one per row"
    turned = replace(scaled[0], shape=(3, 3), quant=replace(along(scaled[0], 0).quant, axis=1))  # type: ignore[type-var]
    square = along(replace(scaled[0], shape=(3, 3)), 0)
    both = [node("EMBEDDING_LOOKUP", (constant([0]), x), tensor((1, 3))) for x in (square, turned)]
    yield "embedding_lookup's scales of columns", *both, ModelError, "those of its rows"
    pools = [node("L2_POOL_2D", (x,), replace(x, name="y"), **POOL) for x in (tensor((1, 2, 2, 1)), q(1, 2, 2, 1))]
    yield "l2_pool_2d", *pools, UnsupportedOperatorError, "FLOAT32"


REFUSALS = [*layers(), *pictures(), *moved(), *sums(), *ends(), *ordered(), *known()]


@pytest.mark.parametrize(("good", "bad", "error", "said"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS])
def test_refused(good: Node, bad: Node, error: type[TwinferError], said: str) -> None:
    assert infer_node(good) == [t.shape for t in good.outputs]
    with pytest.raises(error, match=said):
        infer_node(bad)


def test_zero_points_that_differ_in_weights_of_run_time() -> None:
    """The kernel has a single zero point."""

    def given(zeros: list[int]) -> Any:
        w = tensor((3, 4), "INT8", [0.1] * 3, zeros)
        dense = node("FULLY_CONNECTED", (q(2, 4), w, None), q(2, 3))
        return operators()[dense.op].lower(dense, GENERIC)

    assert given([5, 5, 5]).params["w_zero"] == 5
    with pytest.raises(ModelError, match="different zero points"):
        given([5, 5, 6])


@pytest.mark.parametrize(("type", "n"), [("INT8", 2100), ("INT16", 300)])
@pytest.mark.parametrize("op", ["REDUCE_MAX", "REDUCE_MIN"])
def test_ends_of_more_values_than_a_sum_may_have(op: str, type: str, n: int) -> None:
    """Nothing is added up: any number of values is taken."""
    x = q(n, n, type=type)
    values = np.random.default_rng(1).integers(-120, 120, (n, n)).astype(x.dtype)
    values[n - 1, n - 2], values[n - 2, 0] = 126, -126
    end = node(op, (x, constant([0, 1])), q(1, 1, type=type), keep_dims=True)
    (got,) = interpreted(graph_of(end), [values], GENERIC, 0)
    assert got.tolist() == [[126 if op == "REDUCE_MAX" else -126]]
