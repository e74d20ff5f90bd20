"""Data movers: operators that need no work, and operators that are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cases import cases_of, graph_of, interpreted, outputs_of

from twinfer.converter.build import Builder
from twinfer.converter.passes import run
from twinfer.runtime.errors import ModelError, TwinferError, UnsupportedOperatorError
from twinfer.runtime.graph import Node, Quant, Tensor
from twinfer.runtime.op import Shape, tensor
from twinfer.runtime.ops.move._move import same_meaning
from twinfer.runtime.plan.lower import lower_node
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.registry import operator
from twinfer.runtime.run.session import Session
from twinfer.runtime.shapes import infer_node
from twinfer.runtime.target import GENERIC, HOST

X = tensor((2, 1, 5), "INT8", 0.5, -7, name="x")


#: What is said of scales: options, error and message.
ALIKE = ({}, UnsupportedOperatorError, "quantised alike")
ZERO_POINT = ({}, UnsupportedOperatorError, "zero point of 0")


def index(*values: int, shape: Shape | None = None) -> Tensor:
    return tensor((len(values),) if shape is None else shape, "INT32", data=np.array(values), name="index")


def node(op: str, *inputs: Tensor, outputs: int = 1, **options: Any) -> Node:
    """The node with outputs as its operator infers them."""
    like = next(t for t in inputs if t.data is None)
    blank = Node(op, inputs, tuple(replace(like, name=f"y{i}", shape=()) for i in range(outputs)), options)
    shapes = operator(blank).infer(blank)
    return replace(blank, outputs=tuple(replace(t, shape=s) for t, s in zip(blank.outputs, shapes, strict=True)))


@pytest.mark.parametrize(
    "same",
    [
        node("SLICE", X, index(0, 0, 0), index(-1, 1, 5)),
        node("STRIDED_SLICE", X, index(0, 0, 0), index(2, 1, 5), index(1, 1, 1), shrink_axis_mask=2),
        node("TRANSPOSE", X, index(1, 0, 2)),
        node("CONCATENATION", X, axis=1),
        node("PACK", X, axis=-1, values_count=1),
        node("SPLIT", index(0), X, num_splits=1),
        node("PAD", X, index(*[0] * 6, shape=(3, 2))),
        node("DYNAMIC_UPDATE_SLICE", X, replace(X, shape=(2, 0, 5)), tensor((3,), "INT32")),
    ],
    ids=lambda n: n.op,
)
def test_identities_cost_nothing(same: Node) -> None:
    call, _ = lower_node(same, HOST)
    assert (call.kernel, call.inplace) == ("tw_copy", (0,))


@pytest.mark.parametrize("at", [(0, 0), (2, 1), (9, -9)])
def test_a_box_is_replaced_in_place(at: tuple[int, int]) -> None:
    """What is updated and the result share their memory, as nobody else needs it."""
    b = Builder("box")
    x, box = b.input("x", "FLOAT32", (4, 6)), b.input("box", "FLOAT32", (2, 3))
    y = b.op("DYNAMIC_UPDATE_SLICE", [b.op("NEG", [x]), box, np.array(at, np.int32)])
    graph = b.graph([b.op("ABS", [b.op("NEG", [y])])])
    plan = make_plan(graph)
    (call,) = (s.call for s in plan.steps if s.node.op == "DYNAMIC_UPDATE_SLICE")
    assert plan.places[call.inputs[0]] == plan.places[call.outputs[0]]  # type: ignore[index]
    values = [np.arange(24, dtype=np.float32).reshape(4, 6), np.full((2, 3), 99, np.float32)]
    (got,) = outputs_of(Session(plan), values)
    want = values[0].copy()
    top, left = np.clip(at, 0, (2, 3))
    want[top : top + 2, left : left + 3] = 99
    np.testing.assert_array_equal(got, want)
    assert "DYNAMIC_UPDATE_SLICE" in [node.op for node in run(graph).nodes]  # passes do not take it for an identity


def test_tiles_where_they_pay() -> None:
    wide = node("TRANSPOSE", tensor((32, 20), "INT8", name="x"), index(1, 0))
    thin = node("TRANSPOSE", tensor((32, 3), "INT8", name="x"), index(1, 0))
    assert lower_node(wide, HOST)[0].kernel == "tw_transpose"
    assert lower_node(wide, GENERIC)[0].kernel == "tw_slice"
    call, choice = lower_node(thin, HOST)
    assert call.kernel == "tw_slice"
    assert choice.declined == (("tiled", "an axis has fewer than the 16 elements of a tile"),)


@pytest.mark.parametrize("type", ["FLOAT32", "INT8"])
def test_the_most_loops_that_a_copy_takes(type: str) -> None:
    """The last dimension lies in one piece; each other one that is cut takes a loop."""
    for rank in (7, 8):
        x = tensor((3,) * rank, type, name="x") if type == "FLOAT32" else tensor((3,) * rank, type, 0.5, name="x")
        cut = node("SLICE", x, index(*[1] * rank), index(*[2] * rank))
        if rank == 7:
            assert lower_node(cut, GENERIC)[0].kernel == "tw_slice"
        else:
            with pytest.raises(UnsupportedOperatorError, match="needs 7 loops, 6 are the limit; use fewer dimensions"):
                lower_node(cut, GENERIC)


def test_dimensions_collapse() -> None:
    rows = node("SLICE", tensor((4, 6, 8, 3), "FLOAT32", name="x"), index(1, 2, 0, 0), index(2, 3, 8, 3))
    params = lower_node(rows, HOST)[0].params
    loops = {"n": (1, 1, 1, 1, 1), "steps": (0, 0, 0, 0, 0)}
    assert params == {"start": 768, "size": 288, "count": 2, "step": 576, **loops}


@pytest.mark.parametrize(
    ("op", "inputs", "options", "error", "message"),
    [
        ("PAD", (X, tensor((3, 2), "INT32", name="p")), {}, UnsupportedOperatorError, "must be a constant"),
        ("SLICE", (X, index(0, 0), index(2, 1)), {}, ModelError, "3 elements"),
        ("STRIDED_SLICE", (X, *[index(0, 0, 0)] * 3), {}, ModelError, "stride 0"),
        ("TRANSPOSE", (X, index(0, 0, 1)), {}, ModelError, "permutation"),
        ("CONCATENATION", (X, X), {"axis": 3}, ModelError, "outside rank"),
        ("CONCATENATION", (X, tensor((2, 1, 5), "INT8", 0.6, -7)), {}, UnsupportedOperatorError, "QUANTIZE"),
        ("CONCATENATION", (X,), {"fused_activation_function": "RELU"}, UnsupportedOperatorError, "RELU"),
        ("PACK", (X, tensor((2, 1, 4), "INT8", 0.5, -7)), {}, ModelError, "shape"),
        ("PACK", (X, tensor((2, 1, 5), "INT16")), {}, ModelError, "type"),
        ("UNPACK", (X,), {"axis": 2}, ModelError, "does not make 1 outputs"),
        ("SPLIT_V", (X, index(3), index(0)), {}, ModelError, "do not make up"),
        ("GATHER_ND", (X, index(1, 1, shape=(1, 2))), {}, ModelError, r"outside of \[2, 1\]"),
        ("GATHER_ND", (X, index(0, -1, shape=(1, 2))), {}, ModelError, r"outside of \[2, 1\]"),
        ("GATHER_ND", (X, index(*[0] * 4, shape=(1, 4))), {}, ModelError, "1 to 3 numbers"),
        ("GATHER_ND", (X, tensor((1, 1), "UINT8", name="at")), {}, UnsupportedOperatorError, "INT32"),
        ("GATHER_ND", (tensor((1,) * 6), tensor((1, 6), "INT32", name="at")), {}, UnsupportedOperatorError, "reshape"),
        ("SCATTER_ND", (index(2, shape=(1, 1)), tensor((1,)), index(2)), {}, ModelError, "outside"),
        ("SCATTER_ND", (index(1, shape=(1, 1)), tensor((2,)), index(2)), {}, ModelError, r"must be \[1\]"),
        ("SCATTER_ND", (index(1, shape=(1, 1)), tensor((0,)), index(-1)), {}, ModelError, "not a valid shape"),
        ("SCATTER_ND", (index(1, shape=(1, 1)), tensor((1,), "INT8", 0.5, 3), index(2)), *ZERO_POINT),
        ("DYNAMIC_UPDATE_SLICE", (X, tensor((2, 2, 5), "INT8", 0.5, -7), index(0, 0, 0)), {}, ModelError, "larger"),
        ("DYNAMIC_UPDATE_SLICE", (X, tensor((2, 5), "INT8", 0.5, -7), index(0, 0, 0)), {}, ModelError, "dimensions"),
        ("DYNAMIC_UPDATE_SLICE", (X, X, index(0, 0)), {}, ModelError, "3 elements"),
        ("DYNAMIC_UPDATE_SLICE", (X, tensor((2, 1, 5), "INT8", 0.6), index(0, 0, 0)), *ALIKE),
        ("SPACE_TO_BATCH_ND", (X, index(2), index(0, 0, shape=(1, 2))), {}, ModelError, "cut into blocks"),
        ("SPACE_TO_BATCH_ND", (X, index(0), index(0, 0, shape=(1, 2))), {}, ModelError, "positive"),
        ("SPACE_TO_BATCH_ND", (X, index(1), index(0, -1, shape=(1, 2))), {}, ModelError, "negative"),
        ("BATCH_TO_SPACE_ND", (X, index(3), index(0, 0, shape=(1, 2))), {}, ModelError, "does not make blocks"),
        ("BATCH_TO_SPACE_ND", (X, index(2), index(1, 2, shape=(1, 2))), {}, ModelError, "larger than"),
        ("BATCH_TO_SPACE_ND", (tensor((2, 2)), index(2), index(1, 2, shape=(1, 2))), {}, ModelError, "three or four"),
        ("SLICE", (tensor((4,), "INT4"), index(0), index(2)), {}, UnsupportedOperatorError, "fixed size"),
    ],
)
def test_refused(
    op: str, inputs: tuple[Tensor, ...], options: dict[str, Any], error: type[TwinferError], message: str
) -> None:
    with pytest.raises(error, match=message):
        node(op, *inputs, **options)


@pytest.mark.parametrize(("type", "ends"), [("INT8", (-128, 127)), ("INT16", (0,))])
@pytest.mark.parametrize("change", [0, 0.5, -0.5, 0.98, -0.98, 1.02, -1.02, 5, 100])
def test_scales_are_the_same_if_requantising_changes_nothing(type: str, ends: tuple[int, ...], change: float) -> None:
    """Brute force over all values and the zero points at the ends. ``change``: half steps at the far end."""
    values = np.iinfo(type.lower())
    q = np.arange(values.min, values.max + 1)
    for zero in ends:
        a, b = tensor((1,), type, 0.5 * (1 + change * 0.5 / q.size), zero), tensor((1,), type, 0.5, zero)
        unchanged = np.array_equal(np.round((q - zero) * (a.scale / b.scale)) + zero, q)
        assert unchanged or not same_meaning(a, b)
        assert same_meaning(a, b) == (abs(change) < 1)


@pytest.mark.parametrize(
    "op",
    [
        *("CONCATENATION", "PACK", "DYNAMIC_UPDATE_SLICE", "EMBEDDING_LOOKUP", "FILL", "ONE_HOT", "GATHER_ND"),
        *("SCATTER_ND", "REVERSE_V2", "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND", "SELECT", "SELECT_V2", "PADV2"),
        *("AVERAGE_POOL_2D", "MAX_POOL_2D", "REDUCE_MAX", "REDUCE_MIN", "TOPK_V2"),
    ],
)
def test_every_tensor_must_be_quantised_alike(op: str) -> None:
    """Each of them, where values are handed on as they are. (TFLM does not look at what PADV2 pads.)"""
    for case in cases_of(op).values():
        tensors, count = (*case.node.inputs, *case.node.outputs), len(case.node.inputs)
        for i, t in enumerate(tensors):
            if t is None or t.type != "INT8" or t.quant is None or t.quant.per_channel or (op, i) == ("PADV2", 0):
                continue
            if sum(other is not None and other.type == "INT8" for other in tensors) < 2:
                continue
            for quant in (Quant.per_tensor(1.3 * t.scale, t.zero), Quant.per_tensor(t.scale, t.zero + 1)):
                others = (*tensors[:i], replace(t, quant=quant), *tensors[i + 1 :])
                with pytest.raises(UnsupportedOperatorError, match=r"quanti|QUANTIZE"):
                    infer_node(replace(case.node, inputs=others[:count], outputs=others[count:]))


@pytest.mark.parametrize(
    "op", ["SELECT", "DYNAMIC_UPDATE_SLICE", "GATHER_ND", "SCATTER_ND", "TOPK_V2", "EMBEDDING_LOOKUP"]
)
def test_one_input_or_output_too_many_or_few(op: str) -> None:
    """Both numbers are told."""
    good = next(iter(cases_of(op).values())).node
    takes, makes = len(good.inputs), len(good.outputs)
    for inputs in (good.inputs[:-1], (*good.inputs, good.inputs[0])):
        with pytest.raises(ModelError, match=f"it has {len(inputs)} inputs, {op} takes {takes}"):
            infer_node(replace(good, inputs=inputs))
    outputs = (*good.outputs, good.outputs[0])
    with pytest.raises(ModelError, match=f"it has {makes + 1} outputs, {op} makes {makes}"):
        infer_node(replace(good, outputs=outputs))


NUMBERS = tensor((3,), "INT32", name="at")


def _boxed(op: str, inputs: tuple[Tensor, ...], y: Tensor, **options: int) -> Node:
    masks = {f"{name}_mask": 0 for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    return Node(op, (X, *inputs), (y,), {**masks, "offset": False, **options} if op == "STRIDED_SLICE" else {})


@pytest.mark.parametrize(
    ("op", "inputs", "shape", "message"),
    [
        ("SLICE", (NUMBERS, index(2, 1, 6)), (2, 1, 6), "do not fit in an extent of 5"),
        ("SLICE", (NUMBERS, NUMBERS), (2, 1, 6), "do not fit in an extent of 5"),
        ("SLICE", (NUMBERS, NUMBERS), (2, 5), "as many dimensions"),
        ("SLICE", (NUMBERS, index(2, -2, 3)), (2, 1, 3), "neither an extent nor -1"),
        ("SLICE", (index(0, 0, 4), NUMBERS), (2, 1, 3), "not inside"),
        ("STRIDED_SLICE", (NUMBERS, NUMBERS, index(1, 1, 3)), (2, 1, 3), "do not fit in an extent of 5"),
        ("STRIDED_SLICE", (NUMBERS, NUMBERS, index(1, 1, -3)), (2, 1, 3), "do not fit in an extent of 5"),
        ("STRIDED_SLICE", (index(0, 0, 3), NUMBERS, index(1, 1, 1)), (2, 1, 3), "are not inside 5"),
        ("STRIDED_SLICE", (NUMBERS, NUMBERS, index(1, 0, 1)), (2, 1, 3), "stride 0"),
    ],
)
def test_boxes_that_are_moved_at_run_time_fit_in_the_tensor(
    op: str, inputs: tuple[Tensor, ...], shape: Shape, message: str
) -> None:
    refused = _boxed(op, inputs, replace(X, name="y", shape=shape))
    with pytest.raises(ModelError, match=message):
        operator(refused).infer(refused)


@pytest.mark.parametrize("op", ["SLICE", "STRIDED_SLICE"])
def test_a_size_that_is_decided_at_run_time_is_refused(op: str) -> None:
    strides = (index(1, 1, 1),) if op == "STRIDED_SLICE" else ()
    open_ended = _boxed(op, (NUMBERS, NUMBERS, *strides), replace(X, name="y", shape_signature=(2, 1, -1)))
    with pytest.raises(UnsupportedOperatorError, match=r"dimension 2 .* decided at run time"):
        operator(open_ended).infer(open_ended)
    if op == "SLICE":
        known = _boxed(op, (NUMBERS, index(2, 1, 3)), open_ended.output)
        assert operator(known).infer(known) == [(2, 1, 3)]


def test_strides_that_are_computed_at_run_time_are_refused() -> None:
    varying = _boxed("STRIDED_SLICE", (NUMBERS, NUMBERS, NUMBERS), replace(X, name="y"))
    with pytest.raises(TwinferError, match="at' INT32"):
        operator(varying).infer(varying)


@pytest.mark.parametrize("seed", range(150))
def test_strided_slices_by_all_their_masks(seed: int) -> None:
    """Begin, end, ellipsis, new axes and shrunk ones together, as numpy's indexing has them."""
    rng = np.random.default_rng(seed)
    x = tensor(tuple(int(n) for n in rng.integers(2, 5, rng.integers(1, 4))), "INT32", name="x")
    kinds = ["cut"] * int(rng.integers(0, len(x.shape) + 1)) + ["new"] * int(rng.integers(0, 3))
    rng.shuffle(kinds)
    if rng.integers(2):
        kinds.insert(int(rng.integers(len(kinds) + 1)), "ellipsis")
    if not kinds:
        return
    masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
    begin, end, strides, where = rng.integers(-2, 2, len(kinds)), rng.integers(-2, 4, len(kinds)), [], []
    for i, kind in enumerate(kinds):
        strides.append(int(rng.choice([-1, 1, 2])))
        bits = {f"{name}_mask": bool(rng.integers(2)) for name in ("begin", "end")}
        if kind == "ellipsis":
            where.append(...)
        elif kind == "new":
            where.append(None)
        elif rng.integers(3) == 0:
            bits, strides[-1] = {"shrink_axis_mask": True}, 1
            where.append(int(begin[i]))
        else:
            at = (None if bits[f"{name}_mask"] else int(v) for name, v in (("begin", begin[i]), ("end", end[i])))
            where.append(slice(*at, strides[-1]))
        bits |= {f"{kind}_mask": True, "new_axis_mask": kind == "new"}
        for name in masks:
            masks[name] |= bits.get(name, False) << i
    value = np.arange(x.size, dtype=np.int32).reshape(x.shape)
    want = value[tuple(where)]
    cut = node("STRIDED_SLICE", x, *(index(*map(int, v)) for v in (begin, end, strides)), **masks, offset=False)
    assert cut.output.shape == want.shape
    if want.size:
        np.testing.assert_array_equal(interpreted(graph_of(cut), [value], GENERIC, 0)[0], want)
